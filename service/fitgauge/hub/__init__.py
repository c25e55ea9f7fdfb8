"""Resolves a Hub ID into a Model: two requests for a cold one, none for a warm one, and never a
long wait.

resolver.py Hub: memory, disk, then the Hub, within the time a caller waits reference.py what
people type -> Reference fetch.py one resolve: the requests and what they mean together client.py
requests, retries; bodies.py bounds, redirects.py what is followed, errors.py the Hub's refusals
as errors description.py, gguf_files.py, gguf.py, gguf_config.py reading what the Hub sends
facts.py what is kept of an answer, and the Model that follows from it siblings.py quantized
repositories of a model, and the few worth a look cache.py memory, disk and failures;
single_flight.py; turns.py how many at once; circuit_breaker.py outages"""

from fitgauge.hub.reference import Reference, parse_reference
from fitgauge.hub.resolver import Hub
from fitgauge.hub.settings import HubSettings

__all__ = ["Hub", "HubSettings", "Reference", "parse_reference"]
