"""check_training_fit: will a model fit when it is trained."""
