"""Draw cases for SGLang from a seed: architecture, number format, gpu, degrees and arguments."""

import random
from typing import Any

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.runtime import communication_term
from fitgauge.engine.serving.sglang.architectures import ARCHITECTURES
from fitgauge.engine.serving.sglang.launch import config_overrides
from fitgauge.engine.serving.vllm.compute_capability import shares_memory
from fitgauge.errors import InvalidRequestError
from hunt.draw import Model, draw_cases, draw_format, with_layers

VERSION = (0, 5, 23)
GPUS = {
    "H100": "H100 SXM",
    "H200": "H200",
    "A100": "A100 SXM 80GB",
    "B200": "B200",
    "L40S": "L40S",
    "RTX 4090": "RTX 4090",
    "RTX 5090": "RTX 5090",
    "T4": "T4",
}
"""GPUs as the cases name them, and as this service does."""
ARGUMENTS = (
    "context_length",
    "mem_fraction_static",
    "chunked_prefill_size",
    "max_running_requests",
    "page_size",
)
"""Drawn arguments that a miss names."""
LAYERS = (None, None, 4, 6, 8)
"""Layers of a drawn config; None leaves it whole."""
CASES = 160
"""Cases of a seed. SGLang answers fewer than vLLM: more of its classes read a config's own code."""

_SPARSE_GPUS = ("B200", "H100", "H200", "RTX 5090")
"""Cards with kernels of sparse attention, which are never run here."""


def cases(seed: int) -> list[dict[str, Any]]:
    """Return the cases of a seed."""
    return draw_cases(seed, ARCHITECTURES, _case, CASES)


def _case(draw: random.Random, architecture: str, model: Model) -> dict[str, Any]:
    text = model.config.get("text_config") or model.config
    layers = draw.choice(LAYERS)
    config = with_layers(model.config, None if text.get("num_kv_shared_layers") else layers)
    form, quantization = draw_format(draw, config, model.quantization)
    gpu = draw.choice(_SPARSE_GPUS if "index_topk" in text else sorted(GPUS))
    ranks = draw.choice((1, 1, 2, 2, 4, 4, 8))
    case: dict[str, Any] = {
        "architecture": architecture,
        "like": model.name,
        "format": form,
        "config": config,
        "quantization": quantization,
        "card": gpu,
        "free_gib": free_gib(gpu, ranks),
        "tensor_parallel": ranks,
    }
    for name, share, values in (
        ("expert_parallel", 0.3, tuple(n for n in (2, 4, 8) if n <= ranks)),
        ("context_length", 0.3, (2048, 8192, 32768)),
        ("mem_fraction_static", 0.4, (0.6, 0.75, 0.8, 0.85, 0.9)),
        ("chunked_prefill_size", 0.25, (2048, 4096, 16384)),
        ("max_running_requests", 0.25, (16, 64, 256, 1024)),
        ("kv_cache_dtype", 0.25, ("fp8_e4m3", "fp8_e5m2")),
        ("page_size", 0.1, (16, 64)),
        ("disable_cuda_graph", 0.1, (True,)),
    ):
        chance, value = draw.random(), draw.choice(values or (None,))
        if chance < share and value is not None:
            case[name] = value
    case["json_model_override_args"] = _overrides(config, case.get("context_length"))
    return {name: value for name, value in case.items() if value is not None}


def _overrides(config: dict[str, Any], context_length: int | None) -> str | None:
    """Return what this service's command replaces of the config for a context."""
    if context_length is None:
        return None
    try:
        return config_overrides(read_config(config), context_length)
    except InvalidRequestError:
        return None


def free_gib(gpu: str, ranks: int) -> float:
    """Return what is free on a gpu before loading [GiB], as this service has it: what is usable
    less the process and its collectives."""
    accelerator = bundled().find(GPUS[gpu]).accelerator
    profile = load_engines().profile("sglang", VERSION)
    process = profile.runtime_bytes.expected
    if ranks > 1:
        symmetric = shares_memory(accelerator)
        process += communication_term(profile, ranks=ranks, symmetric=symmetric).bytes
    return (accelerator.usable.expected - int(process)) / GIB
