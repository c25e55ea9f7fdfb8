"""recommend_gpus: what a model should be served or trained on."""
