"""Dense decoders."""
