"""What a training question takes for what it leaves out: the settings of TRL, the first method
that fits, how several GPUs share the model; and that the answer says so and keeps its word."""

import asyncio
import random
import re

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.sizes import nominal_model
from fitgauge.engine.quantity import GIB
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.defaults import with_defaults
from fitgauge.services.training_fit.schemas import TrainingRequest

MODELS = ("Qwen/Qwen3-8B", "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-30B-A3B", "7b")
GPUS = ("RTX 4090", "T4", "A100 80GB", "4x L40S", "8x H100", "2x RTX 3090")
SETTINGS = (
    {},
    {"sequence_length": 8192, "micro_batch_size": 4},
    {"trainer": "axolotl"},
    {"framework": "fsdp"},
    {"algorithm": "dpo"},
    {"activation_checkpointing": "none"},
)
CHOSEN = (
    "activation_checkpointing",
    "precision",
    "loss",
    "optimizer",
    "attention",
    "micro_batch_size",
    "sequence_length",
)


def filled(method, gpu="H100", count=1, **asked):
    request = TrainingRequest(model="8b", gpu=gpu, **asked)
    accelerator = bundled().find(gpu).accelerator
    return with_defaults(request, method, accelerator, count, nominal_model("8b", 8 * 10**9).spec)


@pytest.mark.parametrize(
    ("method", "asked", "taken"),
    [
        ("full", {}, ("mixed_bf16", None, "full", "recomputed")),
        ("lora", {}, ("mixed_bf16", "half", "full", "recomputed")),
        ("qlora", {}, ("mixed_bf16", "half", "full", "recomputed")),
        ("lora", {"gpu": "T4"}, ("mixed_fp16", "half", "full", "recomputed")),
        ("lora", {"precision": "mixed_bf16"}, ("mixed_bf16", None, "full", "recomputed")),
        ("lora", {"framework": "fsdp"}, ("mixed_bf16", "half", "full", None)),
        ("lora", {"zero_stage": 3}, ("mixed_bf16", "half", "full", None)),
        ("full", {"kernels": "liger"}, ("mixed_bf16", None, "full", None)),
        ("full", {"algorithm": "dpo"}, ("mixed_bf16", None, "full", None)),
        ("full", {"framework": "megatron"}, (None, None, None, None)),
        ("lora", {"trainer": "trl"}, ("mixed_bf16", None, "full", "recomputed")),
        ("full", {"activation_checkpointing": "none"}, ("mixed_bf16", None, "none", "recomputed")),
    ],
    ids=str,
)
def test_settings_left_out_are_those_of_trl_with_a_base_in_16_bit(method, asked, taken):
    request = filled(method, **asked)
    assert (
        request.precision,
        request.base_precision,
        request.activation_checkpointing,
        request.loss,
    ) == taken


def test_everything_that_is_assumed_is_listed_with_what_the_opposite_needs(train):
    answer = train(model="7b", gpu="RTX 4090", method="qlora")
    assumed = {one.field: one for one in answer.assumed}
    assert set(CHOSEN) <= set(assumed)
    for field in CHOSEN:
        assert assumed[field].value == answer.understood_as[field]
    (other,) = re.findall(r"off: ([\d.]+) GiB", assumed["activation_checkpointing"].message)
    without = train(model="7b", gpu="RTX 4090", method="qlora", activation_checkpointing="none")
    assert float(other) == pytest.approx(without.per_gpu.required_bytes.expected / 2**30, abs=0.006)


def test_what_is_sent_is_no_assumption(train):
    sent = train(model="Qwen/Qwen3-8B", gpu="RTX 4090").understood_as
    assert train(**sent).assumed == []


def test_a_textbook_question_fits_the_gpu_it_is_known_to_fit(train):
    """8 billion by QLoRA take 7 to 13 GiB as TRL runs it."""
    answer = train(model="Qwen/Qwen3-8B", gpu="RTX 4090", method="qlora")
    assert answer.verdict == "fits"
    assert 7 < answer.per_gpu.required_bytes.expected / 2**30 < 13
    assert "--gradient_checkpointing true" in answer.launch.command


