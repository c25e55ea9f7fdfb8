"""An engine is one row: a toy, registered from outside, is answered for like the others."""

import asyncio
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bundled_models import SNAPSHOT, model_of
from fitgauge import questions
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import Engines
from fitgauge.cli import main
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.hub import Hub, HubSettings
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.compare.service import Comparer
from fitgauge.services.explain_log.schemas import ExplainLogRequest
from fitgauge.services.facade import Services
from fitgauge.services.fit.service import FitService
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.service import Recommender
from notes import codes
from toy_engine import LOG, MODEL, ROW, TOY, profiles

REGISTERED = """
import json
import toy_engine
from fitgauge.engine.serving.registry import ENGINES

ENGINES[toy_engine.TOY] = toy_engine.ROW
from fitgauge.api.export import artefacts

print(json.dumps(artefacts()))
"""
"""A process in which the toy is registered before the contract is imported."""


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    """Register the toy, and provide profiles with one for it."""
    monkeypatch.setitem(ENGINES, TOY, ROW)
    return profiles()


def check(engines: Engines, **fields: Any) -> Any:
    request = FitRequest(model=MODEL, gpu="H100", engine="Toy-Serve", **fields)
    return FitService(engines).answer(request, model_of(MODEL), bundled().find("H100"))


def test_check_answers_for_a_new_engine_with_its_launch_command(engines: Engines) -> None:
    answer = check(engines, max_num_seqs=8)
    assert answer.verdict == "fits"
    assert answer.understood_as["engine"] == TOY
    assert answer.launch.command == f"toy-serve {MODEL} --batch 8"


def test_check_names_the_fields_a_new_engine_ignores(engines: Engines) -> None:
    answer = check(engines, enforce_eager=True)
    assert ("engine-ignores-field", "enforce_eager") in codes(answer.warnings)


def test_check_refuses_formats_a_new_engine_does_not_read(engines: Engines) -> None:
    answer = check(engines, quantization="gptq")
    assert answer.verdict == "unsupported"
    assert "toy reads no gptq weights" in answer.summary


def test_compare_answers_for_a_new_engine(engines: Engines) -> None:
    request = CompareRequest(models=MODEL, gpus="H100", engines=["toy"])
    rows = Comparer(engines).compare(request, [model_of(MODEL)], [bundled().find("H100")]).rows
    assert [(row.engine, row.verdict) for row in rows] == [(TOY, "fits")]


def test_recommend_answers_for_a_new_engine_in_the_formats_it_serves(engines: Engines) -> None:
    answer = Recommender(engines, bundled()).answer(
        RecommendRequest(model=MODEL, engine="toy", gpus="H100, L4", detail="full"), model_of(MODEL)
    )
    assert {item.engine for item in answer.items} == {TOY}
    assert {item.quantization for item in answer.items} == {"as published", "awq"}
    assert all(item.launch.command.startswith("toy-serve ") for item in answer.items)


def test_explain_log_reads_the_log_of_a_new_engine(engines: Engines) -> None:
    hub = Hub(HubSettings(offline=True, cache_dir=None, token=False))
    services = Services(ModelResolver(hub, SNAPSHOT), engines, bundled())
    answer = asyncio.run(services.explain_log(ExplainLogRequest(log=LOG)))
    assert (answer.engine, answer.engine_version, answer.outcome) == (TOY, "1.0.0", "served")
    (weights,) = [row for row in answer.rows if row.name == "weights"]
    assert weights.measured == pytest.approx(15.27 * 2**30)
    assert weights.estimated == pytest.approx(weights.measured, rel=1e-3)
    assert answer.understood_as["engine"] == TOY


def test_the_command_takes_a_new_engine(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "load_engines", lambda: engines)
    arguments = ["check", MODEL, "H100", "--engine", "toy", "--json"]
    result = CliRunner().invoke(main, arguments, env={"HF_HUB_OFFLINE": "1"})
    assert result.exit_code == 0
    assert json.loads(result.output)["understood_as"]["engine"] == TOY


def test_without_its_row_the_command_knows_no_toy() -> None:
    arguments = ["check", MODEL, "H100", "--engine", "toy"]
    result = CliRunner().invoke(main, arguments, env={"HF_HUB_OFFLINE": "1"})
    assert result.exit_code == 2


@cache
def registered() -> dict[str, Any]:
    """Return the committed artefacts as they are with the toy registered."""
    tests = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-c", REGISTERED],
        capture_output=True,
        check=True,
        env={"PYTHONPATH": f"{tests}:{tests.parent / 'service'}"},
    )
    artefacts: dict[str, Any] = json.loads(result.stdout)
    return artefacts


def test_the_openapi_document_names_a_new_engine() -> None:
    schemas = registered()["openapi.json"]["components"]["schemas"]
    assert schemas["FitRequest"]["properties"]["engine"]["description"].endswith(" or toy.")
    assert "Toy" in schemas["ExplainLogRequest"]["properties"]["log"]["description"]


def test_the_manifest_names_a_new_engine() -> None:
    (tool,) = [tool for tool in registered()["tools/anthropic.json"] if tool["name"] == "check_fit"]
    assert "toy" in tool["input_schema"]["properties"]["engine"]["description"]
