"""Repositories with the shapes of another model: the bundled ones, and those that follow from a
name."""

from pathlib import Path

import pytest

from fitgauge.catalog import variants
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.weights.sharding import stored_bytes

SNAPSHOT = Snapshot()
OWN = set(SNAPSHOT.own_ids)
DERIVED = [model_id for model_id in SNAPSHOT.ids() if model_id not in OWN]

MOST_BITS = {"gguf": 6.0, "nvfp4": 6.0, "int4_experts": 5.0, "fp8": 12.0, "fp8_block": 12.0}
"""Of a weight, on the average of the whole file; small models have large embeddings."""

OPEN_MODELS = (Path(__file__).parent / "data" / "open_models.txt").read_text().split()
"""Open models that people ask for, from public knowledge."""


def bits(model: Model) -> float:
    """Return the bits of a weight, on the average of what is stored."""
    if model.stored is not None and model.stored.file_bytes:
        size = model.stored.file_bytes
    else:
        size = stored_bytes(model.spec, published(model.spec) or Scheme(name="trained"))
    return size * 8 / model.spec.parameters


@pytest.mark.parametrize("model_id", OPEN_MODELS)
def test_an_open_model_is_known(model_id: str) -> None:
    model = SNAPSHOT.model(model_id) or SNAPSHOT.derive(model_id)
    assert model is not None
    assert model.spec.parameters > 10_000_000


@pytest.mark.parametrize("model_id", DERIVED)
def test_a_derived_row_has_a_source_and_the_shapes_of_its_base(model_id: str) -> None:
    row, model = SNAPSHOT.get(model_id), SNAPSHOT.model(model_id)
    assert row is not None
    assert model is not None
    assert len(row.source) > 8
    assert row.like in OWN
    assert row.rule in variants.RULES
    base = SNAPSHOT.model(row.like or "")
    assert base is not None
    assert (model.base, model.spec.layers) == (base.id, base.spec.layers)
    assert model.spec.parameters == base.spec.parameters
    assert model.rule == variants.RULES[row.rule]
    assert (row.rule == "quantized") is (row.form is not None) or row.rule == "release"
    if row.form == variants.UNQUANTIZED:
        assert not model.is_quantized
    elif row.form is not None:
        assert model.is_quantized
        assert bits(model) < MOST_BITS.get(row.form, 11.0)


@pytest.mark.parametrize("form", variants.FORMATS)
def test_a_format_is_one_that_the_readers_know(form: str) -> None:
    base = SNAPSHOT.get("Qwen/Qwen3-32B")
    assert base is not None
    scheme = published(read_config(variants.with_format(base.config, form)))
    assert scheme is not None
    assert scheme.warnings == ()
    assert scheme.basis != "assumed"


