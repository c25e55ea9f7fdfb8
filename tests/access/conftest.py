"""A service that asks who its callers are, and an identity provider's keys."""

from contextlib import contextmanager

import pytest

from fitgauge.api.access.api_keys import key_hash, new_key
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn, safetensors_repository
from identity_provider import AUDIENCE, ISSUER, Provider
from live import PATIENCE, client, serving


@pytest.fixture(scope="session")
def provider(tmp_path_factory):
    return Provider(tmp_path_factory.mktemp("provider") / "jwks.json")


@pytest.fixture(scope="session")
def keys_file(tmp_path_factory):
    """Provide a file of keys: (path, key by name)."""
    keys = {"ci": new_key(), "slack": new_key()}
    path = tmp_path_factory.mktemp("keys") / "keys"
    lines = [f"{name} {key_hash(key)}" for name, key in keys.items()]
    path.write_text("\n".join(["# callers", *lines, ""]))
    return path, keys


@pytest.fixture(scope="session")
def stand_in():
    with HubStandIn(
        safetensors_repository("acme/tiny"),
        safetensors_repository("acme/private", private=True),
        safetensors_repository("acme/gated", gated=True),
    ) as hub:
        yield hub


@pytest.fixture(scope="session")
def guarded(stand_in):
    """Return a client of a service with these settings, without credentials."""

    @contextmanager
    def opened(**settings):
        usual = {"log_level": "warning", "question_seconds": PATIENCE}
        with serving(stand_in, Settings(**{**usual, **settings})) as url, client(url) as http:
            yield http

    return opened


@pytest.fixture(scope="session")
def everything(guarded, keys_file, provider):
    """Provide a service that takes keys, tokens and a gateway's header."""
    with guarded(
        api_keys=str(keys_file[0]),
        jwt_keys=str(provider.path),
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
        caller_header="X-Auth-User",
        trusted_proxies="127.0.0.2",
    ) as http:
        yield http
