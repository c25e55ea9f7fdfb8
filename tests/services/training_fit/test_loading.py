"""A quantized base lies whole on every GPU before it is sharded, under transformers 5."""

import asyncio

import pytest
from msgspec import convert

from fitgauge.services.training_fit.schemas import TrainingRequest
from notes import codes

ASKED = {
    "model": "meta-llama/Llama-3.1-70B",
    "method": "qlora",
    "gpu": "RTX 4090",
    "gpu_count": 4,
    "framework": "fsdp",
    "fsdp_version": 1,
}


def phases(answer):
    return {phase.name: phase.bytes for phase in answer.phases}


def test_the_base_is_whole_on_every_gpu_and_under_fsdp2_with_the_shards_beside_it(train):
    first = train(trainer="trl")
    second = train(trainer="trl", fsdp_version=2)
    more = train(trainer="trl", gpu_count=8)
    replicas = train(trainer="trl", data_parallel_replicate=2)
    whole = phases(first)["loading"]
    assert whole == phases(more)["loading"] == phases(replicas)["loading"]
    assert phases(second)["loading"] == pytest.approx(whole * 5 / 4, rel=0.1)
    assert first.verdict == "does_not_fit"
    assert sum(term.bytes for term in first.terms if term.name == "weights") == whole
    assert ("base-loaded-whole", "transformers_version") in codes(first.warnings)


def test_zero_3_divides_a_base_that_was_whole_too_and_a_copy_on_every_gpu_needs_no_phase(train):
    asked = {"trainer": "axolotl", "fsdp_version": None, "gpu": "A100 80GB"}
    assert "loading" in phases(train(**asked, framework="deepspeed", zero_stage=3))
    assert "loading" not in phases(train(**asked, framework="deepspeed", zero_stage=2))
    assert "loading" not in phases(train(**asked, framework=None))
    assert "loading" not in phases(train(**asked, method="lora"))


def test_transformers_before_5_loads_it_through_host_memory_and_is_suggested(train):
    older = train(trainer="trl", transformers_version="4.57.6")
    assert "loading" not in phases(older)
    assert older.verdict == "tight"
    answer = train(trainer="trl")
    sent = [one.request for one in answer.suggestions if "transformers_version" in one.request]
    assert sent
    assert train(trainer="trl", **sent[0]).verdict == "fits"


def test_without_a_tool_a_base_that_no_gpu_holds_whole_is_said_not_counted(train):
    answer = train()
    assert "loading" not in phases(answer)
    assert ("base-loaded-whole", "trainer") in codes(answer.warnings)
    assert " Load it with transformers 4.57: " in answer.summary
    assert all(code != "base-loaded-whole" for code, _ in codes(train(gpu="A100 80GB").warnings))
    assert all(
        code != "base-loaded-whole"
        for code, _ in codes(train(trainer="torchtune", fsdp_version=2).warnings)
    )


@pytest.fixture(scope="module")
def planned(plan):
    return lambda **fields: plan(model=ASKED["model"], method="qlora", gpu_count=8, **fields)


@pytest.mark.parametrize("tool", ["trl", "axolotl", "llama-factory", "ms-swift"])
def test_no_plan_survives_its_steps_and_not_its_loading(planned, questions, tool):
    none = planned(gpu="RTX 4090", framework=tool)
    assert none.plans == []
    assert ("base-loaded-whole", "framework") in codes(none.warnings)
    larger = planned(gpu="A100 80GB", framework=tool)
    assert all(code != "base-loaded-whole" for code, _ in codes(larger.warnings))
    first = larger.plans[0]
    again = convert({**first.settings, "trainer": tool}, TrainingRequest)
    answer = asyncio.run(questions.check_training_fit(again))[1]
    assert answer.per_gpu.required_bytes == first.required_bytes
    assert answer.verdict == first.verdict


def test_plans_of_what_loads_otherwise_stay_and_without_a_tool_it_is_said(planned):
    assert planned(gpu="RTX 4090", framework="torchtune").plans
    unnamed = planned(gpu="RTX 4090", framework="fsdp")
    assert unnamed.plans
    assert ("base-loaded-whole", "trainer") in codes(unnamed.warnings)
    roomy = planned(gpu="A100 80GB", framework="fsdp")
    assert all(code != "base-loaded-whole" for code, _ in codes(roomy.warnings))
