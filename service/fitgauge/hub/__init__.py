"""Resolves a Hub ID into a Model: two requests for a cold one, none for a warm one, and never a long wait.

resolver.py   Hub: memory, disk, then the Hub, within the time a caller waits
reference.py  what people type -> Reference
fetch.py      one resolve: the requests and what they mean together
client.py     requests, retries, bounds; refusals.py turns the Hub's refusals into errors
description.py, gguf_files.py, gguf.py, gguf_config.py   reading what the Hub sends
facts.py      what is kept of an answer, and the Model that follows from it
siblings.py   quantized repositories of a model, and the few worth a look
cache.py      memory and disk; flight.py single flight; gate.py outages
"""

from fitgauge.hub.reference import Reference, parse_reference
from fitgauge.hub.resolver import Hub
from fitgauge.hub.settings import HubSettings

__all__ = ["Hub", "HubSettings", "Reference", "parse_reference"]
