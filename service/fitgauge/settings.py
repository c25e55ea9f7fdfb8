"""What can be set from outside, by environment variables.

huggingface_hub's own (HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, HF_HOME) mean what they mean to it.
"""

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from huggingface_hub import constants
from msgspec import Struct

from fitgauge.errors import InvalidSettingsError
from fitgauge.field_docs import doc

PREFIX = "FITGAUGE_"


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings with their defaults. A description says what a value must be."""

    host: Annotated[str, doc("an address, such as 0.0.0.0", min_length=1)] = "127.0.0.1"
    """Where `fitgauge serve` listens."""
    port: Annotated[int, doc("a port from 0 to 65535", ge=0, le=65535)] = 8000
    """The port that it listens on; 0: any that is free."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"],
        doc("debug, info, warning, error or critical"),
    ] = "info"
    """The least severe lines that are written."""
    log_format: Annotated[Literal["text", "json"], doc("text or json")] = "text"
    """`json`: one object a line, with what a request was answered with."""
    hub_wait_seconds: Annotated[float, doc("a number of seconds from 0 to 600", ge=0, le=600)] = 2.0
    """The longest a caller waits for the Hub."""
    hub_redirect_hosts: Annotated[
        str, doc("host names divided by commas, such as hf.co, *.hf.co")
    ] = "huggingface.co, *.huggingface.co, hf.co, *.hf.co"
    """Where the Hub may redirect to, in addition to its own address: `name`, `*.name` or
    `name:port`."""
    max_body_bytes: Annotated[
        int, doc("a number of bytes from 1024 to 16777216", ge=1024, le=2**24)
    ] = 64 * 1024
    """Larger questions are refused."""
    requests_per_second: Annotated[
        float, doc("a number from 0 (no limit) to 1000000", ge=0, le=1e6)
    ] = 0.0
    """Beyond it: 429 with Retry-After. `training-fit` and `explain-log` count as 5 requests, `ask`
    and `recommend` as 10, `compare`, `models-for-gpu`, `training-plan` and permalinks as 20."""
    question_seconds: Annotated[
        float, doc("a number of seconds from 0.1 to 600", ge=0.1, le=600)
    ] = 20.0
    """The processor time that a long question may take: past it 422; 503 where a busy machine needs
    over 20 s more by the clock."""
    public_url: Annotated[
        str,
        doc(
            "a path or an address, such as https://fitgauge.example.com/",
            pattern=r"^(/|https?://)[^\s]*\Z",
        ),
    ] = "/"
    """The `servers` entry of the OpenAPI document."""
    root_path: Annotated[
        str,
        doc(
            "a path without a slash at its end, such as /fitgauge",
            pattern=r"^(/[A-Za-z0-9._~-]+)*\Z",
        ),
    ] = ""
    """The prefix under which a gateway shows the service, stripped or not."""
    trusted_proxies: Annotated[
        str, doc("addresses and networks divided by commas, such as 10.0.0.0/8, or *")
    ] = "127.0.0.1"
    """Whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed; empty: none."""
    compression: Annotated[bool, doc("true or false")] = False
    """Whether answers are compressed (gzip)."""
    api_keys: Annotated[str, doc("a file of names and SHA-256 hashes")] = ""
    """Callers' names and hashes of their keys; docs/ACCESS.md describes this and the next
    eleven."""
    jwt_keys: Annotated[str, doc("a JWK set: a file, or an address that begins with https://")] = ""
    """Keys of an identity provider, which sign tokens."""
    jwt_issuer: Annotated[str, doc("the issuer (iss) of tokens")] = ""
    """Who must have issued a token."""
    jwt_audience: Annotated[str, doc("the audience (aud) of tokens")] = ""
    """Whom a token must be for."""
    jwt_algorithms: Annotated[
        str, doc("asymmetric algorithms divided by commas, such as RS256, ES256")
    ] = "RS256, ES256"
    """How tokens may be signed."""
    jwt_scope: Annotated[
        str, doc("a scope without blanks and quotes", pattern=r"^[!#-\[\]-~]*\Z")
    ] = ""
    """The scope that a token must have."""
    jwt_leeway_seconds: Annotated[float, doc("a number of seconds from 0 to 300", ge=0, le=300)] = (
        30.0
    )
    """How far clocks may differ."""
    caller_header: Annotated[str, doc("the name of a header", pattern=r"^[A-Za-z0-9-]*\Z")] = ""
    """The header in which a trusted proxy names the caller."""
    anonymous: Annotated[bool, doc("true or false")] = False
    """Whether callers without credentials pass, where access is restricted."""
    open_metrics: Annotated[bool, doc("true or false")] = False
    """Whether they read `/metrics`."""
    caller_requests_per_second: Annotated[
        float, doc("a number from 0 (no limit) to 1000000", ge=0, le=1e6)
    ] = 0.0
    """The limit of one caller."""
    caller_requests_per_day: Annotated[
        int, doc("a whole number from 0 (no limit) to 1000000000", ge=0, le=10**9)
    ] = 0
    """The quota of one caller, by days of UTC."""
    caller_hub_tokens: Annotated[bool, doc("true or false")] = False
    """Whether callers may send a token of the Hub, as `X-HF-Token`."""
    mcp: Annotated[bool, doc("true or false")] = True
    """Whether `/mcp` is served."""
    mcp_hosts: Annotated[
        str, doc("host names divided by commas, such as fit.example.com, or *")
    ] = ""
    """Host headers that `/mcp` accepts in addition to this machine's and the public address's;
    where the service listens beyond this machine, every Host."""
    mcp_origins: Annotated[
        str, doc("origins divided by commas, such as https://chat.example.com")
    ] = ""
    """The same of Origin headers."""
    tracing: Annotated[bool, doc("true or false")] = False
    """Spans of requests, model lookups, requests to the Hub, estimates and searches by
    OpenTelemetry, sent where `OTEL_*` variables say; needs `fitgauge[otel]`."""
    shared_state: Annotated[
        str,
        doc(
            "an address, such as valkey://valkey:6379/0, with TLS valkeys://",
            pattern=r"^(((redis|valkey)s?|unix)://[^\s]+)?\Z",
        ),
    ] = ""
    """A Valkey or Redis with which replicas look each model up once; needs `fitgauge[valkey]`.
    Where it is away, each goes on alone (docs/SERVER.md)."""
    catalog: Annotated[str, doc("a .toml or .json file, or a folder of them")] = ""
    """GPUs, names, prices and quotas of your own, over the bundled ones (docs/own-catalog.md)."""
    catalog_seconds: Annotated[
        float, doc("a number of seconds from 0.1 to 3600", ge=0.1, le=3600)
    ] = 5.0
    """How often it is looked at."""
    truth: Annotated[str, doc("a .jsonl file, or a folder of them")] = ""
    """Runs of your own, as `fitgauge measure` writes them: intervals follow them for the GPU and
    the release that ran (docs/measuring.md)."""


