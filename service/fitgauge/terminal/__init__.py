"""Answers as a person reads them in a terminal: the picture before the table."""
