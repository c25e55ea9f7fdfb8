"""Drafts beside a model in vLLM: what of them is loaded, what is shared, what they keep, and
what is refused."""

from typing import Any

import msgspec
import pytest

from bundled_models import spec_of
from engine.model.families.test_eagle import HEAD, LATENT_HEAD
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm.speculative import (
    check_draft,
    check_heads,
    draft_spec,
    draft_term,
    drafted_layers,
    drafting,
    method,
    read_bytes,
    with_draft,
)
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from kv_layouts import kv_layout
from workloads import workload_of

NAME = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"


DFLASH = {
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 4096,
    "intermediate_size": 12288, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "num_hidden_layers": 5, "vocab_size": 151936, "dtype": "bfloat16",
    "max_position_embeddings": 40960, "layer_types": ["full_attention"] * 5,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
}  # fmt: skip
"""The config of z-lab/Qwen3-8B-DFlash-b16."""

TARGET = spec_of("meta-llama/Llama-3.1-8B-Instruct")
EAGLE_3 = read_config(HEAD)


def workload(**changes: Any) -> Workload:
    return workload_of(**{"speculative_tokens": 3} | changes)


def loaded(spec: ModelSpec, **changes: Any) -> int:
    return draft_term(spec, Scheme(name="unquantized"), workload(**changes), (9, 0)).bytes


def pool_bytes(spec: ModelSpec, speculative_tokens: int) -> int:
    layout = kv_layout(
        spec, tensor_parallel=1, kv_cache_dtype="auto", max_model_len=8192, max_batched_tokens=8192,
        max_num_seqs=256,
        compute_capability=(9, 0), speculative_tokens=speculative_tokens,
    )  # fmt: skip
    return layout.block_bytes


def test_an_eagle_3_head_is_loaded_without_its_embedding_and_with_its_own_output_head() -> None:
    """fc 3 x 4096^2, attention 4096 x 2 x (4096 + 2 x 1024) + 4096^2, MLP 3 x 4096 x 14336, head
    32000 x 4096, four norms of 4096 and the map of 32000 tokens, beside a rotary table of 2048
    rows and the four scales of a layer."""
    numbers = 3 * 4096**2 + 8192 * 6144 + 4096**2 + 3 * 4096 * 14336 + 32000 * 4096 + 4 * 4096
    assert (
        loaded(with_draft(TARGET, EAGLE_3, NAME)) == 2 * numbers + 8 * 32000 + 2 * 2048 * 128 + 16
    )


def test_a_head_of_another_width_keeps_an_embedding_of_its_own() -> None:
    """As that for Llama 3.3 70B does (vLLM pull request 19033)."""
    wide = with_draft(spec_of("meta-llama/Llama-3.3-70B-Instruct"), EAGLE_3, NAME)
    assert loaded(wide) == loaded(with_draft(TARGET, EAGLE_3, NAME)) + 2 * 128256 * 4096


def test_ranks_divide_a_head_but_for_what_joins_the_hidden_states() -> None:
    whole, fourth = (
        loaded(with_draft(TARGET, EAGLE_3, NAME), tensor_parallel=ranks) for ranks in (1, 4)
    )
    joined = 2 * 3 * 4096**2
    assert whole / 4 < fourth < whole / 4 + joined


def test_a_head_of_latent_attention_is_whole_up_to_its_latents() -> None:
    """Of 3,682,398,208 B without the embedding a rank of four holds what joins the hidden states,
    the projections down and the norms, and a fourth of all else; and a rotary table."""
    spec = with_draft(spec_of("moonshotai/Kimi-K2.5"), read_config(LATENT_HEAD), "acme/head")
    whole = 2 * (7168 * 3 * 7168 + 2112 * 2 * 7168 + 4 * 7168 + 1536 + 512)
    table = 2 * 262_144 * 64
    one, fourth = loaded(spec), loaded(spec, tensor_parallel=4)
    assert one - table == pytest.approx(3_682_398_208, abs=64)
    assert fourth - table == pytest.approx(whole + (3_682_398_208 - whole) / 4, abs=64)


def test_its_layer_keeps_a_cache_like_one_of_the_models() -> None:
    """32 layers of 65,536 B in a block of 16 tokens, and the head's."""
    drafted = with_draft(TARGET, EAGLE_3, NAME)
    assert (pool_bytes(TARGET, 0), pool_bytes(drafted, 3)) == (32 * 65_536, 33 * 65_536)
    assert drafted_layers(drafted) == 1


def test_the_model_hands_it_three_hidden_states_of_every_token_and_it_keeps_one() -> None:
    assert read_bytes(with_draft(TARGET, EAGLE_3, NAME), workload()) == 2 * 8192 * 4 * 4096
    assert read_bytes(TARGET, workload(speculative_tokens=0)) == 0


