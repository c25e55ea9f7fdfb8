"""Writes helm/fitgauge/values.schema.json and the chart's README from values.yaml, its comments and
the service's own settings, or says where they differ.

    python tools/chart.py [--check]

A block mapping is a group of values; anything else, also a mapping in braces, is one value. The
comment right above a value is its description.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fitgauge.settings import Settings

CHART = Path(__file__).parents[1] / "helm" / "fitgauge"
VALUES, SCHEMA, README = (
    CHART / name for name in ("values.yaml", "values.schema.json", "README.md")
)

SETTINGS = {
    "hub.waitSeconds": "hub_wait_seconds",
    "hub.redirectHosts": "hub_redirect_hosts",
    "catalog.seconds": "catalog_seconds",
    "access.jwt.issuer": "jwt_issuer",
    "access.jwt.audience": "jwt_audience",
    "access.jwt.algorithms": "jwt_algorithms",
    "access.jwt.scope": "jwt_scope",
    "access.jwt.leewaySeconds": "jwt_leeway_seconds",
    "access.callerHeader": "caller_header",
    "access.anonymous": "anonymous",
    "access.openMetrics": "open_metrics",
    "access.requestsPerSecond": "caller_requests_per_second",
    "access.requestsPerDay": "caller_requests_per_day",
    "access.hubTokens": "caller_hub_tokens",
    "gateway.rootPath": "root_path",
    "gateway.trustedProxies": "trusted_proxies",
    "gateway.compression": "compression",
    "publicUrl": "public_url",
    "mcp.enabled": "mcp",
    "mcp.hosts": "mcp_hosts",
    "mcp.origins": "mcp_origins",
    "requestsPerSecond": "requests_per_second",
    "questionSeconds": "question_seconds",
    "maxBodyBytes": "max_body_bytes",
    "logLevel": "log_level",
    "logFormat": "log_format",
    "tracing.enabled": "tracing",
}
"""Values that are a setting of the service as they are; their bounds are the setting's."""

