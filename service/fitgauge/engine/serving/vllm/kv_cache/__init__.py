"""vLLM's KV cache: dtypes, specs, groups and the layout of blocks."""
