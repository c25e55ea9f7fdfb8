"""POST /v1/ask: a sentence read by a grammar, and answered by the service it means."""
