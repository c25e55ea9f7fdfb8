"""explain_log: what an engine said of itself beside its estimate."""
