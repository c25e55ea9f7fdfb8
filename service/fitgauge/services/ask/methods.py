"""Which method of training a question means."""

from collections.abc import Sequence

from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.formats_meant import is_refused
from fitgauge.services.ask.intent import is_full
from fitgauge.services.ask.vocabulary import METHODS

_QUARTERS = frozenset({"int4", "nf4", "bnb"})
"""Formats in which only QLoRA trains."""

_LEAST_RANK = 4
"""A smaller rank is one of a process."""


def method_meant(text: str, facts: Sequence[Fact], quantization: object) -> dict[str, object]:
    """Return the method of training, and the algorithm where another word is the method.

    facts: all of the text; quantization: the format of the weights."""
    methods = [fact for fact in facts if fact.kind == "method"]
    adapters: list[object] = []
    algorithms: list[object] = []
    for fact in methods:
        if not is_refused(text, fact):
            (adapters if fact.value in METHODS else algorithms).append(fact.value)
        elif fact.value in ("lora", "dora", "qlora"):
            adapters.append("full")
    if not adapters and is_full(text):
        adapters.append("full")
    if not adapters and any(fact.kind == "rank" and fact.value >= _LEAST_RANK for fact in facts):
        adapters.append("lora")
    if not (adapters or algorithms) and quantization in _QUARTERS:
        adapters.append("qlora")
    quantized = {
        fact.sentence for fact in facts if fact.kind == "format" and fact.value in _QUARTERS
    }
    if adapters[:1] == ["lora"] and any(fact.sentence in quantized for fact in methods):
        adapters = ["qlora"]
    algorithm = next(iter(algorithms), None)
    if adapters:
        return {"method": adapters[0], "algorithm": algorithm}
    return {"method": algorithm}
