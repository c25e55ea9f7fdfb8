"""A tool named as framework or trainer: what it does where a question leaves a field open, and
what a caller sends stays."""

import re
import typing

import pytest

from fitgauge.catalog.sizes import nominal_model
from fitgauge.errors import InvalidRequestError
from fitgauge.services.ask.vocabulary import PHRASES
from fitgauge.services.training_fit.launchers.registry import (
    TOOLS,
    defaults_note,
    find_tool,
    with_tool_defaults,
)
from fitgauge.services.training_fit.schemas import TrainingRequest
from notes import values

SMALL = {"model": "meta-llama/Llama-3.2-1B", "gpu": "A100 80GB"}
SETTINGS = [
    {"method": "qlora"},
    {"method": "lora", "gpu_count": 2},
    {"method": "full"},
    {"method": "full", "gpu_count": 2},
]
EIGHT = nominal_model("8b", 8_000_000_000).spec
FIELDS = set(TrainingRequest.__struct_fields__)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_row_names_a_field_and_where_its_value_stands(tool):
    assert tool.version
    for default in tool.defaults:
        assert default.field in FIELDS
        assert re.search(
            r"\w\.(py|yaml|sh)\b|^(examples|recipes|config_hub)|pull request|issue \d",
            default.source,
        )


@pytest.mark.parametrize("asked", SETTINGS, ids=str)
@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_what_was_understood_of_a_tool_sent_back_gives_the_same_answer(train, tool, asked):
    if tool == "nemo" and asked["method"] == "qlora":  # Megatron has no quantized base
        asked = {"method": "lora"}
    first = train(**SMALL, framework=tool, **asked)
    again = train(**first.understood_as)
    assert first.understood_as["trainer"] == tool
    assert (again.verdict, again.per_gpu, again.launch) == (
        first.verdict,
        first.per_gpu,
        first.launch,
    )
    assert again.understood_as == first.understood_as


@pytest.mark.parametrize(
    ("framework", "tool"),
    [
        (None, "nemo"),
        ("megatron", "nemo"),
        ("fsdp", "nemo-automodel"),
        ("transformers", "nemo-automodel"),
    ],
)
def test_nemo_is_automodel_where_pytorch_shards(train, framework, tool):
    asked = SMALL | {"gpu_count": 2, "method": "full"}
    said = train(**asked, trainer="nemo", framework=framework).understood_as
    assert (said["trainer"], said["keeps_output"]) == (tool, tool != "nemo")


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_a_tool_is_the_same_as_framework_and_as_trainer(train, tool):
    one = train(**SMALL, framework=tool, method="lora")
    other = train(**SMALL, trainer=tool, method="lora")
    assert (one.per_gpu, one.understood_as, one.warnings) == (
        other.per_gpu,
        other.understood_as,
        other.warnings,
    )


@pytest.mark.parametrize("algorithm", ["dpo", "grpo"])
def test_trl_with_an_algorithm_is_the_same_as_framework_and_as_trainer(train, algorithm):
    one, other = (
        train(**SMALL, **{field: "trl"}, algorithm=algorithm) for field in ("framework", "trainer")
    )
    assert one.understood_as == other.understood_as
    assert one.understood_as["activation_checkpointing"] == "full"


def test_what_is_sent_stays_and_the_rest_is_said(train):
    answer = train(
        **SMALL,
        framework="unsloth",
        method="qlora",
        activation_checkpointing="none",
        optimizer="adamw",
    )
    assert (
        answer.understood_as["activation_checkpointing"],
        answer.understood_as["optimizer"],
    ) == ("none", "adamw")
    assumed = values(answer.assumed)
    assert assumed["kernels"] == "unsloth"
    assert not {"optimizer", "activation_checkpointing"} & assumed.keys()


def test_a_framework_sent_beside_a_trainer_stays(train):
    answer = train(**SMALL, framework="deepspeed", trainer="trl", gpu_count=2)
    assert (
        answer.understood_as["framework"],
        answer.understood_as["activation_checkpointing"],
    ) == ("deepspeed", "full")


def test_torchtune_shards_on_several_cards_alone(train):
    assert train(**SMALL, framework="torchtune").understood_as["framework"] == "transformers"
    several = train(**SMALL, framework="torchtune", method="full", gpu_count=2).understood_as
    assert (several["framework"], several["fsdp_version"], several["shard_embeddings"]) == (
        "fsdp",
        2,
        True,
    )


