"""Settings of the Hub resolver: endpoint, timeouts, cache sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import constants

from fitgauge.hub.redirects import HUB_HOSTS


def default_cache() -> Path:
    """`$HF_HOME/fitgauge`, where HF_HOME is what huggingface_hub takes it for."""
    return Path(constants.HF_HOME) / "fitgauge"


@dataclass(frozen=True, kw_only=True)
class HubSettings:
    """Settings of the resolver. HF_ENDPOINT, HF_HUB_OFFLINE, HF_HOME and HF_TOKEN are read by
    huggingface_hub when it is imported.

    The resolver speaks with one token, the service's own (`token` None: the one huggingface_hub
    finds): whoever may ask the service may see what that token may see, and answers are cached
    without regard to who asked. No token is ever stored."""

    endpoint: str = field(default_factory=lambda: constants.ENDPOINT)
    offline: bool = field(default_factory=constants.is_offline_mode)
    token: str | bool | None = None
    cache_dir: Path | None = field(default_factory=default_cache)
    """None: nothing is kept on disk"""
    wait_seconds: float = 2.0
    """the longest a caller waits, connecting and retries included"""
    sibling_seconds: float = 1.0
    """the longest an answer waits for quantized siblings to suggest"""
    flight_seconds: float = 30.0
    """the longest a resolve goes on in the background after its callers left"""
    request_seconds: float = 10.0
    """the longest silence of one request"""
    attempts: int = 4
    first_delay_seconds: float = 0.1
    """before the second attempt; doubles from there"""
    fresh_seconds: float = 3600.0
    """how long an answer is taken as it is; older ones are given at once and checked in the
    background"""
    refusal_seconds: float = 30.0
    """how long a missing, gated or broken repository is remembered as such"""
    outage_seconds: float = 5.0
    """how long the circuit breaker stays open, and how long the failure of one repository is
    remembered"""
    redirect_hosts: Sequence[str] = tuple(HUB_HOSTS.split(","))
    """where redirects may lead beyond the endpoint: name, *.name or name:port"""
    concurrent_resolves: int = 16
    slow_resolves: int = 8
    """resolves that go on in the background after half of `wait_seconds`, beyond the concurrent"""
    queued_resolves: int = 256
    kept_models: int = 1024
    kept_bytes: int = 32 * 2**20
    """of models in memory, with all that they hold"""
    stored_models: int = 4096
    """files kept on disk"""
    stored_bytes: int = 256 * 2**20
    """of these files together"""
