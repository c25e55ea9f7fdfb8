"""Which architectures each engine has a class for: one file an engine, names as the engine spells them, with their source."""
