"""Text Generation Inference's start-up log, as lines or as JSON.

Wording from its sources: launcher/src/main.rs (`Args {`, `Default max_batch_prefill_tokens`),
backends/v3/src/lib.rs and router/src/main.rs before (`Setting max batch total tokens to`),
server/text_generation_server/models/flash_causal_lm.py (`KV-cache blocks`)."""

import re

from fitgauge.engine.serving.start_log.arguments import argument, flags, options
from fitgauge.engine.serving.start_log.lines import Line, joined
from fitgauge.engine.serving.start_log.measurements import (
    Flag,
    StartLog,
    find_readings,
    measured,
    outcome,
    rule,
)
from fitgauge.engine.serving.start_log.names import gpu_name, hub_id

SIGNATURES = (
    "text_generation_launcher",
    "text_generation_router",
    "max batch total tokens",
    "text-generation-launcher",
    "text_generation_server",
    "text-generation-inference",
    "--max-batch-prefill-tokens",
)

_RULES = (
    rule(
        "max batch total tokens to",
        r"Setting max batch total tokens to (?P<kv_tokens>INT)",
        "tokens",
    ),
    rule("KV-cache blocks", r"KV-cache blocks: (?P<kv_blocks>INT)", "blocks"),
)
_WORDS = {
    "tensor_parallel": "num_shard", "context_length": "max_total_tokens",
    "max_batched_tokens": "max_batch_prefill_tokens", "max_num_seqs": "max_batch_size",
    "gpu_memory_utilization": "cuda_memory_fraction", "quantization": "quantize",
    "kv_cache_dtype": "kv_cache_dtype",
}  # fmt: skip
_KINDS: dict[str, type[Flag]] = {
    "gpu_memory_utilization": float,
    "quantization": str,
    "kv_cache_dtype": str,
}
_ARGUMENTS: dict[str, tuple[str, type[Flag]]] = {
    name: (word, _KINDS.get(name, int)) for name, word in _WORDS.items()
}
OPTIONS = options(_ARGUMENTS)
_VALUE = r": *(?:Some\( *)?['\"]?(?P<value>[\w./:@-]{1,200})"
_PREFILL = re.compile(r"max_batch_prefill_tokens.? to (?P<tokens>\d{1,9})")
_RELEASE = re.compile(r"text-generation-inference:(?P<version>\d+\.\d+(?:\.\d+)?)")


def read(lines: list[Line]) -> StartLog:
    """Return what TGI's log says."""
    start = next((index for index, line in enumerate(lines) if "Args {" in line.text), len(lines))
    arguments = " ".join(line.text for line in lines[start : start + 80])
    values = {
        name: flag
        for name, word in _WORDS.items()
        if (flag := _argument(arguments, word, _KINDS.get(name, int))) is not None
    }
    text = joined(lines, "max_batch_prefill_tokens", "text-generation-inference:")
    prefill, release = _PREFILL.search(text), _RELEASE.search(text)
    if prefill:
        values["max_batched_tokens"] = int(prefill["tokens"])
    command = joined(lines, "text-generation-")[:8192]
    values = flags(command, _ARGUMENTS) | values
    readings = tuple(find_readings(lines, _RULES))
    model = _argument(arguments, "model_id", str) or argument(command, "model_id")
    return StartLog(
        engine="tgi",
        version=release["version"] if release else None,
        model=hub_id(str(model)) if model else None,
        gpu=gpu_name(lines),
        flags=values,
        readings=readings,
        outcome=outcome(
            lines,
            kv_too_small=("Not enough memory to handle",),
            has_pool=measured(readings, "kv_tokens"),
        ),
    )


def _argument(arguments: str, word: str, kind: type[Flag]) -> Flag | None:
    match = re.search(rf"\b{word}{_VALUE}", arguments)
    if match is None or match["value"] == "None":
        return None
    try:
        return kind(match["value"].lower() if word == "quantize" else match["value"])
    except ValueError:
        return None
