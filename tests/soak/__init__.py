"""Faults and load: what each does to callers, and the status that they are answered with.

`make soak` writes docs/RELIABILITY.md; test_soak.py is its short form."""
