"""Weights sharded over ranks and pipeline stages."""
