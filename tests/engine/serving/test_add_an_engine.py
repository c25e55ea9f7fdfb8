"""An engine is one row: a toy, registered from outside, is answered for like the others."""

from typing import Any, cast

import pytest
from msgspec import structs

from bundled_models import model_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import Engines, load_engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving import warmup
from fitgauge.engine.serving.engine import Engine, Platform
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.launch import Launch, optional, shell
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.weights.sharding import ShardedWeights, shard_weights
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.compare.service import Comparer
from fitgauge.services.fit.service import FitService
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.service import Recommender
from notes import codes

TOY = cast(EngineName, "toy")
MODEL = "Qwen/Qwen3-8B"


def estimate(
    spec: ModelSpec,
    laid: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
) -> Estimate:
    loaded = warmup.loaded_stages(spec, laid, workload, accelerator)
    memory = warmup.warmed_stages(spec, workload, profile, block=16)
    return warmup.warmed_estimate(accelerator, workload, loaded, memory)


def command(launch: Launch) -> str:
    return shell(
        ["toy-serve", launch.model.id, *optional(("--batch", launch.settings.max_num_seqs))]
    )


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    """Register the toy, and provide profiles with one for it."""
    row = Engine(
        name=TOY,
        aliases=("toyserve",),
        estimate=estimate,
        shard_weights=shard_weights,
        default_batch=lambda accelerator, context, version, spec: (32, 2048),
        command=command,
        platforms={"nvidia": Platform()},
        formats={"awq": (8, 0)},
        served_formats=("awq",),
        ignored_fields=("enforce_eager",),
    )
    profiles = [load_engines().profile(name, None) for name in ENGINES]
    monkeypatch.setitem(ENGINES, TOY, row)
    return Engines(
        (*profiles, structs.replace(profiles[0], engine=TOY, since=(1,), newest="1.0.0"))
    )


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
        RecommendRequest(model=MODEL, engine="toy", gpus="H100, L4"), model_of(MODEL)
    )
    assert {item.engine for item in answer.items} == {TOY}
    assert {item.quantization for item in answer.items} == {"as published", "awq"}
    assert all(item.launch.command.startswith("toy-serve ") for item in answer.items)
