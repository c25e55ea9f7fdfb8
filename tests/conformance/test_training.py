"""The worked examples of training, as answers of the API. GB = 10^9 bytes, B = 10^9 parameters."""

import pytest

from notes import codes

GB, GIB = 10**9, 2**30


def term(answer, *names):
    return sum(found["bytes"] for found in answer["terms"] if found["name"] in names)


def states(answer):
    return term(answer, "weights", "gradients", "master_weights", "optimizer_states")


STEP = {"sequence_length": 1, "gpu": "1000GB"}


def test_mixed_precision_adam_takes_sixteen_bytes_a_parameter_under_deepspeed(train):
    answer = train(model="7b", framework="deepspeed", zero_stage=0, optimizer="adamw", **STEP)
    assert states(answer) == 112 * GB
    assert [
        term(answer, name)
        for name in ("weights", "gradients", "master_weights", "optimizer_states")
    ] == [14 * GB, 14 * GB, 28 * GB, 56 * GB]


@pytest.mark.parametrize(
    ("optimizer", "precision", "each"),
    [
        ("adamw", "fp32", 8),
        ("adamw", "mixed_bf16", 8),
        ("sgd_momentum", "fp32", 4),
        ("adamw", "int8", 2),
        ("adamw", "bf16", 4),
        ("sgd", "fp32", 0),
    ],
)
def test_optimizer_bytes_a_parameter(train, optimizer, precision, each):
    assert (
        term(
            train(model="7b", optimizer=optimizer, precision=precision, **STEP), "optimizer_states"
        )
        == 7 * GB * each
    )


def test_seven_billion_on_fsdp_take_twenty_bytes_a_parameter_at_the_least_and_160_gb_in_all(train):
    """On two GPUs of 80 GB, the fewest that hold it: what it needs of both, and what both show. It
    is tight, as what PyTorch's allocator reserves fills them, and fits from three."""
    answer = train(model="7b", framework="fsdp", gpu="A100 80GB", gpu_count=2, sequence_length=2048)
    usable, shown = answer["per_gpu"]["usable_bytes"], answer["per_gpu"]["shown_bytes"]
    assert answer["verdict"] == "tight"
    assert answer["fit_probability"] > 0.5
    assert answer["limits"]["min_gpu_count"] == 3
    alone = train(model="7b", framework="fsdp", gpu="A100 80GB", sequence_length=2048)
    assert alone["verdict"] == "does_not_fit"
    assert 2 * (usable - answer["per_gpu"]["headroom_bytes"]) >= 20 * 7 * GB
    assert 2 * shown["low"] <= 160 * GB <= 2 * shown["high"]


def test_eight_bit_adam_takes_two_bytes_a_parameter_and_its_scales(train):
    assert term(train(model="7b", optimizer="adamw_8bit", **STEP), "optimizer_states") / (
        7 * GB
    ) == pytest.approx(2, rel=0.02)


def test_six_billion_in_int8_take_six_six_and_twelve_gigabytes_and_25_3_with_a_context_of_1_3(
    train,
):
    """The context is measured on the machine it was seen on; a kernel that steps in place
    (fused) makes no temporaries."""
    context = {"runtime_gib": 1.3 * GB / GIB, "optimizer_implementation": "fused"}
    answer = train(model="6b", precision="int8", optimizer="adamw", **context, **STEP)
    assert [term(answer, name) for name in ("weights", "gradients", "optimizer_states")] == [
        6 * GB,
        6 * GB,
        12 * GB,
    ]
    assert states(answer) + term(answer, "runtime") == pytest.approx(25.3 * GB, abs=1)


LLAMA_7B_INT8 = {
    "model": "meta-llama/Llama-2-7b-hf",
    "activation_rule": "widths",
    "precision": "int8",
    "gpu": "A100 80GB",
    "sequence_length": 2048,
}


def test_a_sample_of_llama_7b_in_int8_takes_hidden_and_intermediate_in_every_layer(train):
    answer = train(**LLAMA_7B_INT8, optimizer_implementation="fused")
    assert term(answer, "activations") == 989_855_744


def test_batch_fifty_of_llama_7b_in_int8_just_fits_an_a100_of_80_gb(train):
    """The example counts the parameters as a size (7.0e9) and the activations as Llama's shape."""
    size = train(**{**LLAMA_7B_INT8, "model": "7b"}, micro_batch_size=50)
    counted = [term(size, name) for name in ("weights", "gradients", "optimizer_states")]
    assert counted == [7 * GB, 7 * GB, 14 * GB]
    answer = train(**LLAMA_7B_INT8, micro_batch_size=50)
    activations = term(answer, "activations")
    assert (sum(counted) + activations) / GB == pytest.approx(77.5, abs=0.05)
    assert answer["per_gpu"]["allocated_bytes"]["expected"] == states(answer) + activations
    assert answer["verdict"] in ("fits", "tight")
    assert train(**LLAMA_7B_INT8, micro_batch_size=60)["verdict"] == "does_not_fit"


