"""Wrong settings end the service at its start, with what to set and without a traceback."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from fitgauge.errors import InvalidSettingsError
from fitgauge.settings import Settings, from_environment, in_force, unknown, variable
from live.process import COMMAND

ROOT = Path(__file__).parents[2]

WRONG = {
    "FITGAUGE_PORT": ["99999", "-1", "http", "80.5", ""],
    "FITGAUGE_LOG_LEVEL": ["loud", ""],
    "FITGAUGE_HUB_WAIT_SECONDS": ["nan", "inf", "-inf", "-1", "1e9", "soon", ""],
    "FITGAUGE_REQUESTS_PER_SECOND": ["-1", "nan", "inf", "many"],
    "FITGAUGE_MAX_BODY_BYTES": ["-1", "0", "nan", "64k", "1e99", "99999999999999999999"],
    "FITGAUGE_CATALOG_SECONDS": ["0", "nan", "3601"],
    "FITGAUGE_PUBLIC_URL": ["not a url", "ftp://x", "/a b"],
    "FITGAUGE_ROOT_PATH": ["fit", "/fit/", "/a b", "/fit?x"],
    "FITGAUGE_COMPRESSION": ["maybe", ""],
    "FITGAUGE_HOST": [""],
    "HF_ENDPOINT": ["not a url", "huggingface.co", "https://", "http://x:99999", "http://a b"],
}


def command(*arguments, **environment):
    """Return what the command printed and its exit code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FITGAUGE_")}
    done = subprocess.run(
        [COMMAND, *arguments],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "name, text", [(name, text) for name, texts in WRONG.items() for text in texts if name or text]
)
def test_a_wrong_value_is_named_with_what_to_set(name, text):
    with pytest.raises(InvalidSettingsError) as refused:
        from_environment({name: text})
    assert refused.value.detail.startswith(f"{name} is {text!r}. Set it to ")
    page, _, _ = refused.value.hint.partition(" describes every setting.")
    assert f"`{name}`" in ROOT.joinpath(page).read_text("utf-8")


def test_every_wrong_value_is_named_at_once_and_the_service_does_not_start():
    wrong = {name: texts[0] for name, texts in WRONG.items()} | {"FITGAUGE_HOST": "127.0.0.1"}
    code, out, err = command("serve", **wrong)
    assert code == 2
    assert out == ""
    named = [name for name in wrong if f"{name} is " in err]
    assert named == [name for name in wrong if name != "FITGAUGE_HOST"]
    assert "Traceback" not in err


@pytest.mark.parametrize("field", Settings.__struct_fields__)
def test_every_setting_can_be_set_to_its_default(field):
    default = getattr(Settings(), field)
    assert from_environment({variable(field): str(default)}) == Settings()


def test_a_log_level_may_be_written_in_capitals():
    assert from_environment({"FITGAUGE_LOG_LEVEL": "INFO"}).log_level == "info"


def test_what_kubernetes_sets_for_a_service_is_no_setting():
    links = {
        "FITGAUGE_PORT": "tcp://10.0.0.1:80",
        "FITGAUGE_SERVICE_HOST": "10.0.0.1",
        "FITGAUGE_SERVICE_PORT": "80",
        "FITGAUGE_SERVICE_PORT_HTTP": "80",
        "FITGAUGE_PORT_80_TCP": "tcp://10.0.0.1:80",
        "FITGAUGE_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert from_environment(links) == Settings()
    assert unknown(links) == []


def test_an_unknown_name_is_warned_of_with_the_name_it_may_mean():
    assert unknown({"FITGAUGE_REQUEST_PER_SECOND": "1"}) == [
        "Unknown environment variable FITGAUGE_REQUEST_PER_SECOND is ignored. Did you mean"
        " FITGAUGE_REQUESTS_PER_SECOND?"
    ]


def test_a_port_in_use_is_named_with_what_to_set():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, out, err = command("serve", "--port", port)
    assert code == 2
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use." in err
    assert "FITGAUGE_PORT" in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 300, ".."])
def test_an_address_of_another_machine_is_named_with_what_to_set(host):
    code, out, err = command("serve", FITGAUGE_HOST=host)
    assert code == 2
    assert f"Cannot listen on {host}:8000: " in err
    assert "FITGAUGE_HOST" in err
    assert "Traceback" not in out + err


def test_config_prints_what_is_in_force_and_no_secret():
    secrets = {"HF_TOKEN": "hf_secret", "HF_ENDPOINT": "http://me:secret@hub.internal"}
    code, out, _ = command("config", "--json", FITGAUGE_PORT="9000", **secrets)
    rows = {row["name"]: (row["value"], row["source"]) for row in json.loads(out)}
    assert code == 0
    assert rows["FITGAUGE_PORT"] == (9000, "environment")
    assert rows["FITGAUGE_LOG_LEVEL"] == ("info", "default")
    assert rows["HF_TOKEN"] == ("set", "environment")
    assert rows["HF_ENDPOINT"] == ("http://***@hub.internal", "environment")
    assert "secret" not in out + command("config", **secrets)[1]


def test_config_lists_every_setting():
    names = [row.name for row in in_force(Settings(), {})]
    assert set(map(variable, Settings.__struct_fields__)) < set(names)
