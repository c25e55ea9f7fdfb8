"""Speed: decoding, prefill, FLOPs."""
