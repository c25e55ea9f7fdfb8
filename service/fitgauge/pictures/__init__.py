"""Answers as pictures: SVG, and PNG where a chat takes no SVG."""