@pytest.mark.parametrize(
    ("name", "file", "base", "least", "most"),
    [
        ("acme/Llama-3.1-8B-Instruct-AWQ", None, "meta-llama/Llama-3.1-8B-Instruct", 4.2, 6.0),
        ("TheBloke/Llama-2-13B-chat-GPTQ", None, "meta-llama/Llama-2-13b-chat-hf", 4.1, 4.8),
        ("acme/Qwen3-14B-GPTQ-Int8", None, "Qwen/Qwen3-14B", 8.0, 9.5),
        ("acme/qwen3-8b-awq-int4", None, "Qwen/Qwen3-8B", 4.2, 7.0),
        ("acme/chatglm2-6b-int4", None, "THUDM/chatglm2-6b", 4.1, 5.5),
        ("acme/chatglm2-6b-int8", None, "THUDM/chatglm2-6b", 8.0, 9.0),
        ("RedHatAI/Qwen3-32B-FP8-dynamic", None, "Qwen/Qwen3-32B", 8.0, 8.8),
        ("acme/Qwen2.5-7B-Instruct-quantized.w8a8", None, "Qwen/Qwen2.5-7B-Instruct", 8.0, 11.0),
        ("acme/gemma-3-27b-it-bnb-4bit", None, "google/gemma-3-27b-it", 4.0, 6.0),
        ("mlx-community/Qwen3-8B-4bit", None, "Qwen/Qwen3-8B", 4.4, 4.6),
        ("bartowski/Qwen_Qwen3-14B-GGUF", "Q5_K_M", "Qwen/Qwen3-14B", 5.5, 5.9),
        ("acme/Qwen3-14B-GGUF", None, "Qwen/Qwen3-14B", 4.7, 5.1),
        ("acme/gemma-3-12b-it-Q8_0-GGUF", None, "google/gemma-3-12b-it", 8.0, 8.6),
        ("unsloth/Qwen3-14B-GGUF", "UD-Q4_K_XL", "Qwen/Qwen3-14B", 4.7, 5.1),
        ("acme/Qwen3-8B-Chat", None, "Qwen/Qwen3-8B", 15.9, 16.1),
        ("acme/Qwen3-14B-GGUF", "F16", "Qwen/Qwen3-14B", 15.9, 16.1),
        ("unsloth/gpt-oss-20b-GGUF", "F16", "openai/gpt-oss-20b", 5.2, 5.4),
        ("unsloth/gpt-oss-20b-BF16", None, "openai/gpt-oss-20b", 15.9, 16.1),
    ],
)
def test_a_variant_follows_from_its_name(
    name: str, file: str | None, base: str, least: float, most: float
) -> None:
    model = SNAPSHOT.derive(name, file)
    assert model is not None
    assert (model.id, model.base, model.source) == (name, base, "snapshot")
    assert least < bits(model) < most


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("acme/unseen-8b", None),
        ("acme/unseen-8b-AWQ", None),
        ("acme/Qwen3-9B-AWQ", None),
        ("acme/Qwen3-8B", None),
        ("acme/Qwen3-8B-GGUF", "no-such-type"),
        ("acme/Qwen3-8B-AWQ", "Q4_K_M"),
        ("acme/Qwen3-8B-Medical-AWQ", None),
        ("acme/Llama-3.1-8B-Vision-Instruct", None),
        ("acme/AWQ", None),
    ],
)
def test_another_name_is_not_guessed(name: str, file: str | None) -> None:
    assert SNAPSHOT.derive(name, file) is None


def test_a_model_named_without_its_format_is_the_unquantized_one() -> None:
    """Of Qwen3.6 27B the snapshot has a config only from an NVFP4 repository."""
    model = SNAPSHOT.model("Qwen/Qwen3.6-27B")
    assert model is not None
    assert not model.is_quantized
    assert SNAPSHOT.find("Qwen3.6-27B") == "Qwen/Qwen3.6-27B"


@pytest.mark.parametrize(
    ("model_id", "context", "vocabulary"),
    [
        ("codellama/CodeLlama-70b-hf", 16384, 32016),
        ("codellama/CodeLlama-70b-Instruct-hf", 4096, 32016),
        ("LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct", 32768, 102400),
        ("openchat/openchat-3.5-0106", 8192, 32000),
        ("Qwen/QVQ-72B-Preview", 128000, 152064),
        ("Qwen/Qwen-7B-Chat", 32768, 151936),
        ("Qwen/Qwen3-Reranker-0.6B", 40960, 151669),
        ("upstage/SOLAR-10.7B-v1.0", 4096, 32000),
        ("zai-org/GLM-4.6", 202752, 151552),
        ("zai-org/GLM-4.7-FP8", 202752, 151552),
    ],
)
def test_a_release_has_its_own_context_and_vocabulary(model_id, context, vocabulary):
    row = SNAPSHOT.get(model_id)
    assert row is not None
    spec = read_config(row.config, row.quantization)
    assert spec.max_context_length == context
    assert spec.vocabulary_size == vocabulary


def test_a_base_model_in_fp8_is_larger_than_the_tuned_one_in_4_bits():
    base, tuned = (
        SNAPSHOT.model(f"deepseek-ai/DeepSeek-V4-Flash-{name}") for name in ("Base", "0731")
    )
    assert base is not None
    assert tuned is not None
    assert 7.5 < bits(base) < 9
    assert 4 < bits(tuned) < 5.5


def test_every_derived_row_names_what_bears_it_out():
    rows = [row for model_id in DERIVED if (row := SNAPSHOT.get(model_id))]
    assert not [row.id for row in rows if "not checked" in row.source]
