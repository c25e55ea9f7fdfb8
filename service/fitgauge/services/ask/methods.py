"""Which method of training a question means."""

import itertools
import re
from collections.abc import Sequence

from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.formats_meant import AGAINST, LISTED, is_refused
from fitgauge.services.ask.topics import is_about
from fitgauge.services.ask.training_words import OPTIMIZERS
from fitgauge.services.ask.vocabulary import METHODS

_QUARTERS = frozenset({"int4", "nf4", "bnb"})
"""Formats in which only QLoRA trains."""

_LEAST_RANK = 4
"""A smaller rank is one of a process."""

_ASKS_RANK = re.compile(r"\blora[ _-]?r(?:ank)?\b", re.IGNORECASE)
"""A rank of adapters, with its number or asked for."""

_OF_ALL_WEIGHTS = frozenset({"galore_adamw", "lomo"})
"""Optimizers that are there to train all weights in little memory."""

_FULL_OR = re.compile(r"\bfull\s*(?:vs\.?|versus|or|/)\s", re.IGNORECASE)
"""All weights, compared with another method."""
_TRAINS_ALL = re.compile(r"--model_name_or_path\b")
_OF_ADAPTERS = re.compile(
    r"\b(?:llamafactory|llama-factory|swift|unsloth|peft|lora)", re.IGNORECASE
)
"""Tools that train adapters where a command says nothing of it, and words of adapters."""


def method_meant(text: str, facts: Sequence[Fact], quantization: object) -> dict[str, object]:
    """Return the method of training, and the algorithm where another word is the method.

    facts: all of the text; quantization: the format of the weights."""
    methods = [fact for fact in facts if fact.kind == "method"]
    adapters: list[object] = []
    algorithms: list[object] = []
    refused: list[object] = []
    for fact in methods:
        if not is_refused(text, fact):
            (adapters if fact.value in METHODS else algorithms).append(fact.value)
        elif fact.value in ("lora", "dora", "qlora"):
            refused.append("full")
    adapters = adapters or refused
    optimizer = OPTIMIZERS.search(text)
    of_all = optimizer is not None and optimizer.lastgroup in _OF_ALL_WEIGHTS
    if not adapters and (of_all or is_about(text, "all weights") or _is_full_command(text)):
        adapters.append("full")
    if not (adapters or algorithms) and quantization in _QUARTERS:
        adapters.append("qlora")
    ranked = any(fact.kind == "rank" and fact.value >= _LEAST_RANK for fact in facts)
    if not adapters and (ranked or _ASKS_RANK.search(text)):
        adapters.append("lora")
    quantized = {
        fact.sentence for fact in facts if fact.kind == "format" and fact.value in _QUARTERS
    }
    if adapters[:1] == ["lora"] and any(fact.sentence in quantized for fact in methods):
        adapters = ["qlora"]
    algorithm = next(iter(algorithms), None)
    if adapters:
        several = _side_by_side(text, methods)
        return {"method": adapters[0], "methods": several, "algorithm": algorithm}
    return {"method": algorithm}


def _side_by_side(text: str, facts: Sequence[Fact]) -> list[object] | None:
    """Return the methods that a text sets side by side, in its order: "lora or qlora"; None for
    one."""
    named = [fact for fact in facts if fact.value in METHODS and not is_refused(text, fact)]
    against = LISTED if is_about(text, "comparison") else AGAINST
    apart = [
        against.search(text[one.end : other.start]) is not None
        or text[one.end : other.start].strip() in (",", "/")
        for one, other in itertools.pairwise(named)
    ]
    values = list(dict.fromkeys(fact.value for fact in named))
    apart.append(_FULL_OR.search(text) is not None)
    if any(apart) and "full" not in values and is_about(text, "all weights"):
        values.append("full")
    return values if len(values) > 1 and any(apart) else None


def _is_full_command(text: str) -> bool:
    """Return whether a command of transformers or TRL trains all weights, as theirs do that say
    nothing of adapters (`use_peft` is off by default)."""
    return _TRAINS_ALL.search(text) is not None and _OF_ADAPTERS.search(text) is None