def test_own_heads_keep_a_hidden_state_of_every_token() -> None:
    """DeepSeek V4's keep its four residual streams."""
    assert read_bytes(spec_of("deepseek-ai/DeepSeek-V3"), workload()) == 2 * 8192 * 7168
    assert read_bytes(spec_of("deepseek-ai/DeepSeek-V4-Flash"), workload()) == 2 * 8192 * 4 * 4096


def test_own_heads_all_draft_as_often() -> None:
    three = spec_of("stepfun-ai/Step-3.7-Flash")
    check_heads(three, 2)
    check_heads(three, 6)
    with pytest.raises(UnsupportedError) as refused:
        check_heads(three, 4)
    assert refused.value.parameter == "speculative_tokens"


def test_a_dflash_head_shares_embedding_and_head_and_copies_its_keys_and_values() -> None:
    """z-lab/Qwen3-8B-DFlash-b16: five layers of Qwen 3's shape, `fc` of five hidden states, the
    embedding of a masked token, a rotary table and the scales of five layers."""
    head = read_config(DFLASH)
    target = spec_of("Qwen/Qwen3-8B")
    layer = 4096 * 6144 + 4096**2 + 3 * 4096 * 12288 + 2 * 4096 + 2 * 128
    numbers = 5 * layer + 5 * 4096**2 + 3 * 4096 + 5 * 2048 * 4096
    drafted = with_draft(target, head, "z-lab/Qwen3-8B-DFlash-b16")
    assert loaded(drafted) == 2 * numbers + 2 * 40960 * 128 + 16 * 5
    assert pool_bytes(drafted, 7) - pool_bytes(target, 0) == 5 * 65_536


def test_the_command_says_how_a_head_drafts_whatever_its_name() -> None:
    assert drafting(with_draft(TARGET, EAGLE_3, "acme/head"), "acme/head") == {
        "model": "acme/head",
        "method": "eagle3",
    }
    parallel = read_config(HEAD | {"architectures": ["PEagleDraftModel"]})
    said = drafting(with_draft(TARGET, parallel, "acme/head"), "acme/head")
    assert said["parallel_drafting"]
    assert drafting(TARGET, None) == {"method": "mtp"}


def test_a_head_of_the_first_kind_is_told_by_its_name() -> None:
    """One layer without its first norm, a projection of twice the width, no final norm, no
    output head, embedding shared."""
    config = HEAD | {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 131_072}
    drafted = with_draft(TARGET, read_config(config), "yuhuili/EAGLE-LLaMA3.1-Instruct-8B")
    layer = 4096 * 6144 + 4096**2 + 3 * 4096 * 14336 + 4096
    assert loaded(drafted) == 2 * (layer + 2 * 4096**2) + 2 * 131_072 * 128 + 16


def test_a_head_of_the_first_kind_is_told_by_sglangs_class_too() -> None:
    config = HEAD | {"architectures": ["LlamaForCausalLMEagle"]}
    assert method(with_draft(TARGET, read_config(config), "acme/head").draft or TARGET) == "eagle"


def test_a_smaller_model_is_loaded_whole_and_keeps_all_its_layers() -> None:
    small = spec_of("meta-llama/Llama-3.2-1B-Instruct")
    drafted = with_draft(TARGET, small, "meta-llama/Llama-3.2-1B-Instruct")
    assert draft_spec(drafted) is small
    assert loaded(drafted) > 2 * small.parameters
    assert drafted_layers(drafted) == 16


def test_a_draft_is_stored_in_its_own_format_whatever_the_models() -> None:
    drafted = with_draft(TARGET, EAGLE_3, NAME)
    quantized = Scheme(name="fp8", dtype="F8_E4M3")
    assert draft_term(drafted, quantized, workload(), (9, 0)).bytes == loaded(drafted)


@pytest.mark.parametrize(
    "draft, name",
    [
        (spec_of("Qwen/Qwen3-0.6B"), "Qwen/Qwen3-0.6B"),
        (EAGLE_3, "z-lab/Llama-3.1-8B-DFlash2"),
        (msgspec.structs.replace(EAGLE_3, architecture="EagleMiniCPMForCausalLM"), NAME),
        (msgspec.structs.replace(EAGLE_3, task="encode"), "acme/encoder"),
    ],
)
def test_what_cannot_draft_for_it_is_refused(draft: ModelSpec, name: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        with_draft(TARGET, draft, name)
    assert refused.value.parameter == "draft_model"


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"speculative_tokens": 0}, "speculative_tokens"),
        ({"tensor_parallel": 64}, "tensor_parallel"),
    ],
)
def test_a_draft_needs_a_number_of_tokens_and_heads_that_the_ranks_divide(
    changes: dict[str, int], field: str
) -> None:
    with pytest.raises(UnsupportedError) as refused:
        check_draft(with_draft(TARGET, EAGLE_3, NAME), workload(**changes))
    assert refused.value.parameter == field
