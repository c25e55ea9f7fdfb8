"""Fields that several settings of a training tool say together: what the launchers divide and
multiply, read back."""

from typing import Any

from fitgauge.services.training_fit.setting_names import PARTS

_WITHOUT_AUTOCAST = ("torchtune", "nemo-automodel", "verl")
"""Tools that compute in the format that they load weights in, as the row of each has it."""


def put_together(fields: dict[str, Any], gpus: int | None) -> dict[str, object]:
    """Return fields with those of several settings as fields of a request. gpus: see
    `tool_settings`."""
    processes = fields.pop("processes", None)
    batch = fields.pop("batch_size", None)
    if fields.get("trainer") == "torchtune" and batch is not None:
        fields.setdefault("micro_batch_size", batch)
    if "group_size" in fields:
        fields.setdefault("algorithm", "grpo")
    _targets(fields)
    _batches(fields, gpus or processes)
    if fields.get("tensor_parallel", 1) == 1:
        fields.pop("sequence_parallel", None)  # Megatron turns it off then
    _precision(fields)
    _quantization(fields)
    return fields


def _targets(fields: dict[str, Any]) -> None:
    """Set the linears with adapters from switches for some of them."""
    parts = [
        name for part, names in PARTS.items() if fields.pop(part, None) for name in names.split()
    ]
    if parts and fields.get("lora_targets") != "all_linear":
        fields["lora_targets"] = [*fields.get("lora_targets", ()), *parts]


def _batches(fields: dict[str, Any], gpus: int | None) -> None:
    """Set micro-batches and their size from the sequences and tokens of a step."""
    step, prompts = fields.pop("sequences_per_step", None), fields.pop("prompts_per_step", None)
    length = fields.get("sequence_length")
    tokens, of_step = (
        fields.pop("tokens_per_micro_batch", None),
        fields.pop("tokens_per_step", None),
    )
    if length and tokens:
        fields.setdefault("micro_batch_size", max(1, tokens // length))
        step = step or (of_step and of_step // length)
    if prompts:
        step = prompts * fields.get("group_size", 1)
    size = fields.get("micro_batch_size")
    if not (step and size and gpus):
        return
    degrees = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    ranks = gpus
    for degree in degrees:
        ranks //= fields.get(degree, 1)
    if (number := step // (size * max(1, ranks))) >= 1:
        fields.setdefault("micro_batches", number)


def _precision(fields: dict[str, Any]) -> None:
    """Set the precision from the format that weights are loaded in and that of autocast: adapters
    are fp32 under it, on a base as it is loaded."""
    stored, autocasts = fields.pop("stored_in", None), fields.pop("autocasts", None)
    if stored is None or fields.get("framework") == "megatron":
        return
    sent = fields.get("precision")
    in_weights_format = autocasts is None and fields.get("trainer") in _WITHOUT_AUTOCAST
    mixed = autocasts is not False and not in_weights_format if sent is None else "mixed" in sent
    if stored == 16 and mixed and fields.get("method", "full") != "full":
        fields["base_precision"] = "half"
    elif sent is not None:
        return
    elif stored == 16:
        fields["precision"] = "bf16"
    elif autocasts is False:
        fields["precision"] = "fp32"
    else:
        fields["precision"] = "mixed_bf16"


def _quantization(fields: dict[str, Any]) -> None:
    """Set the format of a base in 4 bits."""
    form, twice = fields.pop("quantized_as", None), fields.pop("quantized_twice", None)
    if fields.get("method") == "qlora" and (form or twice):
        fields.setdefault("quantization", "nf4_double" if twice else form)
