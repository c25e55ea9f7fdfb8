"""What a config.json that is silent means: the defaults of transformers' configuration classes, and
one name for every size.

Source: transformers 5.23, the fields and `attribute_map` of
`models/<model_type>/configuration_<model_type>.py`; where a class makes its layer pattern in
code, its period stands as `sliding_window_pattern` (every layer that it divides, from 1, is
full). MiniCPM: `configuration_minicpm.py` of openbmb/MiniCPM-2B-sft-bf16; RefinedWeb:
`configuration_RW.py` of the first Falcon repositories."""

from collections.abc import Mapping
from typing import Any

from fitgauge.engine.model.config import Config

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "n_embed", "d_model", "dim_model", "model_dim", "dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "attention_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_kv_heads", "n_head_kv", "multi_query_group_num"),
    "intermediate_size": (
        "n_inner",
        "ffn_dim",
        "ffn_hidden_size",
        "d_ff",
        "dim_ff",
        "dff",
        "hidden_dim",
        "mlp_hidden_size",
    ),
    "max_position_embeddings": (
        "n_positions",
        "max_seq_len",
        "max_sequence_length",
        "seq_length",
        "context_length",
        "n_ctx",
    ),
    "vocab_size": ("padded_vocab_size",),
}
"""The name used here, and what older and stranger configs call the same size."""

_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings",
)  # fmt: skip
_NEVER_GUESSED = _SIZES[:5]


def _row(*sizes: int | None, **switches: float) -> dict[str, Any]:
    return {
        name: size for name, size in zip(_SIZES, sizes, strict=True) if size is not None
    } | switches


