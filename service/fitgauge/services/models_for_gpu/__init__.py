"""POST /v1/models-for-gpu: which bundled models run on a GPU?"""
