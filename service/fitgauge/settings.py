"""What can be set from outside, by environment variables; huggingface_hub's own (HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, HF_HOME) mean what
they mean to it."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fitgauge.errors import InvalidQuestion


@dataclass(frozen=True)
class Settings:
    """All settings with their defaults. README says what each means."""

    host: str = "127.0.0.1"
    port: int = 8000
    log_level: str = "info"
    hub_wait_seconds: float = 2.0
    hub_redirect_hosts: str = "huggingface.co, *.huggingface.co, hf.co, *.hf.co"
    max_body_bytes: int = 64 * 1024
    requests_per_second: float = 0.0
    public_url: str = "/"
    catalog: str = ""
    catalog_seconds: float = 5.0


def variable(field: str) -> str:
    """The environment variable of a setting."""
    return f"FITGAUGE_{field.upper()}"


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this process. Raises InvalidQuestion, naming the variable, for a value that cannot be read."""
    given: dict[str, object] = {}
    for field, default in asdict(Settings()).items():
        text = environment.get(variable(field))
        if text is None:
            continue
        try:
            given[field] = type(default)(text)
        except ValueError:
            raise InvalidQuestion(f"{variable(field)} is {text!r}.", hint=f"Set it to a value such as {default!r}.") from None
    settings = Settings(**given)  # type: ignore[arg-type]
    if not 0.1 <= settings.catalog_seconds <= 3600:
        raise InvalidQuestion(f"FITGAUGE_CATALOG_SECONDS is {settings.catalog_seconds}.", hint="Set it to a number from 0.1 to 3600.")
    return settings
