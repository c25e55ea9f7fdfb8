"""Hunt for differences between this service and vLLM's own code, on configs drawn from a seed."""
