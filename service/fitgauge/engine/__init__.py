"""The estimation engine: numbers in, numbers out. No I/O, no clock, no framework."""
