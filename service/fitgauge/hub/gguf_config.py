"""From GGUF key-values to the config.json that transformers would write for the same architecture.

Key names: llama.cpp, gguf-py/gguf/constants.py (gguf 0.19.0), and what its conversion scripts
write under them. Names of configs: transformers 5.23, integrations/ggml.py (GGUF_CONFIG_MAPPING)
where it has the architecture, else the family's own configuration class."""

from collections.abc import Mapping
from typing import Any

from fitgauge.errors import MalformedModelError
from fitgauge.hub.gguf import Metadata, Scalar

MODEL_TYPES: Mapping[str, str] = {
    "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "qwen2vl": "qwen2", "qwen3vl": "qwen3",
    "qwen3vlmoe": "qwen3_moe",
    "qwen3next": "qwen3_next", "gemma3": "gemma3_text", "gemma4": "gemma4_text",
    "llama4": "llama4_text", "mistral3": "mistral",
    "gpt-oss": "gpt_oss", "command-r": "cohere", "glm4moe": "glm4_moe", "granitemoe": "granitemoe",
    "minimax-m2": "minimax_m2",
    "gptneox": "gpt_neox", "ernie4_5-moe": "ernie4_5_moe", "hunyuan-dense": "hunyuan_v1_dense",
    "hunyuan-moe": "hunyuan_v1_moe",
    "deepseek2": "deepseek_v3", "phi2": "phi", "glm-dsa": "glm_moe_dsa", "qwen35": "qwen3_5_text",
    "qwen35moe": "qwen3_5_moe_text",
}  # fmt: skip
"""llama.cpp's name of an architecture -> transformers' model_type, where they differ. Of a
vision model a GGUF file holds the text part."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "context_length": ("max_position_embeddings",),
    "embedding_length": ("hidden_size",),
    "feed_forward_length": ("intermediate_size",),
    "vocab_size": ("vocab_size",),
    "attention.head_count": ("num_attention_heads",),
    "attention.head_count_kv": ("num_key_value_heads",),
    "attention.key_length": ("head_dim",),
    "attention.sliding_window": ("sliding_window",),
    "attention.q_lora_rank": ("q_lora_rank",),
    "attention.kv_lora_rank": ("kv_lora_rank",),
    "expert_count": ("num_experts", "num_local_experts", "n_routed_experts"),
    "expert_used_count": ("num_experts_per_tok",),
    "expert_shared_count": ("n_shared_experts",),
    "expert_feed_forward_length": ("moe_intermediate_size",),
    "expert_shared_feed_forward_length": ("shared_expert_intermediate_size",),
    "leading_dense_block_count": ("first_k_dense_replace",),
    "attention.indexer.head_count": ("index_n_heads",),
    "attention.indexer.key_length": ("index_head_dim",),
    "attention.indexer.top_k": ("index_topk",),
    "full_attention_interval": ("full_attention_interval",),
    "ssm.conv_kernel": ("conv_kernel", "linear_conv_kernel_dim"),
    "ssm.state_size": ("state_size", "linear_key_head_dim"),
    "ssm.group_count": ("linear_num_key_heads",),
    "ssm.time_step_rank": ("time_step_rank",),
}
"""A key after its architecture's prefix -> the names of a config. Families call the number of
experts by different names: all are set."""

_SIGMOID = 2


def is_enough(metadata: Metadata) -> bool:
    """Return whether the bytes read so far hold all that `config_of` needs: the tokenizer's keys
    come after the architecture's."""
    return metadata.complete or "tokenizer.ggml.tokens" in metadata.lengths


def config_of(metadata: Metadata) -> dict[str, Any]:
    """Return what config.json would say. Raises MalformedModelError where the file names no
    architecture or ended before its sizes."""
    architecture = metadata.values.get("general.architecture")
    if not isinstance(architecture, str):
        raise MalformedModelError("The GGUF file has no general.architecture.")
    own = {
        key.removeprefix(f"{architecture}."): _plain(value)
        for key, value in metadata.values.items()
        if key.startswith(f"{architecture}.")
    }
    for needed in ("block_count", "embedding_length"):
        if needed not in own:
            raise MalformedModelError(
                f"The GGUF file has no {architecture}.{needed}.", field=f"{architecture}.{needed}"
            )
    own.setdefault("vocab_size", metadata.lengths.get("tokenizer.ggml.tokens"))
    config: dict[str, Any] = {"model_type": _model_type(architecture, own)}
    config |= {
        name: own[key] for key, names in NAMES.items() if own.get(key) is not None for name in names
    }
    config |= _layers(own) | _heads(architecture, own) | _gated_delta(own)
    return config


def uneven(metadata: Metadata) -> tuple[str, ...]:
    """Return the keys of `NAMES` that say something different for every layer."""
    return tuple(
        key
        for key, value in metadata.values.items()
        if isinstance(value, list) and len(set(value)) > 1 and key.partition(".")[2] in NAMES
    )


def _plain(value: Scalar | list[Scalar]) -> Scalar | None:
    """Return a number, of a list with a value for every layer the largest."""
    if not isinstance(value, list):
        return value
    return max((item for item in value if not isinstance(item, str)), default=None)


def _model_type(architecture: str, own: Mapping[str, Any]) -> str:
    if architecture == "llama" and own.get("expert_count"):
        return "mixtral"
    if architecture == "deepseek2" and own.get("expert_gating_func") != _SIGMOID:
        return "deepseek_v2"
    return MODEL_TYPES.get(architecture, architecture.replace("-", "_"))


def _layers(own: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp counts the layers that predict further tokens (MTP) among the blocks."""
    ahead = own.get("nextn_predict_layers") or 0
    try:
        return {"num_hidden_layers": own["block_count"] - ahead} | (
            {"num_nextn_predict_layers": ahead} if ahead else {}
        )
    except TypeError:
        raise MalformedModelError(
            "The GGUF file's block_count is not a number.", field="block_count"
        ) from None


def _heads(architecture: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a head. With a latent cache (MLA) newer files give the cached widths
    as key_length and the heads' as key_length_mla."""
    rotary = own.get("rope.dimension_count")
    if "attention.kv_lora_rank" in own and isinstance(rotary, int):
        key = own.get("attention.key_length_mla", own.get("attention.key_length"))
        value = own.get("attention.value_length_mla", own.get("attention.value_length"))
        heads = {"qk_rope_head_dim": rotary, "v_head_dim": value}
        return heads | (
            {"qk_nope_head_dim": key - rotary} if isinstance(key, int) and key > rotary else {}
        )
    if architecture == "llama" and "attention.key_length" not in own and rotary:
        return {"head_dim": rotary}
    return {}


def _gated_delta(own: Mapping[str, Any]) -> dict[str, Any]:
    """Qwen3-Next's and Qwen3.5's linear attention: the time step's rank is its number of value
    heads, the inner size theirs together."""
    heads, inner = own.get("ssm.time_step_rank"), own.get("ssm.inner_size")
    if (
        "ssm.group_count" not in own
        or not isinstance(heads, int)
        or not isinstance(inner, int)
        or not heads
    ):
        return {}
    return {"linear_num_value_heads": heads, "linear_value_head_dim": inner // heads}
