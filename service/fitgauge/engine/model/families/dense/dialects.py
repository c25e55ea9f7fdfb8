"""The dialects of dense decoders that transformers knows.

Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py`, field by field.
`rotary="frequencies"` marks the families that vLLM 0.33 has no model of its own for and runs
through transformers' code."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.defaults import completed
from fitgauge.engine.model.families.dense.dense import Dialect, Reader, read_dense
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind, ModelSpec, Split, Tensor

_POST_NORMS = ("post_attention_layernorm", "post_feedforward_layernorm")
_PLAIN = ("mlp.up_proj", "mlp.down_proj")
_FUSED_GATE = ("mlp.gate_up_proj", "mlp.down_proj")
_4H = ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")

LLAMA = Dialect(mlp_bias="mlp_bias")
UNBIASED = Dialect(qkv_bias=False, out_bias=False)
QWEN2 = Dialect(qkv_bias=True, out_bias=False, window="if_used")
QWEN3 = Dialect(qk_norm="head", window="if_used")
GEMMA2 = Dialect(norms=parts.NORMS_AROUND, window="pattern")
OLMO2 = Dialect(norms=_POST_NORMS, qk_norm="width", rotary="frequencies")
STABLELM = Dialect(qkv_bias="use_qkv_bias", out_bias=False, layer_norm=True)
COHERE = Dialect(
    norms=("input_layernorm",), rotary_rows=("model_max_length", "max_position_embeddings")
)
GLM = Dialect(out_bias=False, mlp=_FUSED_GATE)
HYPERCLOVA = replace(
    LLAMA, norms=("input_layernorm", "post_attention_layernorm", "post_norm1", "post_norm2")
)
PERSIMMON = Dialect(
    qkv=("query_key_value",), out="dense", mlp=_4H, gated=False, final="final_layernorm",
    layer_norm=True,
    qkv_bias=True, out_bias=True, mlp_bias=True, rotary="frequencies",
)  # fmt: skip
PHI = Dialect(
    out="dense", mlp=("mlp.fc1", "mlp.fc2"), gated=False, norms=("input_layernorm",),
    final="final_layernorm", layer_norm=True,
    qkv_bias=True, out_bias=True, mlp_bias=True, head_bias=True, rotary="frequencies",
)  # fmt: skip


def stablelm(config: Config) -> Dialect:
    """StableLM: one norm where attention and MLP run side by side, and a norm for every head
    where asked for."""
    norms = ("input_layernorm",) if config.flag("use_parallel_residual") else STABLELM.norms
    return replace(
        STABLELM, norms=norms, extras=_norms_per_head if config.flag("qk_layernorm") else None
    )


def cohere(config: Config) -> Dialect:
    """Command R: norms of queries and keys only in its larger sizes."""
    return replace(COHERE, qk_norm="heads" if config.flag("use_qk_norm") else "none")


def with_qk_layer_norm(dialect: Dialect) -> Callable[[Config], Dialect]:
    """Persimmon and Phi: LayerNorms of one head's width where `qk_layernorm` is set."""
    normed = replace(
        dialect, qk_norm="head", qk_names=("q_layernorm", "k_layernorm"), qk_shift=True
    )
    return lambda config: normed if config.flag("qk_layernorm") else dialect


def hyperclova(config: Config) -> Dialect:
    """HyperCLOVA X: two norms more after attention and MLP, which `use_post_norm` can take away."""
    return HYPERCLOVA if config.flag("use_post_norm") else LLAMA


def internlm3(config: Config) -> Dialect:
    """InternLM 3: Llama, whose biases its own configs call otherwise."""
    if config.has("qkv_bias"):
        return Dialect(qkv_bias="qkv_bias", out_bias="qkv_bias", mlp_bias="bias")
    return LLAMA


def _norms_per_head(config: Config, mixer: Attention, _: int) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(
            f"self_attn.{name}.norms.*.weight", (mixer.head_dim,), Kind.NORM, Split.NONE, 0, count
        )
        for name, count in (("q_layernorm", mixer.query_heads), ("k_layernorm", mixer.kv_heads))
    )


def _xielu(config: Config, mixer: Attention, _: int) -> tuple[Tensor, ...]:
    if config.text("hidden_act", default="xielu") != "xielu":
        return ()
    return (
        Tensor("mlp.act_fn.alpha_p", (1,), Kind.OTHER),
        Tensor("mlp.act_fn.alpha_n", (1,), Kind.OTHER),
    )


def _sub_norms(config: Config, mixer: Attention, intermediate: int) -> tuple[Tensor, ...]:
    hidden = config.integer("hidden_size")
    return (
        *parts.norm("self_attn.attn_sub_norm", hidden),
        *parts.norm("mlp.ffn_sub_norm", intermediate),
    )


