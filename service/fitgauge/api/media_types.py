"""Media types of the API in addition to plain JSON."""

PROBLEM_JSON = "application/problem+json"

NDJSON = "application/x-ndjson"

UPLOADS = ("application/gzip", "application/octet-stream", "application/x-gzip")
"""of a profiler trace"""
