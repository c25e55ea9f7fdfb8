"""`fitgauge fleet`: many models x GPUs x loads in one file; what fits where, the fewest and the
cheapest GPUs for all of them together, and what a release changes. Read by `fleet_file`, answered
by `service`."""
