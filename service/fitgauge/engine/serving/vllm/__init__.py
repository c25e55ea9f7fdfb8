"""vLLM, as its own source computes it: version 0.33.0 unless a function says otherwise."""
