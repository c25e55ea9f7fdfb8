"""POST /v1/explain-log: a start-up log compared with its estimate."""
