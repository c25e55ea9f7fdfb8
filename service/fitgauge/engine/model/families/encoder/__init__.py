"""Encoders and encoder-decoders."""