@pytest.fixture
def gptq(train):
    """What is not quantized is fp32, as PEFT prepared models then."""
    usual = {"sequence_length": 2048, "activation_checkpointing": "full", "base_precision": "fp32"}
    return train(model="65b", gpu="80GB", method="qlora", quantization="gptq", **usual)


def test_sixty_five_billion_in_gptq_with_lora_fit_80_gb_and_may_need_fifty(gptq):
    required = gptq["per_gpu"]["required_bytes"]
    assert required["low"] <= 50 * GB <= required["high"]
    assert gptq["verdict"] == "fits"


def test_sixty_five_billion_in_gptq_with_lora_take_about_fifty_gigabytes(gptq):
    assert gptq["per_gpu"]["shown_bytes"]["expected"] / GB == pytest.approx(50, abs=3)


def test_bloom_is_fine_tuned_in_full_on_72_a100_of_80_gb_and_not_on_half_of_them(train):
    usual = {
        "framework": "deepspeed",
        "zero_stage": 3,
        "sequence_length": 2048,
        "activation_checkpointing": "full",
    }
    assert (
        train(model="bigscience/bloom", gpu="A100 80GB SXM", gpu_count=72, **usual)["verdict"]
        == "fits"
    )
    assert (
        train(model="bigscience/bloom", gpu="A100 80GB SXM", gpu_count=36, **usual)["verdict"]
        == "does_not_fit"
    )


def test_flash_attention_is_unsupported_on_v100_and_sdpa_named_instead(train):
    answer = train(model="65b", method="lora", gpu="V100 32GB", attention="flash")
    assert answer["verdict"] == "unsupported"
    assert "FlashAttention" in answer["summary"]
    assert "sdpa" in answer["summary"]


LLAMA_13B = {
    "model": "meta-llama/Llama-2-13b-hf",
    "gpu": "1000GB",
    "framework": "megatron",
    "sequence_length": 4096,
}


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({"activation_rule": "40shl"}, 40 * 4096 * 5120 * 40),
        ({"activation_rule": "34sbh"}, 34 * 4096 * 5120 * 40),
        (
            {"activation_rule": "34sbh", "attention": "eager"},
            (34 * 4096 * 5120 + 5 * 40 * 4096**2) * 40,
        ),
        (
            {
                "activation_rule": "34sbh",
                "attention": "eager",
                "activation_checkpointing": "selective",
            },
            34 * 4096 * 5120 * 40,
        ),
        (
            {"activation_rule": "34sbh", "activation_checkpointing": "full"},
            2 * 4096 * 5120 * 40 + 34 * 4096 * 5120,
        ),
        ({"activation_rule": "34sbh", "tensor_parallel": 2}, (10 + 12) * 4096 * 5120 * 40),
        (
            {"activation_rule": "34sbh", "tensor_parallel": 2, "sequence_parallel": True},
            17 * 4096 * 5120 * 40,
        ),
        ({"activation_rule": "widths"}, (5120 + 13824) * 4096 * 40 * 2),
    ],
    ids=str,
)
def test_rules_that_people_quote_are_counted_for_any_model_where_they_are_asked_for(
    train, settings, size
):
    answer = train(**LLAMA_13B, **settings)
    assert term(answer, "activations") == size
    assert ("activations-by-rule", "activation_rule") in codes(answer["warnings"])


def test_a_size_under_megatron_is_counted_as_its_model_where_the_recipe_is_asked_for(train):
    model = term(train(**LLAMA_13B), "activations")
    assert term(
        train(**{**LLAMA_13B, "model": "13b"}, activation_rule="recipe"), "activations"
    ) == pytest.approx(model, rel=0.02)


@pytest.mark.parametrize(
    ("quantization", "each"), [("int8", 1), ("gptq", 0.5), ("awq", 0.5), ("nf4", 0.5 * 9 / 8)]
)
def test_a_frozen_base_that_is_only_a_size_takes_the_bytes_of_its_format(train, quantization, each):
    """nf4 keeps a scale for 64 numbers, of whatever shape."""
    answer = train(model="7b", method="lora", lora_rank=1, quantization=quantization, **STEP)
    assert term(answer, "weights") == pytest.approx(7 * GB * each, rel=0.01)
