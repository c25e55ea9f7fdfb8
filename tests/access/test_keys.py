"""API keys: made, hashed, looked up, exchanged."""

import re

import pytest
from click.testing import CliRunner

from fitgauge.api.access import api_keys
from fitgauge.api.access.api_keys import ApiKeys, key_hash, new_key
from fitgauge.api.access.caller import InvalidAccessError
from fitgauge.app import create_access
from fitgauge.cli import main
from fitgauge.settings import Settings


def file_of(tmp_path, **keys):
    path = tmp_path / "keys"
    path.write_text("".join(f"{name} {key_hash(key)}\n" for name, key in keys.items()))
    return path


def test_the_command_prints_a_key_and_the_line_that_lets_it_in(tmp_path):
    done = CliRunner().invoke(main, ["key", "new", "ci"])
    key, line = re.fullmatch(r"key   (\S+)\nline  (.+)\n", done.output).groups()
    path = tmp_path / "keys"
    path.write_text(line)
    assert ApiKeys(path).name_of(key) == "ci"
    assert key not in line


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, "a/b"])
def test_a_name_that_no_log_could_hold_is_refused(name):
    assert CliRunner().invoke(main, ["key", "new", name]).exit_code == 2


def test_keys_are_long_and_never_the_same():
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {46}


def test_a_key_is_compared_with_every_hash_in_constant_time(tmp_path, monkeypatch):
    compared = []

    def compare(stored, digest):
        compared.append(stored)
        return stored == digest

    keys = {f"caller-{number}": new_key() for number in range(5)}
    stored = ApiKeys(file_of(tmp_path, **keys))
    monkeypatch.setattr(api_keys, "compare_digest", compare)
    counts = []
    for key in (keys["caller-0"], keys["caller-4"], "fg_wrong", "x" * 10_000):
        compared.clear()
        stored.name_of(key)
        counts.append(len(compared))
    assert counts == [5] * 4


def test_a_changed_file_is_in_force_soon_and_a_broken_one_is_not(tmp_path):
    now = [0.0]
    old, new = new_key(), new_key()
    path = file_of(tmp_path, ci=old)
    keys = ApiKeys(path, lambda: now[0])
    path.write_text(f"ci {key_hash(new)}\nother {key_hash(old + 'x')}\n")
    assert keys.name_of(old) == "ci"
    now[0] = 5
    assert (keys.name_of(old), keys.name_of(new)) == (None, "ci")
    path.write_text("nonsense")
    now[0] = 10
    assert keys.name_of(new) == "ci"
    path.unlink()
    now[0] = 15
    assert keys.name_of(new) == "ci"


@pytest.mark.parametrize(
    "content",
    [
        b"ci",
        b"ci fg_a-key-by-mistake",
        b"ci " + b"A" * 64,
        b"a/b " + b"0" * 64,
        b"\xff",
        b"".join(b"a %064x\n" % number for number in range(1001)),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_start_and_is_not_quoted(tmp_path, content):
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(InvalidAccessError) as refused:
        create_access(Settings(api_keys=str(path)))
    assert str(path) in refused.value.detail
    assert "mistake" not in refused.value.detail


@pytest.mark.parametrize(
    "settings",
    [
        {"jwt_issuer": ""},
        {"jwt_audience": ""},
        {"jwt_algorithms": "HS256"},
        {"jwt_algorithms": "RS256, none"},
        {"jwt_algorithms": ""},
        {"jwt_keys": "http://login.example/keys"},
    ],
)
def test_settings_of_tokens_that_would_let_in_anybody_end_the_start(settings):
    usual = {"jwt_keys": "/keys", "jwt_issuer": "https://login.example", "jwt_audience": "fit"}
    create_access(Settings(**usual))
    with pytest.raises(InvalidAccessError):
        create_access(Settings(**{**usual, **settings}))


def test_a_proxy_that_is_no_address_ends_the_start():
    with pytest.raises(InvalidAccessError):
        create_access(Settings(caller_header="X-Auth-User", trusted_proxies="gateway.example"))


def test_without_settings_there_are_no_rules():
    assert create_access(Settings()) is None
    assert create_access(Settings(trusted_proxies="10.0.0.0/8", anonymous=True)) is None
