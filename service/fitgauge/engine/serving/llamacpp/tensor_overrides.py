"""Which experts `--override-tensor` keeps in host memory.

Source: llama.cpp common/arg.cpp, parse_tensor_buffer_overrides (`pattern=buffer type`, divided by
commas); src/llama-model-loader.cpp, create_tensor (std::regex_search in a tensor's name);
common/common.h, LLM_FFN_EXPS_REGEX."""

from collections.abc import Iterable, Iterator

from fitgauge.engine.quantization.patterns import Patterns, parse
from fitgauge.engine.serving.options import ALL_LAYERS

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

    overrides: values of `--override-tensor`."""
    layers: set[int] = set()
    for override in overrides:
        for one in override.split(","):
            pattern, _, buffer = one.rpartition("=")
            matched = set(_matched(pattern)) if buffer == "CPU" else {None}
            if None in matched:
                return None
            layers |= {layer for layer in matched if layer is not None}
    if layers == set(_LAYERS):
        return ALL_LAYERS
    return len(layers) if layers == set(range(len(layers))) else None


def _matched(pattern: str) -> Iterator[int | None]:
    """Yield the layers whose experts a pattern matches; None for anything else that it matches."""
    try:
        patterns = Patterns([parse(pattern)])
    except ValueError:
        yield None
        return
    if patterns.first("output.weight") is not None:
        yield None
    for layer in _LAYERS:
        names = [f"blk.{layer}.{name}" for name in _EXPERTS]
        experts = sum(patterns.first(name) is not None for name in names)
        others = patterns.first(*(f"blk.{layer}.{name}" for name in _OTHERS))
        if experts not in (0, len(names)) or others is not None:
            yield None
        elif experts:
            yield layer
