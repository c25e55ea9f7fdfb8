"""plan_training: which layout trains it on the fewest GPUs."""
