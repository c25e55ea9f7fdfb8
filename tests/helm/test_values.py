"""The chart's values: described, bounded, and each in reach of the service's settings."""

import subprocess
import sys
from pathlib import Path

import helm_python
import pytest

import chart
from fitgauge.settings import Settings, from_environment, variable
from helm.releases import SETS, environment, rendered

OTHERWISE = {"host", "port", "catalog", "api_keys", "jwt_keys", "shared_state", "truth"}
"""settings that are a file, an address or a secret, which several values make"""

EXAMPLES = {
    "hub.redirectHosts": ["files.internal", "*.hf.co"],
    "access.jwt.algorithms": ["ES256"],
    "gateway.rootPath": "/fit",
    "gateway.trustedProxies": ["10.0.0.0/8", "fd00::/8"],
    "publicUrl": "https://fit.example.com/",
    "mcp.hosts": ["fit.example.com"],
    "mcp.origins": ["https://chat.example.com"],
    "logLevel": "debug",
    "logFormat": "text",
    "access.requestsPerDay": 1_000_000,
    "maxBodyBytes": 16_777_216,
    "access.jwt.leewaySeconds": 2.5,
}


def nested(path, value):
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def example(value):
    """Return another value than the default."""
    if value.path in EXAMPLES:
        return EXAMPLES[value.path]
    if isinstance(value.default, bool):
        return not value.default
    return "some-text" if isinstance(value.default, str) else value.default + 1


LEAVES = [value for value in chart.values() if value.default is not None]
MAPPED = [value for value in LEAVES if value.path in chart.SETTINGS]


def test_the_schema_and_the_table_are_those_of_the_values():
    tool = Path(chart.__file__)
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_value_is_described():
    assert [value.path for value in LEAVES if len(value.description) < 8] == []


def test_every_setting_has_a_value():
    assert set(chart.SETTINGS.values()) | OTHERWISE == set(Settings.__struct_fields__)
    assert {value.path for value in MAPPED} == set(chart.SETTINGS)


@pytest.mark.parametrize("value", MAPPED, ids=lambda value: value.path)
def test_a_value_is_the_setting(value):
    wanted = example(value)
    values = nested(value.path, wanted)
    if value.path == "access.callerHeader":
        values["gateway"] = {"trustedProxies": ["10.0.0.1"]}
    if value.path == "tracing.enabled":
        values["tracing"]["endpoint"] = "http://collector:4318"
    if value.path == "catalog.seconds":
        values["catalog"]["existingConfigMap"] = "own"
    held = environment(rendered(values))
    field = chart.SETTINGS[value.path]
    read = getattr(from_environment({variable(field): held[variable(field)]}), field)
    assert read == (", ".join(wanted) if isinstance(wanted, list) else wanted)


@pytest.mark.parametrize("name", SETS)
def test_what_a_value_set_makes_is_what_the_service_takes(name):
    from_environment(environment(rendered(SETS[name])))


WRONG = {
    "a typo": {"replicaCuont": 3},
    "a typo below": {"access": {"apiKey": {}}},
    "another type": {"replicaCount": "3"},
    "beyond the setting's bound": {"hub": {"waitSeconds": 601}},
    "no log level": {"logLevel": "loud"},
    "a prefix with a slash at its end": {"gateway": {"rootPath": "/fit/"}},
    "keys over http": {"access": {"jwt": {"keysUrl": "http://login/keys"}}},
    "keys without an issuer": {"access": {"jwt": {"keysUrl": "https://login/keys"}}},
    "a header that anybody may send": {"access": {"callerHeader": "X-User"}},
    "a store without a password": {"valkey": {"enabled": True}},
    "a route without a gateway": {"httpRoute": {"enabled": True}},
    "traces to nowhere": {"tracing": {"enabled": True}},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused(name):
    with pytest.raises(helm_python.HelmError):
        rendered(WRONG[name])
