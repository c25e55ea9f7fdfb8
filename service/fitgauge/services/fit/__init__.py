"""POST /v1/fit: will a model fit when it is served?"""