@pytest.mark.parametrize(
    ("model", "gpu", "method", "verdict"),
    [
        ("7b", "RTX 4090", "lora", "fits"),
        ("7b", "RTX 3060 12GB", "qlora", "fits"),
        ("70b", "RTX 4090", "qlora", "does_not_fit"),
        ("Qwen/Qwen3-0.6B", "H100", "lora", "fits"),
    ],
)
def test_without_a_method_the_first_that_fits_answers_else_the_least(
    train, model, gpu, method, verdict
):
    answer = train(model=model, gpu=gpu)
    assert (answer.understood_as["method"], answer.verdict) == (method, verdict)
    assert set(answer.others) == {"lora", "qlora", "full"} - {method}
    for other, one in answer.others.items():
        alone = train(model=model, gpu=gpu, method=other)
        assert (one.verdict, one.required_bytes, one.fit_probability) == (
            alone.verdict,
            alone.per_gpu.required_bytes.expected,
            alone.fit_probability,
        )
    if verdict == "does_not_fit":
        least = min(one.required_bytes for one in answer.others.values())
        assert answer.per_gpu.required_bytes.expected <= least


def test_a_method_that_the_tool_or_the_gpu_cannot_run_is_not_chosen(train):
    small = {"model": "Qwen/Qwen3-0.6B", "gpu": "H100"}
    assert train(**small, trainer="torchtitan").understood_as["method"] == "full"
    assert "qlora" not in train(**small, framework="megatron").others
    assert train(model="7b", gpu="TPU v5e").others["qlora"].verdict == "unsupported"


@pytest.mark.parametrize("quantization", ["4bit", "int4", "nf4", "nf4_double"])
def test_four_bits_without_a_method_are_those_of_qlora_and_of_its_command(train, quantization):
    answer = train(model="google/gemma-2-9b", gpu="RTX 3090", quantization=quantization)
    assert answer.understood_as["method"] == "qlora"
    assert "--load_in_4bit true" in answer.launch.command
    by_lora = train(
        model="google/gemma-2-9b", gpu="RTX 3090", quantization=quantization, method="LoRA (r=8)"
    )
    assert by_lora.understood_as["method"] == "lora"
    assert "--load_in_4bit true" in by_lora.launch.command


def test_a_method_that_is_sent_is_refused_where_it_is_impossible(train):
    with pytest.raises(InvalidRequestError):
        train(model="7b", gpu="H100", method="full", quantization="nf4")
    assert train(model="7b", gpu="H100", quantization="nf4").understood_as["method"] == "qlora"


def test_how_several_gpus_share_the_model_is_said_and_never_changed_in_silence(train):
    copied, sharded = (
        train(model=model, gpu="4x A100 80GB", method="lora") for model in ("8b", "70b")
    )
    for answer, framework in ((copied, "transformers"), (sharded, "fsdp")):
        assert ("framework", framework) in [(one.field, one.value) for one in answer.assumed]
        assert answer.understood_as["framework"] == framework
    assert "DDP" in copied.summary
    assert "FSDP" in sharded.summary
    largest = copied.limits.max_micro_batch_size
    again = train(model="8b", gpu="4x A100 80GB", method="lora", micro_batch_size=largest)
    assert (again.understood_as["framework"], again.verdict) == ("transformers", "fits")
    for one in train(model="70b", gpu="H100", method="lora").suggestions:
        if one.request.get("gpu_count", 1) > 1:
            assert "FSDP" in one.change


