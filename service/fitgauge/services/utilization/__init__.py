"""POST /v1/utilization: MFU, HFU and profiler traces."""
