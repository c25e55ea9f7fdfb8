"""check_fit: will a model fit when it is served."""
