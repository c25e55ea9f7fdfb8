"""The HTTP face: decode, one call, encode. If a line multiplies, it belongs downstairs."""
