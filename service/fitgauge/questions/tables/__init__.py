"""compare_fit and list_models_that_fit: many models on many cards."""