def test_the_configurations_of_large_models_are_those_of_large_models():
    request = TrainingRequest(model="70b", gpu="A100 80GB", framework="torchtune")
    large, small = (
        with_tool_defaults(request, "lora", 8, spec)
        for spec in (nominal_model("70b", 70_000_000_000).spec, EIGHT)
    )
    assert (large.activation_checkpointing, small.activation_checkpointing) == ("full", "none")
    assert (large.lora_rank, small.lora_rank) == (16, 8)


def test_no_optimizer_steps_in_the_backward_pass_where_gradients_are_accumulated():
    request = TrainingRequest(model="8b", gpu="A100 80GB", framework="torchtune", micro_batches=4)
    assert with_tool_defaults(request, "full", 1, EIGHT).optimizer_in_backward is None


def test_a_card_without_bf16_trains_in_fp16_whatever_the_tool_prefers(train):
    answer = train(model="meta-llama/Llama-3.2-1B", gpu="T4", method="qlora", framework="unsloth")
    assert (
        answer.verdict,
        answer.understood_as["precision"],
        answer.understood_as["base_precision"],
    ) == ("fits", "mixed_fp16", "half")


def test_unsloths_kernels_are_of_the_families_it_writes_anew(train):
    """The others it compiles (models/loader.py)."""
    asked = {"gpu": "A100 80GB", "framework": "unsloth", "method": "lora"}
    kernels = [
        train(model=model, **asked).understood_as["kernels"]
        for model in ("Qwen/Qwen3-0.6B", "google/gemma-3-1b-pt")
    ]
    assert kernels == ["unsloth", "none"]


def test_unsloth_offloads_activations_only_where_it_checkpoints(train):
    asked = {"gpu": "A100 80GB", "framework": "unsloth", "method": "lora", "model": "Qwen/Qwen3-8B"}
    offloads = [
        train(**asked, **settings).understood_as["activation_offload"]
        for settings in ({}, {"activation_checkpointing": "none"})
    ]
    assert offloads == [True, False]


def test_unsloth_is_not_counted_in_shards(train):
    answer = train(
        model="meta-llama/Llama-3.1-8B",
        gpu="RTX 4090",
        gpu_count=2,
        framework="unsloth",
        method="full",
    )
    assert (answer.verdict, answer.understood_as["framework"]) == ("does_not_fit", "transformers")


def test_a_plan_for_a_tool_keeps_its_formats_optimizer_loss_and_kernels_and_searches_the_rest(plan):
    asked = {
        "model": "meta-llama/Llama-3.1-8B",
        "gpu": "RTX 4090",
        "gpu_count": 1,
        "method": "qlora",
        "framework": "unsloth",
    }
    first = plan(**asked)
    settings = first.plans[0].settings
    assert (settings["kernels"], settings["loss"], settings["base_precision"]) == (
        "unsloth",
        "fused",
        "half",
    )
    assert (first.understood_as["framework"], first.understood_as["optimizer"]) == (
        "unsloth",
        "adamw_8bit",
    )
    again = plan(**first.understood_as)
    assert [plan.settings for plan in again.plans] == [plan.settings for plan in first.plans]


def test_a_plan_for_a_tool_says_what_the_tool_decided_and_starts_the_tool(plan):
    asked = {
        "model": "meta-llama/Llama-3.1-8B",
        "gpu": "H100",
        "framework": "unsloth",
        "method": "lora",
        "max_gpu_count": 2,
    }
    answer = plan(**asked)
    (filled,) = [warning for warning in answer.warnings if warning.code == "tool-defaults"]
    assert "optimizer adamw_8bit" in filled.message
    assert "activation_checkpointing" not in filled.message  # searched
    assert "from unsloth import" in answer.plans[0].launch.command


def test_a_plan_for_a_tool_that_shards_on_several_cards_does_so_there_alone(plan):
    asked = {
        "model": "meta-llama/Llama-3.1-8B",
        "gpu": "H100",
        "framework": "torchtune",
        "method": "lora",
        "max_gpu_count": 4,
    }
    plans = plan(**asked).plans
    found = {(plan.gpu_count > 1, plan.settings["framework"]) for plan in plans}
    assert found == {(False, "transformers"), (True, "fsdp")}


@pytest.mark.parametrize("tool", ["trl", "llama-factory", "ms-swift", "axolotl"])
def test_a_plan_for_a_tool_of_transformers_shards_where_copies_do_not_fit(plan, tool):
    asked = {
        "model": "meta-llama/Llama-3.1-70B",
        "gpu": "H100",
        "gpu_count": 8,
        "framework": tool,
        "method": "lora",
    }
    plans = plan(**asked).plans
    assert plans
    assert {plan.settings["framework"] for plan in plans} <= {"deepspeed", "fsdp"}


