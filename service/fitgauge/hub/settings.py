"""Settings of the Hub resolver: endpoint, timeouts, cache sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import constants

from fitgauge.redaction import redacted

HUB_HOSTS = "huggingface.co, *.huggingface.co, hf.co, *.hf.co"
"""Where the Hub sends downloads on to: hub-docs, models-downloading.md, "behind a proxy or
firewall" (cas-server.xethub.hf.co, us.aws.cdn.hf.co, cdn-lfs-us-1.hf.co, cdn-lfs.huggingface.co,
...)."""


def default_cache() -> Path:
    """`$HF_HOME/fitgauge`, where HF_HOME is what huggingface_hub takes it for."""
    return Path(constants.HF_HOME) / "fitgauge"


@dataclass(frozen=True, kw_only=True)
class HubSettings:
    """Settings of the resolver. HF_ENDPOINT, HF_HUB_OFFLINE, HF_HOME and HF_TOKEN are read by
    huggingface_hub when it is imported."""

    endpoint: str = field(default_factory=lambda: constants.ENDPOINT)
    """URL of the Hub."""
    offline: bool = field(default_factory=constants.is_offline_mode)
    """Whether nothing is fetched."""
    token: str | bool | None = None
    """The service's own; None: the one that huggingface_hub has. Whoever may call the service may
    see what this token may see. What a caller's own token shows is cached for that token alone,
    and never on disk. No token is ever stored."""
    cache_dir: Path | None = field(default_factory=default_cache)
    """Folder of the disk cache; None: nothing is stored on disk."""
    wait_seconds: float = 2.0
    """The longest a caller waits, connecting and retries included."""
    sibling_seconds: float = 1.0
    """The longest an answer waits for what it only suggests: quantized siblings, names."""
    flight_seconds: float = 30.0
    """The longest a resolve goes on in the background after its callers left."""
    request_seconds: float = 10.0
    """The longest silence of one request."""
    attempts: int = 4
    """Tries of one request, the first included."""
    first_delay_seconds: float = 0.1
    """Delay before the second attempt; doubles from there."""
    fresh_seconds: float = 3600.0
    """How long an answer is taken as it is; older ones are returned at once and checked in the
    background."""
    refusal_seconds: float = 30.0
    """How long a missing, gated or broken repository is cached as such."""
    outage_seconds: float = 5.0
    """How long the circuit breaker stays open, and how long the failure of one repository is
    cached."""
    redirect_hosts: Sequence[str] = tuple(HUB_HOSTS.split(","))
    """Where redirects may lead beyond the endpoint: name, *.name or name:port."""
    concurrent_resolves: int = 16
    """Resolves at once."""
    slow_resolves: int = 8
    """Resolves that go on in the background after half of `wait_seconds`, in addition to those."""
    queued_resolves: int = 256
    """Resolves that wait for their turn; more are refused."""
    cached_models: int = 1024
    """Models in memory."""
    cached_bytes: int = 32 * 2**20
    """Bytes of models in memory, with all that they hold."""
    stored_models: int = 4096
    """Files on disk."""
    stored_bytes: int = 256 * 2**20
    """Bytes of these files."""

    @property
    def shown_endpoint(self) -> str:
        """The URL as messages name it: without a password."""
        return redacted(self.endpoint)