def test_full_training_that_does_not_fit_is_answered_with_adapters_and_with_more_gpus(train):
    for model, gpu in (("Qwen/Qwen3-8B", "RTX 4090"), ("Qwen/Qwen3-235B-A22B", "4x H100")):
        requests = [one.request for one in train(model=model, gpu=gpu, method="full").suggestions]
        assert {"lora", "qlora"} <= {request.get("method") for request in requests}
        assert any("gpu_count" in request and "method" not in request for request in requests)


def test_host_memory_is_said_per_gpu_and_in_all(train):
    answer = train(
        model="meta-llama/Llama-3.3-70B-Instruct",
        gpu="8x A100 80GB",
        method="full",
        framework="deepspeed",
        zero_stage=3,
        offload="cpu",
    )
    host = answer.host_memory
    assert (host.per_gpu_bytes, host.total_bytes) == (
        answer.per_gpu.host_bytes,
        8 * answer.per_gpu.host_bytes,
    )
    for size in (host.per_gpu_bytes, host.total_bytes):
        assert f"{size / 2**30:,.2f} GiB" in answer.summary
    assert train(model="7b", gpu="H100").host_memory is None
    suggested = train(model="Qwen/Qwen3-8B", gpu="RTX 4090", method="full").suggestions
    offloaded = next(one for one in suggested if one.request.get("offload") == "cpu")
    assert (
        f"{offloaded.host_memory.total_bytes / 2**30:,.2f} GiB of host memory" in offloaded.change
    )


def test_what_the_machine_does_not_hold_does_not_fit(train):
    """Of the methods that are open the first that the machine holds is taken, and none of the
    suggestions takes more."""
    asked = {"model": "meta-llama/Llama-2-13b-hf", "gpu": "4x V100 32GB", "offload": "cpu"}
    answer = train(**asked, method="full", host_memory_gib=64)
    assert (answer.verdict, answer.fit_probability, answer.launch) == ("does_not_fit", 0, None)
    assert answer.summary.endswith("GiB in all: the machine has 64 GiB.")
    assert [one.verdict for one in answer.suggestions] == ["fits", "fits"]
    assert all(one.host_memory.total_bytes < 64 * GIB for one in answer.suggestions)
    assert train(**asked, method="full", host_memory_gib=512).verdict == "fits"
    assert train(**asked, host_memory_gib=64).understood_as["method"] == "lora"


def test_what_the_gpu_cannot_run_has_no_figures_and_no_command(train):
    answer = train(model="7b", gpu="V100 32GB", attention="flash")
    assert answer.verdict == "unsupported"
    assert (answer.per_gpu, answer.terms, answer.limits, answer.launch) == (None,) * 4
    assert answer.fit_probability is None


def questions_of(count):
    draw = random.Random(20261123)
    return [
        {
            "model": draw.choice(MODELS),
            "gpu": draw.choice(GPUS),
            **draw.choice(SETTINGS),
            **(
                {"method": method}
                if (method := draw.choice((None, "lora", "qlora", "full")))
                else {}
            ),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("asked", questions_of(24), ids=str)
def test_an_answer_asked_again_as_it_advises_keeps_its_word(train, asked):
    answer = train(**asked)
    required = answer.per_gpu.required_bytes.expected
    assert sum(term.bytes for term in answer.terms) == pytest.approx(required, abs=20)
    assert f"needs {required / 2**30:.2f} GiB" in answer.summary
    assert (answer.launch is None) == (answer.verdict == "does_not_fit")
    if answer.verdict == "fits":
        assert answer.per_gpu.headroom_bytes >= 0
        assert answer.limits.max_micro_batch_size >= asked.get("micro_batch_size", 1)
        largest = train(**asked | {"micro_batch_size": answer.limits.max_micro_batch_size})
        assert largest.verdict == "fits"
    if (fewest := answer.limits.min_gpu_count) is not None:
        assert train(**asked | {"gpu_count": fewest}).verdict == "fits"
    for one in answer.suggestions:
        again = train(**asked | one.request)
        assert (again.verdict, again.per_gpu.required_bytes.expected, again.launch) == (
            one.verdict,
            one.required_bytes,
            one.launch,
        )


@pytest.mark.parametrize("tool", ["trl", "llama-factory", "ms-swift"])
def test_the_trainers_adamw_steps_fused_as_it_has_since_torch_2_8(questions, tool):
    asked = {"model": "Qwen/Qwen3-0.6B", "gpu": "A100 80GB", "method": "full", "trainer": tool}
    answer = asyncio.run(questions.check_training_fit(TrainingRequest(**asked)))[1]
    assert answer.understood_as["optimizer_implementation"] == "fused"
    assert "adamw_torch_fused" in answer.launch.command
    assert "optimizer_temporaries" not in {term.name for term in answer.terms}


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({"trainer": "verl", "algorithm": "grpo"}, "full"),
        ({"trainer": "torchtitan"}, "full"),
        ({"framework": "megatron"}, "full"),
        ({"trainer": "axolotl"}, "lora"),
        ({}, "lora"),
    ],
    ids=str,
)
def test_a_tool_that_trains_all_weights_by_itself_is_judged_so_first(train, settings, method):
    answer = train(model="Qwen/Qwen3-4B", gpu="8 x H100", **settings)
    assert (answer.understood_as["method"], answer.verdict) == (method, "fits")


