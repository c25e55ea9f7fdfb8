"""What PyTorch's caching allocator makes of a step: `caching.py` its rules, `moves.py` what a
segment asks of it, `process.py` and `process_fsdp.py` two steps of a process."""
