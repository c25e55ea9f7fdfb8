"""Model specifications: what a model is made of, read from its config.json."""
