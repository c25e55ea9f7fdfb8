"""A training tool is one row: what a new one needs, added from outside the package."""

import asyncio
import re

import pytest

from fitgauge.services.training_fit.launchers import registry
from fitgauge.services.training_fit.launchers.config_files import config_files
from fitgauge.services.training_fit.launchers.tool import Default, Tool
from fitgauge.services.training_fit.launchers.words_as_files import flags_of, settings_file
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.tool_settings import tool_settings
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from notes import codes

TOY = Tool(
    name="toy-tuner",
    title="ToyTuner",
    version="0.1",
    framework="transformers",
    framework_on_several="fsdp",
    aliases=("toy",),
    phrases=("toy tuner",),
    sign=re.compile(r"\btoy sft\b"),
    algorithms=frozenset({"sft", "dpo"}),
    command=lambda model, workload, setup: (
        f"toy {setup.algorithm} {model.id} --batch {workload.micro_batch_size}"
    ),
    supports=lambda workload: workload.optimizer != "muon",
    files=lambda before, words: (
        settings_file(before, ["toy", "toy.yaml"], "toy.yaml", flags_of(words[3:]))
        if words[0] == "toy"
        else None
    ),
    defaults=(
        Default("optimizer", "lion", "toy/defaults.py"),
        Default("lora_rank", 4, "toy/defaults.py", ("lora",)),
    ),
)
ASKED = {"model": "Qwen/Qwen3-0.6B", "gpu": "A100 80GB", "method": "lora"}


@pytest.fixture
def train(questions, monkeypatch):
    monkeypatch.setattr(registry, "TOOLS", (*registry.TOOLS, TOY))
    return lambda **fields: asyncio.run(
        questions.check_training_fit(TrainingRequest(**ASKED | fields))
    )[1]


@pytest.mark.parametrize("field", ["framework", "trainer"])
@pytest.mark.parametrize("name", ["toy-tuner", "Toy"])
def test_a_new_tool_is_one_row_with_names_defaults_command_and_files(train, field, name):
    answer = train(**{field: name})
    understood = answer.understood_as
    assert (understood["trainer"], understood["optimizer"], understood["lora_rank"]) == (
        "toy-tuner",
        "lion",
        4,
    )
    assert answer.launch.command == "toy sft Qwen/Qwen3-0.6B --batch 1"
    assert config_files(answer.launch.command) == ({"toy.yaml": "batch: 1\n"}, "toy toy.yaml")
    assumed = {assumption.field: assumption for assumption in answer.assumed}
    assert (assumed["optimizer"].value, assumed["lora_rank"].value) == ("lion", 4)
    assert "ToyTuner 0.1" in assumed["optimizer"].message


def test_a_new_tools_pasted_command_is_read_as_its_own(train):
    pasted = train(trainer="toy tuner").launch.command + " --lora_r 8"
    assert tool_settings(pasted) == {"trainer": "toy-tuner", "lora_rank": 8}


def test_a_new_tool_trains_on_several_gpus_under_the_framework_that_its_row_names(train):
    assert train(trainer="toy", gpu_count=2).understood_as["framework"] == "fsdp"


@pytest.mark.parametrize("asked", [{"optimizer": "muon"}, {"algorithm": "kto"}], ids=str)
def test_settings_that_a_new_tool_cannot_carry_are_started_by_trl(train, asked):
    answer = train(trainer="toy", **asked)
    assert answer.launch.command.startswith("accelerate launch ")
    assert ("command-of-another-tool", "trainer") in codes(answer.warnings)


def test_a_new_tool_has_plans(train, questions):
    asked = TrainingPlanRequest(**ASKED, framework="toy", gpu_count=1)
    plans = asyncio.run(questions.plan_training(asked))[1].plans
    assert plans[0].launch.command.startswith("toy sft ")