def _sinks(config: Config, mixer: Attention, _: int) -> tuple[Tensor, ...]:
    return (
        Tensor(
            "self_attn.sinks", (mixer.query_heads,), Kind.OTHER, Split.COLUMN, mixer.query_heads
        ),
    )


def _output_gate(config: Config, mixer: Attention, _: int) -> tuple[Tensor, ...]:
    width = mixer.query_heads * mixer.head_dim
    return parts.linear(
        "self_attn.output_gate_proj",
        width,
        config.integer("hidden_size", low=1),
        Split.COLUMN,
        units=mixer.query_heads,
    )


def _lambdas(config: Config, mixer: Attention, _: int) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(f"self_attn.lambda_{name}", (mixer.head_dim,), Kind.OTHER)
        for name in ("q1", "k1", "q2", "k2")
    )


DIALECTS: Mapping[str, Dialect | Callable[[Config], Dialect]] = {
    "llama": LLAMA,
    "mistral": replace(UNBIASED, window="always"),
    "ministral": replace(UNBIASED, window="always", rotary="frequencies"),
    "ministral3": replace(UNBIASED, window="always"),
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gemma": Dialect(),
    "gemma2": GEMMA2,
    "gemma3_text": replace(GEMMA2, qk_norm="head", local_base=True),
    "vaultgemma": replace(GEMMA2, norms=("input_layernorm", "pre_feedforward_layernorm"),
        rotary="frequencies"),
    "phi": with_qk_layer_norm(PHI),
    "phi3": replace(UNBIASED, qkv=("qkv_proj",), mlp=_FUSED_GATE, window="always"),
    "olmo": Dialect(norms=(), final="", rotary="frequencies"),
    "olmo2": OLMO2,
    "olmo3": replace(OLMO2, window="pattern"),
    "stablelm": stablelm,
    "stablelm_epoch": stablelm,
    "granite": LLAMA,
    "granite_swa": replace(LLAMA, window="pattern_from_full", extras=_sinks),
    "cohere": cohere,
    "cohere2": replace(COHERE, window="pattern"),
    "glm": replace(GLM, rotary="frequencies"),
    "glm4": replace(GLM, norms=(*GLM.norms, "post_self_attn_layernorm", "post_mlp_layernorm")),
    "nemotron": Dialect(mlp=_PLAIN, gated=False, layer_norm=True, mlp_bias="mlp_bias"),
    "muse_glimmer_text": replace(UNBIASED, norms=parts.NORMS_AROUND, window="pattern",
        extras=_output_gate),
    "cosmos3_edge_text": Dialect(mlp=_PLAIN, gated=False),
    "exaone4": replace(UNBIASED, norms=_POST_NORMS, qk_norm="head", window="pattern"),
    "internlm3": internlm3,
    "smollm3": replace(LLAMA, window="nope", rotary="frequencies"),
    "seed_oss": replace(LLAMA, out_bias="attention_out_bias", rotary="frequencies"),
    "ernie4_5": Dialect(qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias"),
    "apertus": Dialect(
        norms=("attention_layernorm", "feedforward_layernorm"), mlp=_PLAIN, gated=False,
        qk_norm="head", extras=_xielu
    ),
    "arcee": replace(LLAMA, mlp=_PLAIN, gated=False, rotary="frequencies"),
    "helium": replace(LLAMA, out_bias=False, rotary="frequencies"),
    "hunyuan_v1_dense": Dialect(qk_norm="head", qk_names=("query_layernorm", "key_layernorm"),
        rotary="frequencies"),
    "starcoder2": Dialect(
        qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias",
        mlp=("mlp.c_fc", "mlp.c_proj"), gated=False, layer_norm=True,
        window="always", rotary="frequencies",
    ),
    "persimmon": with_qk_layer_norm(PERSIMMON),
    "bitnet": Dialect(extras=_sub_norms, rotary="frequencies"),
    "diffllama": Dialect(extras=_lambdas, rotary="frequencies"),
    "hyperclovax": hyperclova,
    "jais2": replace(LLAMA, mlp=_PLAIN, gated=False, layer_norm=True, rotary="frequencies"),
    "nanochat": Dialect(norms=(), final="", mlp=("mlp.fc1", "mlp.fc2"), gated=False,
        rotary="frequencies"),
    "cwm": replace(UNBIASED, mlp_bias="mlp_bias", window="pattern_from_full", rotary="frequencies"),
    "iquestcoder": LLAMA,
}  # fmt: skip


def reader(dialect: Dialect | Callable[[Config], Dialect]) -> Reader:
    """Return a reader of one dialect, which may depend on the config's own switches."""

    def read(config: Config) -> ModelSpec:
        full = completed(config)
        return read_dense(full, dialect if isinstance(dialect, Dialect) else dialect(full))

    return read


READERS: dict[str, Reader] = {
    model_type: reader(dialect) for model_type, dialect in DIALECTS.items()
}
