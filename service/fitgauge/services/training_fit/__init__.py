"""POST /v1/training-fit: will a model fit when it is trained?"""
