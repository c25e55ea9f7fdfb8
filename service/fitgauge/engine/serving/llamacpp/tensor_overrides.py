"""Which experts `--override-tensor` keeps in host memory.

Source: llama.cpp common/arg.cpp, parse_tensor_buffer_overrides (`pattern=buffer type`, divided by
commas); src/llama-model-loader.cpp, create_tensor (std::regex_search in a tensor's name);
common/common.h, LLM_FFN_EXPS_REGEX."""

from collections.abc import Iterable

from fitgauge.engine.quantization.patterns import Patterns, parse
from fitgauge.engine.serving.options import ALL_LAYERS

_MOST = 64
"""Patterns that are read: a text of a stranger may hold thousands."""
_LAYERS = range(256)
"""More layers than a model has."""
_EXPERTS = ("ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight")
_OTHERS = (
    "attn_norm.weight", "attn_q.weight", "attn_kv_b.weight", "attn_output.weight", "ssm_out.weight",
    "ffn_norm.weight", "ffn_gate_inp.weight", "ffn_gate.weight", "ffn_down.weight",
    "ffn_gate_shexp.weight", "ffn_down_shexp.weight",
)  # fmt: skip
"""Tensors of a layer besides its experts."""


def expert_layers(overrides: Iterable[str]) -> int | None:
    """Return of how many of the first layers the experts stay in host memory, `ALL_LAYERS` for all;
    None where other tensors, single projections or other layers do, or where one goes to a GPU.

    overrides: values of `--override-tensor`. The first pattern that a name holds counts."""
    pairs = [one.rpartition("=") for override in overrides for one in override.split(",")]
    if len(pairs) > _MOST:
        return None
    try:
        patterns = Patterns([parse(pattern) for pattern, _, _ in pairs])
    except ValueError:
        return None

    def buffers(*names: str) -> set[str | None]:
        indices = (patterns.first(name) for name in names)
        return {None if index is None else pairs[index][2] for index in indices}

    layers = set()
    for layer in _LAYERS:
        experts = buffers(*(f"blk.{layer}.{name}" for name in _EXPERTS))
        others = buffers("output.weight", *(f"blk.{layer}.{name}" for name in _OTHERS))
        if others != {None} or experts not in ({None}, {"CPU"}):
            return None
        layers |= {layer} if experts == {"CPU"} else set()
    if layers == set(_LAYERS):
        return ALL_LAYERS
    return len(layers) if layers == set(range(len(layers))) else None
