"""Recurrent and hybrid decoders."""
