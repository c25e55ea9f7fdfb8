"""Disaggregated serving in a question: which GPUs compute prompts, and which write the answers."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.hardware import name_of
from fitgauge.services.ask.names import GpuNames

Half = Literal["prefill", "decode"]

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


class Halves(NamedTuple):
    """The GPUs of one server of each half."""

    gpus: Mapping[Half, str]
    """By half, as a request names them: "2x H100"."""
    servers: Mapping[Half, int]
    """How many such servers, where the text says it."""


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
