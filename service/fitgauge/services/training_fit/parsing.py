"""What people write for a method, a precision, a framework or an optimizer, and what is meant."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar, cast, get_args

from fitgauge.engine.training.workload import Framework, Method, Optimizer, Precision, Targets
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.launchers.registry import BY_WORD, TOOLS, uncounted, word_of

Word = TypeVar("Word", bound=str)

_METHODS: Mapping[str, Method] = {
    "full": "full", "fullfinetuning": "full", "fullfinetune": "full", "sft": "full",
    "pretraining": "full", "fft": "full", "lora": "lora",
    "rslora": "lora", "peft": "lora", "dora": "dora", "qlora": "qlora", "qlora4bit": "qlora",
}  # fmt: skip
_PRECISIONS: Mapping[str, Precision] = {
    "mixedbf16": "mixed_bf16", "mixed": "mixed_bf16", "amp": "mixed_bf16", "ampbf16": "mixed_bf16",
    "bf16mixed": "mixed_bf16",
    "mixedfp16": "mixed_fp16", "ampfp16": "mixed_fp16", "fp16mixed": "mixed_fp16",
    "fp16": "mixed_fp16", "bf16": "bf16",
    "bfloat16": "bf16", "purebf16": "bf16", "bf16true": "bf16", "fp32": "fp32", "float32": "fp32",
    "tf32": "fp32", "int8": "int8",
    "fp8": "fp8", "mixedfp8": "fp8",
}  # fmt: skip
_FRAMEWORKS: Mapping[str, Framework] = {
    "transformers": "transformers", "hf": "transformers", "huggingface": "transformers",
    "accelerate": "transformers",
    "peft": "transformers", "pytorch": "transformers", "ddp": "transformers",
    "deepspeed": "deepspeed", "zero": "deepspeed",
    "fsdp": "fsdp", "fsdp1": "fsdp", "fsdp2": "fsdp", "megatron": "megatron",
    "megatronlm": "megatron", "megatroncore": "megatron",
    "mcore": "megatron", "mcorebridge": "megatron", "megatronswift": "megatron",
    **{word: tool.framework for word, tool in BY_WORD.items()},
}  # fmt: skip
_OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": "adamw", "adam": "adamw", "adamwtorch": "adamw", "adamwtorchfused": "adamw",
    "adamw8bit": "adamw_8bit",
    "adamwtorch8bit": "adamw_torch_8bit", "adamwtorch4bit": "adamw_torch_4bit",
    "adamw4bit": "adamw_torch_4bit",
    "adamwtorchfp8": "adamw_torch_fp8", "adamwfp8": "adamw_torch_fp8",
    "adam8bit": "adamw_8bit", "adamwbnb8bit": "adamw_8bit", "adamwint8": "adamw_8bit",
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
    """Return the method that is meant, full where nothing is said. Raises InvalidRequestError
    for an unknown one."""
    return parse_choice(text, _METHODS, "method") or "full"


def framework(text: str | None) -> Framework:
    """Return the framework that is meant, or that under a tool; transformers where nothing is
    said. Raises InvalidRequestError for an unknown one."""
    refused = None if text is None else uncounted(text)
    if refused is not None:
        raise refused
    return (
        parse_choice(
            text,
            _FRAMEWORKS,
            "framework",
            names=(*get_args(Framework), *(tool.name for tool in TOOLS)),
        )
        or "transformers"
    )


def optimizer(text: str | None) -> Optimizer:
    """Return the optimizer that is meant, adamw where nothing is said. Raises
    InvalidRequestError for an unknown one."""
    return parse_choice(text, _OPTIMIZERS, "optimizer") or "adamw"


def precision(text: str | None, method: Method) -> Precision:
    """Return the precision that is meant: left out, mixed_bf16, and bf16 for adapters on a base
    that is not quantized.

    Raises InvalidRequestError for an unknown one.
    """
    return parse_choice(text, _PRECISIONS, "precision") or (
        "bf16" if method in ("lora", "dora") else "mixed_bf16"
    )


def targets(sent: str | list[str] | None) -> Targets:
    """Return which linears get an adapter: a word, one module's name, or several."""
    if sent is None:
        return "all_linear"
    if isinstance(sent, list):
        return tuple(sent)
    word = re.sub(r"[^a-z]", "", sent.lower())
    if word in ("alllinear", "all"):
        return "all_linear"
    return (
        "attention"
        if word in ("attention", "attn")
        else tuple(part for part in re.split(r"[,\s]+", sent) if part)
    )


def parse_choice(
    text: str | None, known: Mapping[str, Word], field: str, *, names: Sequence[str] = ()
) -> Word | None:
    """Return what a text means among words that are `known`; None where nothing is said. Raises
    InvalidRequestError with what can be sent: `names`, or all that is meant by any word."""
    if text is None:
        return None
    word = word_of(text)
    if word in known:
        return known[word]
    near = tuple(cast("list[str]", get_close_matches(word, known, n=3)))
    hint = f"Send {', '.join(names or dict.fromkeys(known.values()))}."
    raise InvalidRequestError(
        f"{text.strip()!r} is no {field} that is known here.", hint=hint, matches=near, field=field
    )