@pytest.mark.parametrize(
    "field", [{"merge": True}, {"lora_rank": 8}, {"lora_targets": "attention"}], ids=str
)
def test_full_training_says_that_it_ignores_what_is_of_adapters(train, field):
    asked = {"model": "Qwen/Qwen3-0.6B", "gpu": "H100", **field}
    (name,) = field
    ignored = [
        one.field for one in train(**asked, method="full").warnings if one.code == "field-ignored"
    ]
    assert ignored == [name]
    assert not [
        one for one in train(**asked, method="lora").warnings if one.code == "field-ignored"
    ]


@pytest.mark.parametrize(
    "asked",
    [{"zero_stage": 3}, {"framework": "fsdp"}, {"trainer": "trl", "framework": "deepspeed"}],
    ids=str,
)
def test_states_are_divided_because_all_weights_are_trained(train, asked):
    """The states of adapters are small: who names ZeRO or FSDP and no adapters trains the model."""
    answer = train(model="mistralai/Mistral-7B-v0.3", gpu="4x A100 80GB", **asked)
    assert answer.understood_as["method"] == "full"
    alone = train(model="mistralai/Mistral-7B-v0.3", gpu="4x A100 80GB")
    assert alone.understood_as["method"] == "lora"


def test_settings_of_adapters_say_that_adapters_are_trained(train):
    asked = {"model": "mistralai/Mistral-7B-v0.3", "gpu": "4x A100 80GB", "zero_stage": 3}
    assert train(**asked, lora_rank=16).understood_as["method"] == "lora"


def test_what_qlora_leaves_unquantized_is_loaded_in_16_bit(train):
    """As the base of LoRA is: else a mixture's QLoRA would need twice what its LoRA does. TRL
    before 0.26 had norms, embeddings and head of a dense model in fp32, within the interval."""
    asked = {"model": "mistralai/Mixtral-8x7B-Instruct-v0.1", "gpu": "B300"}
    lora, qlora = (train(**asked, method=method) for method in ("lora", "qlora"))
    assert qlora.understood_as["base_precision"] == "half"
    assert "--dtype bfloat16" in qlora.launch.command
    assert qlora.per_gpu.required_bytes.expected < lora.per_gpu.required_bytes.expected
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "B300", "method": "qlora"}
    dense, upcast = train(**asked), train(**asked, base_precision="fp32")
    assert "--dtype bfloat16" in dense.launch.command
    assert dense.per_gpu.required_bytes.expected < upcast.per_gpu.required_bytes.expected
    assert dense.per_gpu.required_bytes.high == upcast.per_gpu.required_bytes.high
