"""Spellings of methods, precisions, frameworks and optimizers."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar, get_args

from fitgauge.engine.training.workload import Framework, Method, Optimizer, Precision, Targets
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.launchers.registry import (
    TOOLS,
    find_tool,
    not_modelled,
    tools_by_word,
)
from fitgauge.services.training_fit.launchers.tool import word_of

Word = TypeVar("Word", bound=str)

_METHODS: Mapping[str, Method] = {
    "full": "full", "fullfinetuning": "full", "fullfinetune": "full", "sft": "full",
    "pretraining": "full", "fft": "full", "lora": "lora",
    "rslora": "lora", "peft": "lora", "dora": "dora", "qlora": "qlora", "qlora4bit": "qlora",
}  # fmt: skip
_METHOD_WITHIN = re.compile(r"\b(?:qlora|rslora|dora|lora|full|pretraining)\b")
_PRECISIONS: Mapping[str, Precision] = {
    "mixedbf16": "mixed_bf16", "mixed": "mixed_bf16", "amp": "mixed_bf16", "ampbf16": "mixed_bf16",
    "bf16mixed": "mixed_bf16",
    "mixedfp16": "mixed_fp16", "ampfp16": "mixed_fp16", "fp16mixed": "mixed_fp16",
    "fp16": "mixed_fp16", "bf16": "bf16",
    "bfloat16": "bf16", "purebf16": "bf16", "bf16true": "bf16", "fp32": "fp32", "float32": "fp32",
    "tf32": "fp32", "int8": "int8",
    "fp8": "fp8", "mixedfp8": "fp8",
}  # fmt: skip
_FRAMEWORKS: dict[str, Framework] = {
    "transformers": "transformers", "hf": "transformers", "huggingface": "transformers",
    "accelerate": "transformers",
    "peft": "transformers", "pytorch": "transformers", "ddp": "transformers",
    "deepspeed": "deepspeed", "zero": "deepspeed",
    "fsdp": "fsdp", "fsdp1": "fsdp", "fsdp2": "fsdp", "megatron": "megatron",
    "megatronlm": "megatron", "megatroncore": "megatron",
    "mcore": "megatron", "mcorebridge": "megatron", "megatronswift": "megatron",
}  # fmt: skip
_OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": "adamw", "adam": "adamw", "adamwtorch": "adamw", "adamwtorchfused": "adamw",
    "adamw8bit": "adamw_8bit",
    "adamwtorch8bit": "adamw_torch_8bit", "adamwtorch4bit": "adamw_torch_4bit",
    "adamw4bit": "adamw_torch_4bit",
    "adamwtorchfp8": "adamw_torch_fp8", "adamwfp8": "adamw_torch_fp8",
    "adam8bit": "adamw_8bit", "adamwbnb8bit": "adamw_8bit", "adamwint8": "adamw_8bit",
    "8bitadam": "adamw_8bit", "8bitadamw": "adamw_8bit", "8bit": "adamw_8bit",
    "pagedadam8bit": "paged_adamw_8bit", "paged8bitadamw": "paged_adamw_8bit",
    "pagedadamw": "paged_adamw",
    "pagedadamw32bit": "paged_adamw", "pagedadamw8bit": "paged_adamw_8bit",
    "adamwbf16": "adamw_bf16", "adammini": "adam_mini",
    "adafactor": "adafactor", "lion": "lion", "lion32bit": "lion", "lion8bit": "lion_8bit",
    "muon": "muon", "sgd": "sgd",
    "sgdmomentum": "sgd_momentum", "momentum": "sgd_momentum", "galore": "galore_adamw",
    "galoreadamw": "galore_adamw", "lomo": "lomo",
    "adalomo": "lomo",
}  # fmt: skip


def method(text: str | None) -> Method:
    """Return the method of this name, or the one that a text names: "LoRA (16-bit)"; full by
    default. Raises InvalidRequestError for an unknown one."""
    named = set(_METHOD_WITHIN.findall(re.sub(r"[\W_]+", " ", text.lower()))) if text else set()
    return parse_choice(named.pop() if len(named) == 1 else text, _METHODS, "method") or "full"


def framework(text: str | None) -> Framework:
    """Return the framework of this name, or the one under a tool; transformers by default. Raises
    InvalidRequestError for an unknown one."""
    if text is None:
        return "transformers"
    if (tool := find_tool(text)) is not None:
        return tool.framework
    if (error := not_modelled(text)) is not None:
        raise error
    words = _FRAMEWORKS | {word: tool.framework for word, tool in tools_by_word().items()}
    names = (*get_args(Framework), *(tool.name for tool in TOOLS))
    return parse_choice(text, words, "framework", names=names) or "transformers"


def optimizer(text: str | None) -> Optimizer:
    """Return the optimizer of this name, adamw by default. Raises InvalidRequestError for an
    unknown one."""
    return parse_choice(text, _OPTIMIZERS, "optimizer") or "adamw"


def precision(text: str | None, method: Method) -> Precision:
    """Return the precision of this name; by default mixed_bf16, and bf16 for adapters on a base
    that is not quantized.

    Raises InvalidRequestError for an unknown one.
    """
    return parse_choice(text, _PRECISIONS, "precision") or (
        "bf16" if method in ("lora", "dora") else "mixed_bf16"
    )


def targets(value: str | list[str] | None) -> Targets:
    """Return which linears get adapters: a keyword, or the names of modules."""
    if value is None:
        return "all_linear"
    if isinstance(value, list):
        return tuple(value)
    word = re.sub(r"[^a-z]", "", value.lower())
    if word in ("alllinear", "all"):
        return "all_linear"
    if word in ("attention", "attn"):
        return "attention"
    return tuple(part for part in re.split(r"[,\s]+", value) if part)


def parse_choice(
    text: str | None, values: Mapping[str, Word], field: str, *, names: Sequence[str] = ()
) -> Word | None:
    """Return the value of a spelling among `values`; None without a text. Raises
    InvalidRequestError for an unknown one, with the names to send: `names`, or all values."""
    if text is None:
        return None
    word = word_of(text)
    if word in values:
        return values[word]
    near = tuple(dict.fromkeys(str(values[one]) for one in get_close_matches(word, values, n=3)))
    hint = f"Send {', '.join(names or dict.fromkeys(values.values()))}."
    raise InvalidRequestError(
        f"Unknown {field} {text.strip()!r}.",
        hint=hint,
        matches=near,
        field=field,
        code="unknown-value",
    )