# Columns: vocabulary, hidden, intermediate, layers, heads, KV heads (None: as many), head dim
# (None: hidden / heads), positions.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _row(32000, 4096, 11008, 32, 32, None, None, 2048),
    "mistral": _row(32000, 4096, 14336, 32, 32, 8, None, 131072, sliding_window=4096),
    "ministral": _row(32000, 4096, 14336, 32, 32, 8, None, 131072, sliding_window=4096),
    "ministral3": _row(131072, 4096, 14336, 34, 32, 8, 128, 262144),
    "qwen2": _row(151936, 4096, 22016, 32, 32, 32, None, 32768, sliding_window=4096,
        max_window_layers=28),
    "qwen3": _row(151936, 4096, 22016, 32, 32, 32, 128, 32768, sliding_window=4096,
        max_window_layers=28),
    "gemma": _row(256000, 3072, 24576, 28, 16, 16, 256, 8192, tie_word_embeddings=True),
    "gemma2": _row(256000, 2304, 9216, 26, 8, 4, 256, 8192, tie_word_embeddings=True,
        sliding_window=4096, sliding_window_pattern=2),
    "gemma3_text": _row(262208, 2304, 9216, 26, 8, 4, 256, 131072, tie_word_embeddings=True,
        sliding_window=4096, sliding_window_pattern=6),
    "phi3": _row(32064, 3072, 8192, 32, 32, None, None, 4096,
        original_max_position_embeddings=4096),
    "olmo": _row(50304, 4096, 11008, 32, 32, None, None, 2048),
    "olmo2": _row(50304, 4096, 11008, 32, 32, None, None, 2048),
    "olmo3": _row(50304, 4096, 11008, 32, 32, None, None, 2048, sliding_window=4096,
        sliding_window_pattern=4),
    "stablelm": _row(50304, 2560, 6912, 32, 32, 32, None, 4096, partial_rotary_factor=0.25),
    "granite": _row(32000, 4096, 11008, 32, 32, None, None, 2048),
    "granite_swa": _row(100352, 2560, 8192, 24, 20, 4, None, 8192, tie_word_embeddings=True,
        sliding_window=128, sliding_window_pattern=4),
    "cohere": _row(256000, 8192, 22528, 40, 64, None, None, 8192, tie_word_embeddings=True),
    "cohere2": _row(256000, 8192, 22528, 40, 64, None, None, 8192, tie_word_embeddings=True,
        sliding_window=4096, sliding_window_pattern=4),
    "glm": _row(151552, 4096, 13696, 40, 32, 2, 128, 131072, attention_bias=True,
        partial_rotary_factor=0.5),
    "glm4": _row(151552, 4096, 13696, 40, 32, 2, 128, 131072, attention_bias=True,
        partial_rotary_factor=0.5),
    "nemotron": _row(256000, 6144, 24576, 32, 48, None, None, 4096, partial_rotary_factor=0.5),
    "exaone4": _row(102400, 4096, 16384, 32, 32, 32, None, 2048, sliding_window=4096,
        sliding_window_pattern=4),
    "internlm3": _row(128512, 4096, 10240, 48, 32, 2, 128, 32768),
    "smollm3": _row(128256, 2048, 11008, 36, 16, 4, None, 32768, no_rope_layer_interval=4,
        tie_word_embeddings=True),
    "seed_oss": _row(155136, 4096, 27648, 64, 80, 8, 128, 524288, attention_bias=True),
    "ernie4_5": _row(103424, 1024, 3072, 18, 16, 2, 128, 131072, tie_word_embeddings=True),
    "apertus": _row(131072, 4096, 14336, 32, 32, None, None, 65536),
    "arcee": _row(32000, 2560, 18432, 32, 32, None, None, 4096),
    "helium": _row(48000, 2560, 7040, 24, 20, 20, 128, 4096),
    "hunyuan_v1_dense": _row(290943, 4096, 11008, 32, 32, None, None, 2048),
    "starcoder2": _row(49152, 3072, 12288, 30, 24, 2, None, 4096, use_bias=True,
        tie_word_embeddings=True),
    "persimmon": _row(262144, 4096, 16384, 36, 64, None, None, 16384, qk_layernorm=True,
        partial_rotary_factor=0.5),
    "bitnet": _row(128256, 2560, 6912, 30, 20, 5, None, 2048),
    "diffllama": _row(32000, 2048, 8192, 16, 32, None, None, 2048),
    "vaultgemma": _row(256000, 2304, 9216, 26, 8, 4, 256, 8192, tie_word_embeddings=True,
        sliding_window=4096, sliding_window_pattern=2),
    "hyperclovax": _row(32000, 4096, 11008, 32, 32, None, None, 2048, use_post_norm=True),
    "jais2": _row(150272, 3328, 26624, 32, 26, None, None, 8192, attention_bias=True,
        mlp_bias=True),
    "nanochat": _row(50304, 768, 8192, 12, 6, None, None, 2048),
    "cwm": _row(128256, 6144, 21504, 64, 48, 8, 128, 131072, sliding_window=8192,
        sliding_window_pattern=4),
    "iquestcoder": _row(76800, 5120, 27648, 80, 40, 8, 128, 131072),
    "phi": _row(51200, 2048, 8192, 24, 32, None, None, 2048, partial_rotary_factor=0.5),
    "gpt2": _row(50257, 768, None, 12, 12, None, None, 1024, tie_word_embeddings=True),
    "gpt_neo": _row(50257, 2048, None, 24, 16, None, None, 2048, window_size=256,
        tie_word_embeddings=True),
    "gptj": _row(50400, 4096, None, 28, 16, None, None, 2048, rotary_dim=64),
    "gpt_neox": _row(50432, 6144, 24576, 44, 64, None, None, 2048, use_parallel_residual=True,
        attention_bias=True),
    "gpt_neox_japanese": _row(32000, 2560, None, 32, 32, None, None, 2048,
        intermediate_multiple_size=4, tie_word_embeddings=True),
    "opt": _row(
        50272, 768, 3072, 12, 12, None, None, 2048, do_layer_norm_before=True, enable_bias=True,
        layer_norm_elementwise_affine=True, tie_word_embeddings=True
    ),
    "bloom": _row(250880, 64, None, 2, 8, None, None, None, tie_word_embeddings=True),
    "falcon": _row(65024, 4544, None, 32, 71, None, None, 2048, multi_query=True,
        parallel_attn=True, tie_word_embeddings=True),
    "gpt_bigcode": _row(50257, 768, None, 12, 12, None, None, 1024, multi_query=True,
        tie_word_embeddings=True),
    "codegen": _row(50400, 4096, None, 28, 16, None, None, 2048, rotary_dim=64),
    "biogpt": _row(42384, 1024, 4096, 24, 16, None, None, 1024, tie_word_embeddings=True),
    "xglm": _row(256008, 1024, 4096, 24, 16, None, None, 2048, tie_word_embeddings=True),
    "openai-gpt": _row(40478, 768, None, 12, 12, None, None, 512, tie_word_embeddings=True),
    "ctrl": _row(246534, 1280, 8192, 48, 16, None, None, 256, tie_word_embeddings=True),
    "RefinedWeb": {"multi_query": True, "new_decoder_architecture": True, "parallel_attn": True,
        "tie_word_embeddings": True},
    "RefinedWebModel": {"multi_query": True, "parallel_attn": True, "tie_word_embeddings": True},
    "gpt-sw3": _row(50257, 768, None, 12, 12, None, None, 1024, tie_word_embeddings=True),
    "minicpm": {"tie_word_embeddings": True},
    "minicpm3": _row(
        73448, 2560, 6400, 62, 40, None, None, 32768, tie_word_embeddings=True, kv_lora_rank=256,
        q_lora_rank=768,
        qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
    ),
    "mpt": _row(50368, 2048, None, 24, 16, None, None, 2048, tie_word_embeddings=True),
}  # fmt: skip


def completed(config: Config) -> Config:
    """Return the config under the usual names, with its family's defaults where it is silent.

    A section may leave out every size its class has a default for, and published ones do. A
    whole config.json may not: one without its vocabulary, widths, layers or heads is broken
    rather than short."""
    defaults = DEFAULTS.get(config.text("model_type"), {})
    fields = {
        name: value
        for name, value in defaults.items()
        if config.nested or name not in _NEVER_GUESSED
    }
    renamed = {}
    for name, others in SYNONYMS.items():
        if not config.has(name) and config.has(*others):
            renamed[name] = next(
                config.values[other] for other in others if config.values.get(other) is not None
            )
    return Config({**fields, **config.values, **renamed}, config.where)
