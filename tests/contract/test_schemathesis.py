"""Strangers read the OpenAPI document and try everything that it allows and forbids."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fitgauge.api.openapi import document
from fitgauge.api.tools_document import tools_document
from fitgauge.services.tools.faces import TOOLS
from hub_stand_in import HubStandIn, gguf_repository, llama_config, safetensors_repository
from live import serving
from live.conformance import OPERATIONS

HERE = Path(__file__).parent
EXAMPLES = int(os.environ.get("FITGAUGE_EXAMPLES", "100"))
SEED = 20261121


@pytest.fixture(scope="module")
def url():
    large = llama_config(
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
    )
    with (
        HubStandIn(
            safetensors_repository("acme/tiny"),
            safetensors_repository("acme/large", large),
            safetensors_repository("acme/gated", gated=True),
            gguf_repository(
                "acme/adapter",
                {"general.architecture": "llama"},
                {},
                files={"adapter_config.json": b"{}"},
            ),
        ) as hub,
        serving(hub) as address,
    ):
        yield address


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_an_operation_keeps_its_contract(url, tmp_path, operation):
    """Every check of schemathesis and of hooks.py, on data that keeps to the schema and
    on data that does not: no failure."""
    run(
        url,
        tmp_path,
        "--include-operation-id",
        operation.id,
        "--phases",
        "examples,coverage,fuzzing",
    )


def test_what_operations_answer_can_be_asked_of_the_others(url, tmp_path):
    """Sequences of calls that take each other's answers: no failure."""
    run(url, tmp_path, "--phases", "stateful")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_keeps_its_contract(url, tmp_path, tool):
    """The same of the tools, except that they read more than their schema says: what does not keep
    to it may be answered."""
    run(
        url,
        tmp_path,
        "--include-operation-id",
        tool,
        "--phases",
        "examples,coverage,fuzzing",
        "--exclude-checks",
        "negative_data_rejection",
        openapi=tools_document(),
        hooks="tool_hooks.py",
    )


def run(url, tmp_path, *options, openapi=None, hooks="hooks.py"):
    """schemathesis as a process of its own, so that two cores share the work; raises
    AssertionError with what it says."""
    (tmp_path / "openapi.json").write_text(json.dumps(openapi or document()))
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        HERE / "schemathesis.toml",
        "run",
        "openapi.json",
        "--url",
        url,
    ]
    limits = ["--max-examples", EXAMPLES, "--seed", SEED, "--checks", "all", "--no-color"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": str(HERE / hooks), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [str(part) for part in (*command, *limits, *options)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
