"""The training run that a command line or a log describes, as a request of check_training_fit."""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import msgspec

from fitgauge.engine.quantity import MIB
from fitgauge.engine.serving.start_log.arguments import argument
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.start_log.names import hub_id
from fitgauge.engine.training.workload import Method
from fitgauge.services.explain_log.comparison import Measured
from fitgauge.services.training_fit.launchers.registry import TOOLS
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.tool_settings import tool_settings

_LONGEST = 64 * 1024
_NAMES: tuple[tuple[str, tuple[str, ...], Callable[[str], object]], ...] = (
    ("model", ("model_name_or_path", "base_model", "model_id", "model_name", "model"), hub_id),
    ("gpu_count", ("num_processes", "nproc_per_node", "num_gpus", "world_size"), int),
)
"""A field, the flags that tools call it by, and its kind; all others are in `tool_settings`."""

_DEEPSPEED = re.compile(r"\bdeepspeed\b|\bds_config|zero_optimization", re.IGNORECASE)
_FSDP = re.compile(r"\bFSDP\b|--fsdp\b|FullyShardedDataParallel")
_SWITCHES: tuple[tuple[str, re.Pattern[str], object], ...] = (
    (
        "method",
        re.compile(
            r"\bqlora\b|load_in_4bit['\"]?[ =:]{1,3}true|bnb[-_]4bit|Linear4bit|MatMul4Bit"
            r"|dequantize_4bit",
            re.IGNORECASE,
        ),
        "qlora",
    ),
    ("method", re.compile(r"\blora\b|--lora_", re.IGNORECASE), "lora"),
    ("attention", re.compile(r"flash_attention_[23]"), "flash"),
    ("attention", re.compile(r"flex_attention"), "flex"),
    ("zero_stage", re.compile(r"zero[-_ ]?(?:(?:optimization_)?stage[-_ =]?)?3|ZeRO-3"), 3),
    ("zero_stage", re.compile(r"zero[-_ ]?(?:(?:optimization_)?stage[-_ =]?)?2|ZeRO-2"), 2),
    ("framework", _DEEPSPEED, "deepspeed"),
    ("framework", _FSDP, "fsdp"),
)
"""What a log or a traceback says besides."""


_COUNTS = (
    ("micro_batch_size", re.compile(r"\b[Bb]atch size per device = (\d{1,6})\b")),
    ("micro_batches", re.compile(r"\bGradient [Aa]ccumulation steps = (\d{1,6})\b")),
)
"""What transformers' Trainer and Unsloth print of a run before its first step."""
_TRAINED = re.compile(r"\b[Tt]rainable (?:params:|parameters =) ?(\d[\d,]{0,20})")
"""How many parameters are trained, as PEFT, transformers' Trainer and Unsloth print it."""
_WHOLE = 0.5
"""Share of a model's parameters that adapters never have."""
_LARGEST_STATE = 40 * MIB
"""More than an optimizer's state of any matrix of adapters takes: in fp32, of rank 64 on an output
of 152,064 entries 37 MiB."""

_LEFT_OUT = {"method": "full"}
"""What a command trains whose flags name no adapter."""

_WRITTEN = re.compile(
    r"^[ \t]*(?:base_model|model_name_or_path):[ \t]*[\"']?(?P<model>[\w./-]{3,200})", re.MULTILINE
)
"""The model in a file of settings of axolotl or LLaMA-Factory."""
_WORLD = re.compile(r"--world_info=(?P<info>[\w+/-]{8,8192}={0,2})")
_PRINTED = re.compile(r"(config\.py:\d{1,5}:print\]\s{1,8}\w{1,60}) [. ]{1,80}(?=\w)")
"""A setting as DeepSpeed prints it: "[config.py:1001:print]   zero_optimization_stage ...... 3"."""
_TRL = re.compile(r"\btrl\b")
_LEFT_OUT_BY_TRL = {"micro_batch_size": 8, "sequence_length": 1024}
"""What TRL takes where a command does not say. Source: transformers 5.23 training_args.py,
per_device_train_batch_size; trl/trainer/sft_config.py, max_length."""


def training_request(text: str, model: str | None, gpu: str, count: int | None) -> TrainingRequest:
    """Return the run that `text` describes; what it does not say is left to the defaults. model,
    gpu, count: what the caller or the log names, before what the text names. Raises
    msgspec.ValidationError where no model is named."""
    fields = _fields(_PRINTED.sub(r"\1=", text[:_LONGEST]), count)
    named = {"model": model, "gpu": gpu, "gpu_count": count}
    fields |= {name: value for name, value in named.items() if value is not None}
    while True:
        try:
            return msgspec.convert(fields, TrainingRequest)
        except msgspec.ValidationError as error:
            wrong = next((name for name in fields if f"$.{name}`" in str(error)), None)
            if wrong in (None, "model", "gpu"):
                raise
            del fields[wrong]


def method_of(text: str, parameters: int, log: StartLog) -> Method | None:
    """Return the method that a log without a command tells: by how many parameters are trained of
    the model's, or by an optimizer's state that no adapter has; None where it does not."""
    trained = [int(count.replace(",", "")) for count in _TRAINED.findall(text[:_LONGEST])]
    if trained:
        return "full" if trained[-1] > _WHOLE * parameters else "lora"
    requested = Measured(log.readings).value("requested") or 0
    flat = _DEEPSPEED.search(text) or _FSDP.search(text)
    if "optimizer_step" in log.remarks and requested > _LARGEST_STATE and not flat:
        return "full"
    return None


def named_model(text: str) -> str | None:
    """Return the model that a command line in the text names."""
    model = _fields(text[:_LONGEST]).get("model")
    return model if isinstance(model, str) else None


def _world(text: str) -> int | None:
    """Return how many GPUs DeepSpeed's launcher starts on: machines with their GPUs, in base64."""
    match = _WORLD.search(text)
    try:
        machines = json.loads(b64decode(match["info"], altchars=b"-_")) if match else {}
    except ValueError:
        return None
    lists = machines.values() if isinstance(machines, dict) else ()
    return sum(len(gpus) for gpus in lists if isinstance(gpus, list)) or None


def _fields(text: str, gpus: int | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, flags, kind in _NAMES:
        value = next((named for flag in flags if (named := argument(text, flag))), None)
        try:
            parsed = kind(value) if value is not None else None
        except ValueError:
            continue
        if parsed is not None:
            fields[name] = parsed
    if "model" not in fields and (written := _WRITTEN.search(text)) is not None:
        fields["model"] = hub_id(written["model"])
    if (started := _world(text)) is not None:
        fields.setdefault("gpu_count", started)
    fields |= {name: int(count[1]) for name, row in _COUNTS if (count := row.search(text))}
    fields |= tool_settings(text, gpus)
    for name, pattern, meaning in _SWITCHES:
        if name not in fields and pattern.search(text):
            fields[name] = meaning
    if "model" in fields or "trainer" in fields:
        left_out = {} if _TRAINED.search(text) else _LEFT_OUT
        fields = {**left_out, **(_LEFT_OUT_BY_TRL if _TRL.search(text) else {}), **fields}
    for tool in TOOLS:
        if re.search(rf"\b{re.escape(tool.name.lower())}\b", text.lower()):
            fields.setdefault("framework", tool.name)
    return fields
