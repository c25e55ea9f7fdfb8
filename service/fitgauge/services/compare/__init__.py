"""POST /v1/compare: a table of models, GPUs and settings."""
