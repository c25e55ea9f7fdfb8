"""POST /v1/recommend: which GPUs should a model run on?"""