_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_COUNT = {"type": "integer", "minimum": 1}
_SECONDS = {"type": "integer", "minimum": 0}
_PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
_ADDRESS = {"type": "string", "pattern": "^(https?://[^ ]+)?$"}
BOUNDS: dict[str, dict[str, Any]] = {
    "replicaCount": {"type": "integer", "minimum": 0},
    "image.repository": {"type": "string", "minLength": 1},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "hub.endpoint": _ADDRESS,
    "access.jwt.keysUrl": {"type": "string", "pattern": "^(https://[^ ]+)?$"},
    "tracing.endpoint": _ADDRESS,
    "sharedState.port": _PORT,
    "valkey.maxMemory": {"type": "string", "pattern": "^[1-9][0-9]*(kb|mb|gb)?$"},
    "service.type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "service.port": _PORT,
    "httpRoute.hostnames": _NAMES,
    "httpRoute.timeout": {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"},
    "autoscaling.minReplicas": _COUNT,
    "autoscaling.maxReplicas": _COUNT,
    "autoscaling.targetCPUUtilizationPercentage": _COUNT,
    "podDisruptionBudget.maxUnavailable": {
        "anyOf": [_COUNT, {"type": "string", "pattern": "^[1-9][0-9]?%$"}]
    },
    "serviceMonitor.interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
    "preStopSeconds": _SECONDS,
    "terminationGracePeriodSeconds": {"type": "integer", "minimum": 12},
}
"""Bounds of other values; the type of all that remain is that of their default."""

_FILLED = {"minLength": 1}
RULES: list[tuple[str, dict[str, Any], dict[str, dict[str, Any]]]] = [
    ("valkey.enabled", {"const": True}, {"valkey.existingSecret": _FILLED}),
    ("httpRoute.enabled", {"const": True}, {"httpRoute.parentRefs": {"minItems": 1}}),
    ("tracing.enabled", {"const": True}, {"tracing.endpoint": _FILLED}),
    ("access.callerHeader", _FILLED, {"gateway.trustedProxies": {"minItems": 1}}),
    *(
        (keys, _FILLED, {"access.jwt.issuer": _FILLED, "access.jwt.audience": _FILLED})
        for keys in ("access.jwt.keysUrl", "access.jwt.existingConfigMap")
    ),
]
"""Where the first value is so, the others must be so."""


@dataclass(frozen=True)
class Value:
    """One value of values.yaml, or a group of them (`default` is None)."""

    path: str
    description: str
    default: Any


def values() -> list[Value]:
    """Return all values and groups in the order of the file."""
    text = VALUES.read_text()
    lines = text.splitlines()
    listed: list[Value] = []

    def read(node: yaml.MappingNode, prefix: str) -> None:
        for key, value in node.value:
            path = prefix + key.value
            is_group = isinstance(value, yaml.MappingNode) and not value.flow_style
            default = None if is_group else yaml.safe_load(yaml.serialize(value))
            listed.append(Value(path, _comment(lines, key.start_mark.line), default))
            if is_group:
                read(value, f"{path}.")

    read(yaml.compose(text, Loader=yaml.SafeLoader), "")
    return listed


def _comment(lines: list[str], line: int) -> str:
    """Return the comment right above a line."""
    first = line
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(text.lstrip()[2:] for text in lines[first:line])


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the values."""
    root: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart fitgauge",
        **_group(""),
        "allOf": [{"if": _at(path, when, True), "then": _all(then)} for path, when, then in RULES],
    }
    root["properties"]["global"] = {"type": "object"}
    for value in values():
        *groups, name = value.path.split(".")
        place = root
        for group in groups:
            place = place["properties"][group]
        place["properties"][name] = (
            _group(value.description)
            if value.default is None
            else {**_bounds(value), "description": value.description, "default": value.default}
        )
    return root


def _group(description: str) -> dict[str, Any]:
    described = {"description": description} if description else {}
    return {"type": "object", **described, "additionalProperties": False, "properties": {}}


def _bounds(value: Value) -> dict[str, Any]:
    if value.path in BOUNDS:
        return BOUNDS[value.path]
    if isinstance(value.default, list):
        return _NAMES if value.path in SETTINGS else _OBJECTS
    if value.path in SETTINGS:
        return _of_setting(SETTINGS[value.path])
    kinds = {bool: "boolean", str: "string", int: "integer", float: "number", dict: "object"}
    return {"type": kinds[type(value.default)]}


def _of_setting(name: str) -> dict[str, Any]:
    """Return the bounds of a setting, with patterns as Helm's schemas write them."""
    bounds = msgspec.json.schema(Settings.__annotations__[name])
    bounds.pop("description", None)
    if "enum" not in bounds and "pattern" in bounds:
        bounds["pattern"] = bounds["pattern"].replace("\\Z", "$")
    return bounds


def _at(path: str, what: dict[str, Any], required: bool) -> dict[str, Any]:
    """Return the schema that holds what is at a path to another schema."""
    for name in reversed(path.split(".")):
        what = {"properties": {name: what}, **({"required": [name]} if required else {})}
    return what


def _all(wanted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"allOf": [_at(path, what, False) for path, what in wanted.items()]}


def table() -> str:
    """Return the table of all values in Markdown."""
    rows = ["| Value | Default | Meaning |", "|---|---|---|"]
    for value in values():
        default = "" if value.default is None else f"`{json.dumps(value.default)}`"
        name = f"**{value.path}**" if value.default is None else f"`{value.path}`"
        if value.default is not None or value.description:
            rows.append(f"| {name} | {default} | {value.description.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def readme() -> str:
    """Return the chart's README with the table of today."""
    begin, end = "<!-- values -->\n", "\n<!-- end -->"
    before, _, rest = README.read_text().partition(begin)
    return f"{before}{begin}{table()}{end}{rest.partition(end)[2]}"


def main(*arguments: str) -> None:
    """Write both files, or end with code 1 where one differs."""
    written = {SCHEMA: json.dumps(schema(), indent=1) + "\n", README: readme()}
    if "--check" in arguments:
        stale = [path.name for path, text in written.items() if path.read_text() != text]
        raise SystemExit(f"stale: {', '.join(stale)}; make chart" if stale else 0)
    for path, text in written.items():
        path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
