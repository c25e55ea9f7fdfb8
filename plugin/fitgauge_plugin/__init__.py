"""Fitgauge for other hosts: it speaks HTTP through the contract in openapi/ and imports nothing
of the service."""
