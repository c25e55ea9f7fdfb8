"""Which engine wrote a log, what PyTorch prints when memory runs out, and profiler traces. Every
engine brings the parser of its own log (`LogParser`)."""
