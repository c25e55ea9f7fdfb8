"""Parameters, gradients, optimizer states, and their sharding."""
