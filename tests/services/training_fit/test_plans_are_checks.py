"""plan_training and recommend_gpus take what check_training_fit takes for what is left out: a plan
needs what the check of its layout says, whatever else its settings name."""

import asyncio

import pytest
from msgspec import convert

from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.training_fit.launchers.registry import find_tool
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest

LAYOUT = (
    "method", "gpu_count", "framework", "micro_batch_size", "micro_batches",
    "activation_checkpointing", "zero_stage", "tensor_parallel", "pipeline_parallel",
    "context_parallel", "expert_parallel", "sequence_parallel", "pipeline_schedule", "loss",
)  # fmt: skip
"""Fields that a search sets, and the loss: of a command that no framework was named for, TRL's."""
ASKED = [
    {"method": "lora"},
    {"method": "qlora", "gpu": "RTX 4090"},
    {"method": "full"},
    {"method": "lora", "framework": "deepspeed"},
    {"method": "lora", "framework": "megatron"},
    {"method": "full", "framework": "deepspeed", "offload": "optimizer"},
    {"method": "full", "trainer": "unsloth"},
    {"method": "qlora", "trainer": "unsloth", "model": "deepseek-ai/DeepSeek-V2-Lite"},
    {"method": "full", "trainer": "torchtune", "model": "meta-llama/Llama-3.2-1B"},
    {"method": "full", "trainer": "torchtitan", "model": "Qwen/Qwen3-32B", "gpu_count": 8},
    {"method": "lora", "trainer": "llama-factory"},
    {"method": "lora", "trainer": "lightning", "gpu": "V100 16GB", "model": "Qwen/Qwen3-0.6B"},
]


def layout_alone(request, settings):
    """Return the question with the layout of a plan. transformers that nobody named stays out:
    without it check_training_fit answers as TRL trains."""
    layout = {name: settings[name] for name in LAYOUT if name in settings}
    if not (request.get("trainer") or request.get("framework")):
        layout = {n: v for n, v in layout.items() if (n, v) != ("framework", "transformers")}
    return layout


@pytest.fixture(scope="module")
def checked(questions):
    """Provide the memory that a check says a question needs, and its verdict."""

    def check(fields):
        answer = asyncio.run(questions.check_training_fit(convert(fields, TrainingRequest)))[1]
        return answer.per_gpu.required_bytes.expected, answer.verdict

    return check


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_plan_needs_what_a_check_of_its_layout_says(questions, checked, asked):
    request = {"model": "Qwen/Qwen3-8B", "gpu": "A100 80GB", **asked}
    planned = TrainingPlanRequest(**request, limit=4)
    answer = asyncio.run(questions.plan_training(planned))[1]
    assert answer.plans
    for plan in answer.plans:
        alone = request | layout_alone(request, plan.settings)
        assert checked(alone) == (plan.required_bytes.expected, plan.verdict), plan.layout


def test_one_gpu_is_planned_without_what_shards_over_several(questions, checked):
    request = {"model": "Qwen/Qwen3-4B", "gpu": "A100 80GB", "gpu_count": 1, "method": "full"}
    answer = asyncio.run(questions.plan_training(TrainingPlanRequest(**request)))[1]
    assert {plan.settings["framework"] for plan in answer.plans} == {"transformers"}
    assert answer.plans[0].verdict == checked(request)[1] == "tight"


@pytest.mark.parametrize("framework", [None, "unsloth", "llama-factory", "megatron", "nemo"])
def test_what_is_recommended_needs_what_a_check_of_its_layout_says(questions, checked, framework):
    request = {"model": "Qwen/Qwen3-8B", "sequence_length": 4096, "framework": framework}
    asked = RecommendRequest(task="training", **request)
    answer = asyncio.run(questions.recommend_gpus(asked))
    tool = find_tool(framework)
    assert answer.training_options
    for option in answer.training_options:
        settings = option.request
        alone = request | {"gpu": settings["gpu"]} | layout_alone(request, settings)
        alone["trainer"] = None if tool is None else tool.name
        assert checked(alone) == (option.required_bytes.expected, option.verdict), settings
