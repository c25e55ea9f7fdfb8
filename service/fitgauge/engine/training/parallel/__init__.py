"""Parallel degrees: pipeline, ZeRO, FSDP."""
