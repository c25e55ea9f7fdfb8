"""A checkpoint that is quantized itself: adapters are trained on it as it is loaded."""

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.services.training_fit.quantized_checkpoints import base_of

QWEN = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
}


def codes(answer):
    return [note.code for note in answer.warnings]


def weights(answer):
    return next(term.bytes for term in answer.terms if term.name == "weights")


@pytest.mark.parametrize(
    ("model", "base"),
    [
        ("Qwen/Qwen3-8B-AWQ", "awq"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "gptq"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq_int8"),
        ("unsloth/Qwen3-8B-bnb-4bit", "nf4_double"),
    ],
)
@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_adapters_on_a_quantized_checkpoint_have_it_as_their_base(train, model, base, method):
    answer = train(model=model, gpu="RTX 4090", method=method)
    assert answer.understood_as["quantization"] == base
    assert ("quantization", base) in [(one.field, one.value) for one in answer.assumed]
    assert "checkpoint-quantized" not in codes(answer)


@pytest.mark.parametrize(("bits", "base"), [(4, "gptq"), (3, None), ([4, 4], None), ("4", None)])
def test_bits_that_no_library_packs_are_no_base(bits, base):
    quantization = {"quant_method": "gptq", "bits": bits, "group_size": 128}
    spec = read_config(QWEN, quantization)
    assert base_of(spec) == base


def test_an_awq_base_is_not_counted_in_16_bit(train):
    """Qwen3-8B-AWQ stores 6.1 GB."""
    lora = train(model="Qwen/Qwen3-8B-AWQ", gpu="RTX 4090", method="lora")
    assert weights(lora) == pytest.approx(6.1e9, rel=0.05)


def test_a_format_that_is_sent_stands(train):
    answer = train(model="Qwen/Qwen3-8B-AWQ", gpu="RTX 4090", method="qlora", quantization="nf4")
    assert answer.understood_as["quantization"] == "nf4"


@pytest.mark.parametrize(
    ("model", "gpu", "method", "published"),
    [
        ("Qwen/Qwen3-8B-AWQ", "RTX 4090", "full", "awq"),
        ("Qwen/Qwen3-8B-FP8", "RTX 4090", "full", "fp8"),
        ("Qwen/Qwen3-8B-FP8", "RTX 3090", "lora", "fp8"),
        ("Qwen/Qwen3-8B-FP8", "2 x RTX 4090", "lora", "fp8"),
        ("Qwen/Qwen3-8B-GGUF", "RTX 4090", "qlora", "GGUF"),
    ],
)
def test_what_is_not_trained_as_it_is_published_is_said(train, model, gpu, method, published):
    answer = train(model=model, gpu=gpu, method=method)
    (note,) = [one for one in answer.warnings if one.code == "checkpoint-quantized"]
    assert f"is published in {published}" in note.message


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "Qwen/Qwen3-8B", "method": "full"},
        {"model": "openai/gpt-oss-20b", "method": "lora"},
        {"model": "deepseek-ai/DeepSeek-V3", "method": "full", "framework": "megatron"},
    ],
    ids=str,
)
def test_what_is_imported_in_16_bit_gets_no_such_warning(train, asked):
    assert "checkpoint-quantized" not in codes(train(gpu="8x H200", **asked))


def test_plans_have_the_base_of_the_checkpoint_too(plan):
    answer = plan(model="Qwen/Qwen3-8B-AWQ", gpu="RTX 4090", method="lora")
    assert answer.plans[0].settings["quantization"] == "awq"
    answer = plan(model="Qwen/Qwen3-8B-AWQ", gpu="A100 80GB", method="full")
    assert "checkpoint-quantized" in codes(answer)


def test_adapters_are_trained_on_an_fp8_checkpoint_where_the_gpu_multiplies_fp8(train):
    """transformers/integrations/finegrained_fp8.py, FP8LinearFunction; older GPUs get 16 bit
    (quantizers/quantizer_finegrained_fp8.py, validate_environment)."""
    asked = {"model": "Qwen/Qwen3-8B-FP8", "method": "lora"}
    new, named, old = (
        train(**asked, **more)
        for more in (
            {"gpu": "RTX 4090"},
            {"gpu": "RTX 4090", "quantization": "fp8"},
            {"gpu": "RTX 3090", "quantization": "fp8"},
        )
    )
    assert new.understood_as["quantization"] == "fp8"
    assert new.per_gpu.required_bytes == named.per_gpu.required_bytes
    assert "quantization" not in old.understood_as
    quarter = train(**{**asked, "method": "qlora"}, gpu="RTX 4090")
    assert quarter.understood_as["quantization"] == "nf4"  # of the model that it was made from
    assert old.per_gpu.required_bytes.expected > new.per_gpu.required_bytes.expected + 6 * 2**30


def test_a_base_that_the_command_does_not_quantize_is_said(train):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "method": "lora", "quantization": "fp8"}
    lacking = [one for one in train(**asked).warnings if one.field == "quantization"]
    assert any("loads Qwen/Qwen3-8B in 16 bit" in one.message for one in lacking)
    nf4 = train(**{**asked, "method": "qlora", "quantization": "nf4"})
    assert not [one for one in nf4.warnings if one.field == "quantization"]
