"""Models in pipeline stages as vLLM builds them."""

import pytest

from bundled_models import spec_of
from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm.pipeline import check_pipeline
from fitgauge.engine.serving.vllm.weights import buffer_bytes, shard_weights
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.rank_bytes import pipeline_stages, rank_weights

SIZES = {
    "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 64000,
    "max_position_embeddings": 1024, "num_experts": 4, "num_local_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 256, "shared_expert_intermediate_size": 256,
    "tie_word_embeddings": False,
}  # fmt: skip
TABLE = 64000 * 1024 * 2


@pytest.mark.parametrize(
    ("model_type", "tables"), [("llama", 1), ("qwen3_moe", 2), ("mixtral", 2), ("olmoe", 2)]
)
def test_embedding_and_head_stand_on_every_stage_where_no_rank_guards_them(model_type, tables):
    spec = read_config({"model_type": model_type, "torch_dtype": "bfloat16", **SIZES})
    weights = shard_weights(spec, Scheme(name="as published"))
    stages = pipeline_stages(spec.layers, 2)
    for index, layers in enumerate(stages):
        rank = rank_weights(weights, layers=layers, first=index == 0, last=index == 1)
        bare = rank_weights(weights, layers=range(0), first=False, last=False)
        inner = rank_weights(weights, layers=layers, first=False, last=False)
        outside = rank.bytes - (inner.bytes - bare.bytes)
        assert outside // TABLE == tables


@pytest.mark.parametrize(
    ("model", "stages", "works"),
    [
        ("google/gemma-4-E2B", 2, (1,)),
        ("Qwen/Qwen3-8B", 2, None),
        ("openai/whisper-large-v3", 2, (1,)),
        ("openai/whisper-large-v3", 1, None),
    ],
)
def test_stages_that_vllm_refuses_name_the_count_that_works(model, stages, works):
    spec = spec_of(model)
    if works is None:
        check_pipeline(spec, stages)
        return
    with pytest.raises(UnsupportedError) as refused:
        check_pipeline(spec, stages)
    assert refused.value.alternatives == ({"pipeline_parallel": works},)


def test_layers_that_read_the_towers_deepstack_stand_in_the_first_stage():
    spec = spec_of("Qwen/Qwen3-VL-4B-Instruct")
    check_pipeline(spec, 12)
    with pytest.raises(UnsupportedError) as error:
        check_pipeline(spec, 18)
    assert error.value.alternatives[0]["pipeline_parallel"][0] == 12


def test_what_gemma_4_projects_for_each_layer_stands_on_every_stage():
    """Seed 1 of docs/HUNT.md: `per_layer_model_projection`, its norm and the final norm."""
    spec = spec_of("google/gemma-4-E4B-it")
    weights = shard_weights(spec, Scheme(name="as published"))
    first, last = (
        rank_weights(weights, layers=range(0), first=first, last=not first).bytes
        for first in (True, False)
    )
    bare = rank_weights(weights, layers=range(0), first=False, last=False).bytes
    assert bare == last
    assert bare >= 42 * 256 * 2560 * 2
    assert first > bare


def test_every_stage_has_a_layer_with_experts_where_the_class_looks_at_one():
    """Seed 25 of docs/HUNT.md: a stage of Nemotron 3 with a Mamba and an attention layer alone."""
    spec = read_config({
        "model_type": "nemotron_h", "torch_dtype": "bfloat16", **SIZES, "num_hidden_layers": 8,
        "hybrid_override_pattern": "MEMEM*EM", "mamba_num_heads": 64, "mamba_head_dim": 64,
        "n_groups": 8, "ssm_state_size": 128, "n_routed_experts": 4,
        "moe_shared_expert_intermediate_size": 256,
    })  # fmt: skip
    check_pipeline(spec, 2)
    with pytest.raises(UnsupportedError) as error:
        check_pipeline(spec, 4)
    assert error.value.alternatives[0]["pipeline_parallel"][0] == 3


@pytest.mark.parametrize(
    ("model", "layers", "scales"),
    [
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", range(3, 4), 16),
        ("Qwen/Qwen3.5-9B", range(2), 0),
    ],
)
def test_a_stage_without_layers_that_rotate_holds_no_rotary_table(model, layers, scales):
    assert buffer_bytes(spec_of(model), layers=layers, first=False) == scales


@pytest.mark.parametrize(
    ("model", "layers", "size"),
    [
        ("google/gemma-4-26B-A4B-it", range(5), 262_144 * 256 * 2),
        ("google/gemma-4-26B-A4B-it", range(5, 6), 262_144 * 512 * 2),
        ("google/gemma-4-26B-A4B-it", range(6), 262_144 * (256 + 512) * 2),
        ("deepseek-ai/DeepSeek-V4-Flash", range(2), 1_048_576 * 64 * 4),
        ("deepseek-ai/DeepSeek-V4-Flash", range(2, 9), 1_048_576 * 64 * 4),
        ("deepseek-ai/DeepSeek-V4-Flash", range(9), 2 * 1_048_576 * 64 * 4),
    ],
)
def test_a_stage_holds_the_rotary_tables_of_its_own_layers(model, layers, size):
    """Source: vLLM 0.33.0's own answers for both models over two stages (docs/HUNT.md)."""
    assert buffer_bytes(spec_of(model), layers=layers) == pytest.approx(size, rel=1e-5)
