"""A Hugging Face Hub for tests: a real HTTP server in a thread, with real metadata, that misbehaves
on demand.

with HubStandIn(safetensors_repository("acme/tiny", config)) as hub:
    hub.fault("config.json", status=503, times=1)
    ... HubSettings(endpoint=hub.url, token=False, cache_dir=None) ...
    assert hub.count("/api/models/acme/tiny") == 1
"""

from hub_stand_in.repositories import (
    Repository,
    gguf_repository,
    llama_config,
    safetensors_repository,
)
from hub_stand_in.server import HubStandIn, Request

__all__ = [
    "HubStandIn",
    "Repository",
    "Request",
    "gguf_repository",
    "llama_config",
    "safetensors_repository",
]
