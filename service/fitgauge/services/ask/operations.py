"""What a question means: which operation, by what its facts tell, and the GPUs of both halves of
disaggregated serving."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.hardware import name_of
from fitgauge.services.ask.names import GpuNames
from fitgauge.services.ask.schemas import Operation, Understood
from fitgauge.services.ask.topics import is_about

_LOGS = 200
"""Letters from which on a text with lines of a log is a log, whatever else it names."""


Half = Literal["prefill", "decode"]


class Halves(NamedTuple):
    """The GPUs of one server of each half."""

    gpus: Mapping[Half, str]
    """By half, as a request names them: "2x H100"."""
    servers: Mapping[Half, int]
    """How many such servers, where the text says it."""


class Reading(NamedTuple):
    """What a question means."""

    operation: Operation | None
    """The operation that is meant; None for no question about GPU memory."""
    understood: Understood
    """What the question says."""
    facts: Sequence[Fact]
    """All that it says."""
    questions: Collection[int]
    """The indices of its sentences that ask something."""
    text: str
    """The question."""
    training: bool
    """Whether it is about training."""
    model_text: str | None = None
    """The model as the text names it."""
    whole_context: bool = False
    """Whether the model's whole context is meant, of which the text says no number; a command
    without it makes room for as much."""
    halves: Halves | None = None
    """The halves of disaggregated serving, where it is about that."""
    notes: tuple[str, ...] = ()
    """What the text says and the answer leaves out."""
    command: str | None = None
    """The command of a model server that it holds."""


Sign = Literal[
    "training", "trainer", "several", "gpus on a par", "model", "hardware", "counted", "settings",
    "formatted", "sizes alone", "largest of a family", "of some", "terse", "fastest",
    "step stated", "of a class",
]  # fmt: skip
"""What the facts of a question tell of the operation that it means. "trainer": it names a tool that
trains or a ZeRO stage, which lists of GPUs do not take; "several": models, engines, formats or
contexts are on a par; "of some": it names a price by the hour, a cloud or a vendor of GPUs;
"terse": it is names and numbers alone; "step stated": it says the sequences of a training step and
their tokens; "of a class": it names models by a size."""


def operation_of(text: str, signs: Collection[Sign]) -> Operation | None:
    """Return the operation that a text means, None where it is about something else."""
    low = text.lower()
    training, model, hardware = (one in signs for one in ("training", "model", "hardware"))
    on_a_par = "gpus on a par" in signs
    stated = model and hardware and ("step stated" in signs or len(text) <= _LOGS)
    if is_about(low, "log") and not stated:
        return "explain_log"
    sizes_alone, settings = "sizes alone" in signs, "settings" in signs
    wants_models = is_about(low, "models") or (sizes_alone and is_about(low, "format"))
    wants_gpus = is_about(low, "gpus")
    named = hardware or model or settings or wants_models or wants_gpus
    if not (named or is_about(low, "need", "it fits")):
        return None
    terse, of_some = "terse" in signs, "of some" in signs
    about_it = hardware or (terse and model) or is_about(low, "memory", "need", "it fits")
    prices = is_about(low, "price", "price of tokens")
    if not (about_it or wants_models or (model and (wants_gpus or of_some or prices))):
        return None
    of_a_class = "of a class" in signs
    lists = wants_models and (sizes_alone or not model or of_a_class or is_about(low, "largest"))
    suggests = (terse and not settings) or is_about(low, "suggestions")
    if lists or (hardware and ("largest of a family" in signs or (suggests and not model))):
        return "list_models_that_fit"
    counts = wants_gpus and (
        is_about(low, "nodes") or ("counted" not in signs and is_about(low, "count of gpus"))
    )
    if counts and "trainer" in signs and hardware and model and not on_a_par:
        return "plan_training"  # by the settings of the tool or stage, on as few as hold them
    if on_a_par and model and (counts or prices or ("fastest" in signs and not training)):
        return "recommend_gpus"
    several = "several" in signs or (on_a_par and is_about(low, "comparison"))
    formats = "formatted" not in signs and is_about(low, "format")
    if model and hardware and not training and (several or formats):
        return "compare_fit"
    if training and hardware and model and is_about(low, "plan"):
        return "plan_training"
    if counts if hardware else wants_gpus or (model and (of_some or prices)):
        return "recommend_gpus"
    return "check_training_fit" if training else "check_fit"


_WORD = re.compile(r"\bprefill|(?<![a-z])decod[ei]|预填充|解码")
_APART = re.compile(
    r"disagg|\bpd[\s-]*(?:分离|separat|split)|prefill.{0,120}decod|decod.{0,120}prefill"
    r"|\b\d{1,3}\s?p\s?\d{1,3}\s?d\b"
)
_NODES = re.compile(
    r"(\d{1,3})\s*(?:台|机|个?节点|x\s)?\s*(prefill|decode)\s*(?:nodes?|servers?|machines?|节点|机)"
    r"|(\d{1,3})\s*(?:台|机|个?节点)\s*(prefill|decode)"
)
"""Machines of a half, all of them one server."""
_SERVERS = re.compile(r"\b(\d{1,3})\s?p\s?(\d{1,3})\s?d\b")
"""Servers of each half, as xPyD says it: every one a server of its own."""
_MOST_GPUS = 4096


def halves(text: str, hardware: Sequence[Fact], gpus: GpuNames) -> Halves | None:
    """Return the GPUs of both halves of disaggregated serving; None where a question is about
    another thing, or names no GPU.

    hardware: the facts of GPUs. A half has the GPUs that follow its name, or that stand before it
    where the first GPU does; GPUs that are named once are those of both."""
    low = text.lower()
    named = [fact for fact in hardware if fact.value.name]
    if not named or _APART.search(low) is None:
        return None
    of_half = _assigned(low, named)
    nodes = {
        _half(match[2] or match[4]): int(match[1] or match[3]) for match in _NODES.finditer(low)
    }
    sent: dict[Half, str] = {}
    for half in ("prefill", "decode"):
        fact = of_half.get(half)
        if fact is None:
            continue
        name, count = name_of(fact.value, gpus)
        match = gpus.find(str(name))
        size = match.accelerator.node_size if match else None
        each = count if len(named) > 1 or half not in nodes else _in_a_node(fact, nodes, size)
        total = (each or (size if half in nodes else None) or 1) * nodes.get(half, 1)
        sent[half] = f"{total}x {name}" if 1 < total <= _MOST_GPUS else str(name)
    servers = _SERVERS.search(low)
    numbers: dict[Half, int] = {}
    if servers:
        numbers = {"prefill": int(servers[1]), "decode": int(servers[2])}
    return Halves(sent, numbers)


def _in_a_node(fact: Fact, nodes: Mapping[Half, int], size: int | None) -> int | None:
    """Return the GPUs of one machine; a count that is the number of machines is not theirs."""
    count = fact.value.count
    return size if count is None or count in nodes.values() else int(count)


def _assigned(low: str, named: Sequence[Fact]) -> Mapping[Half, Fact]:
    """Return the GPU of each half."""
    if len(named) == 1:
        return {"prefill": named[0], "decode": named[0]}
    words = [(match.start(), _half(match[0])) for match in _WORD.finditer(low)]
    follows = bool(words) and words[0][0] < named[0].start
    result: dict[Half, Fact] = {}
    for fact in named:
        before = [half for start, half in words if start < fact.start]
        after = [half for start, half in words if start > fact.start]
        near = before[-1:] if follows else after[:1]
        for half in near:
            result.setdefault(half, fact)
    return result


def _half(word: str) -> Half:
    return "prefill" if word.startswith(("prefill", "预填充")) else "decode"
