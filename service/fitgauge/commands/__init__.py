"""The commands, one module each; `cli.py` lists them. Only the one that runs is imported."""
