"""POST /v1/training-plan: which layouts train a model on the fewest GPUs?"""