class Setting(Struct, frozen=True):
    """One setting in force."""

    name: str
    """Name of the environment variable."""
    value: str | int | float
    """Its value; of a secret, whether it is set."""
    source: Literal["default", "environment"]
    """Where the value comes from."""


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{field.upper()}"


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of this process.

    Raise InvalidSettingsError, which names every wrong value.
    """
    values: dict[str, Any] = {}
    wrong = []
    for field in msgspec.structs.fields(Settings):
        text = environment.get(variable(field.name))
        if text is None or (field.name == "port" and _is_service_link(text)):
            continue
        try:
            value = msgspec.convert(_lowered(field.name, text), field.type, strict=False)
            values[field.name] = _finite(value)
        except ValueError:  # of msgspec too
            wrong.append(_line(variable(field.name), text, _wanted(field.name)))
    endpoint = environment.get("HF_ENDPOINT", "")
    if endpoint and not _is_address(endpoint):
        wrong.append(_line("HF_ENDPOINT", endpoint, "an address, such as https://huggingface.co"))
    if wrong:
        raise InvalidSettingsError(
            "\n".join(wrong), hint="docs/variables.md describes every setting."
        )
    return Settings(**values)


def unknown(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a warning for every variable that begins with FITGAUGE_ and sets nothing."""
    names = [variable(name) for name in Settings.__struct_fields__]
    warnings = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in names and not _is_of_kubernetes(name):
            near = get_close_matches(name, names, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            warnings.append(f"Unknown environment variable {name} is ignored.{meant}")
    return warnings


def in_force(settings: Settings, environment: Mapping[str, str] = os.environ) -> list[Setting]:
    """Return every setting with its value and where it comes from."""
    from huggingface_hub import get_token  # and the transport, which no other setting needs

    rows = []
    for field, value in msgspec.structs.asdict(settings).items():
        shown = _without_password(value) if isinstance(value, str) else value
        rows.append(Setting(variable(field), shown, _source(variable(field), environment)))
    hub = {
        "HF_ENDPOINT": _without_password(constants.ENDPOINT),
        "HF_HUB_OFFLINE": str(constants.is_offline_mode()).lower(),
        "HF_HOME": constants.HF_HOME,
        "HF_TOKEN": "set" if get_token() else "not set",
    }
    rows += [Setting(name, value, _source(name, environment)) for name, value in hub.items()]
    return rows


def _source(name: str, environment: Mapping[str, str]) -> Literal["default", "environment"]:
    return "environment" if name in environment else "default"


def _lowered(field: str, text: str) -> str:
    return text.lower() if field in _LOWERED else text


_LOWERED = (
    "log_level",
    "log_format",
    *(
        name
        for name, value in msgspec.structs.asdict(Settings()).items()
        if value is True or value is False
    ),
)


def _finite(value: object) -> object:
    """Return the value. Raise ValueError for NaN, which passes every bound."""
    if value != value:
        raise ValueError(value)
    return value


def _wanted(field: str) -> str:
    """Return what a setting must be."""
    annotation = Settings.__annotations__[field]
    return str(annotation.__metadata__[0].description)


def _line(name: str, text: str, wanted: str) -> str:
    return f"{name} is {_without_password(text)[:80]!r}. Set it to {wanted}."


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError beyond 65535
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", text)


def _without_password(address: str) -> str:
    """Return an address without the user and the password in it."""
    return re.sub(r"//[^/@]*@", "//***@", address)


def _is_of_kubernetes(name: str) -> bool:
    """Return whether Kubernetes sets it in pods where a Service is called fitgauge."""
    return bool(re.fullmatch(r"FITGAUGE_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_\w+)", name))


def _is_service_link(text: str) -> bool:
    """Return whether FITGAUGE_PORT was set by Kubernetes: tcp://10.0.0.1:80."""
    return text.startswith("tcp://")
