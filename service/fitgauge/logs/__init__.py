"""Which engine wrote a log, what PyTorch prints when memory runs out, and profiler traces. The
parsers of the engines' logs are in engine/serving/vllm/start_log.py and alike."""