TITAN = {"gpu": "H100", "trainer": "torchtitan", "method": "full"}


@pytest.mark.parametrize("mode", ["none", "selective", "full"])
def test_torchtitans_command_carries_its_checkpointing(train, mode):
    answer = train(
        model="meta-llama/Llama-3.1-8B", gpu_count=16, activation_checkpointing=mode, **TITAN
    )
    assert answer.launch.command.endswith(f"activation-checkpoint:{mode}")


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("meta-llama/Llama-3.1-8B", "selective"),
        ("meta-llama/Llama-3.1-70B", "full"),
        ("Qwen/Qwen3-8B", "selective"),
        ("Qwen/Qwen3-14B", "full"),
        ("openai/gpt-oss-20b", "full"),
    ],
)
def test_torchtitan_checkpoints_as_its_configuration_of_the_model_does(train, model, taken):
    assert train(model=model, gpu_count=8, **TITAN).understood_as["activation_checkpointing"] == (
        taken
    )


def test_torchtitan_divides_the_stream_with_tensor_parallelism(train):
    asked = {"model": "meta-llama/Llama-3.1-8B", "gpu_count": 8, **TITAN}
    divided = train(**asked, tensor_parallel=4)
    whole = train(**asked, tensor_parallel=4, sequence_parallel=False)
    assert divided.understood_as["sequence_parallel"] is True
    assert train(**asked).understood_as["sequence_parallel"] is False
    assert "no_enable_sequence_parallel" in whole.launch.command
    assert "sequence_parallel" not in divided.launch.command


def test_torchtitans_loss_in_chunks_is_within_the_interval(train):
    asked = {"model": "meta-llama/Llama-3.1-8B", "gpu_count": 8, **TITAN}
    asked |= {"sequence_length": 8192, "activation_checkpointing": "full"}
    either, chunks, whole = (
        train(**asked, **loss).per_gpu.required_bytes
        for loss in ({}, {"loss": "chunked_backward"}, {"loss": "full"})
    )
    logits = 8192 * 128_256 * 4
    assert either.expected == whole.expected
    assert either.low == min(chunks.low, whole.low)
    assert whole.expected - chunks.expected > logits


def test_a_loss_of_supervised_training_is_not_that_of_an_algorithm():
    request = TrainingRequest(model="8b", gpu="A100 80GB", framework="trl", algorithm="dpo")
    assert with_tool_defaults(request, "full", 1, EIGHT).loss is None


def test_nothing_is_said_of_a_question_that_names_no_tool():
    request = TrainingRequest(model="8b", gpu="A100 80GB", framework="fsdp")
    assert defaults_note(request, with_tool_defaults(request, "full", 1, EIGHT), ()) is None


@pytest.mark.parametrize(
    "word",
    ["llama_factory", "LLaMA-Factory", "Torch Tune", "ms swift", "EasyR1", "pytorch-lightning"],
)
def test_tools_are_known_however_they_are_written(word):
    assert TrainingRequest(model="8b", gpu="A100 80GB", framework=word)
    assert find_tool(word) is not None


@pytest.mark.parametrize("word", ["colossalai", "fairseq", "mlx-lm"])
def test_a_tool_that_is_not_modelled_is_refused_with_what_comes_nearest(train, word):
    with pytest.raises(InvalidRequestError) as refused:
        train(**SMALL, framework=word)
    assert "framework" in refused.value.hint


def test_an_unknown_trainer_is_refused_with_those_that_are_known(train):
    with pytest.raises(InvalidRequestError) as refused:
        train(**SMALL, trainer="unslot")
    assert refused.value.matches == ("unsloth",)
    assert "llama-factory" in refused.value.hint


def test_a_plan_that_offloads_under_transformers_is_deepspeeds(plan):
    asked = {
        "model": "Qwen/Qwen3-8B",
        "gpu": "A100",
        "framework": "transformers",
        "offload": "optimizer",
        "max_gpu_count": 4,
    }
    plans = plan(**asked).plans
    assert {plan.settings["framework"] for plan in plans} == {"deepspeed"}


def test_every_tool_is_named_in_the_contract_and_in_sentences():
    names = [tool.name for tool in TOOLS]
    meta = typing.get_type_hints(TrainingRequest, include_extras=True)["trainer"].__metadata__[0]
    described = re.findall(r"[a-z-]+", meta.description.partition(": ")[2].partition(".")[0])
    assert described == [*names[:-1], "or", names[-1]], "see `trainer` in shared_fields.py"
    assert set(names) == {name for kind, name in PHRASES.values() if kind == "TRAINER"}, (
        "see ask/vocabulary.tsv"
    )
