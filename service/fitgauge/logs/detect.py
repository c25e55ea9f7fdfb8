"""Which engine wrote a log, and what it says."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from fitgauge.logs import llamacpp, ollama, sglang, tensorrt_llm, tgi, torch_oom, vllm
from fitgauge.logs.lines import Line, clean_lines
from fitgauge.logs.measurements import StartLog
from fitgauge.logs.names import card


class _Engine(NamedTuple):
    signatures: tuple[str, ...]
    read: Callable[[list[Line]], StartLog]


_ENGINES = (
    _Engine(ollama.SIGNATURES, ollama.read),
    _Engine(vllm.SIGNATURES, vllm.read),
    _Engine(sglang.SIGNATURES, sglang.read),
    _Engine(llamacpp.SIGNATURES, llamacpp.read),
    _Engine(tensorrt_llm.SIGNATURES, tensorrt_llm.read),
    _Engine(tgi.SIGNATURES, tgi.read),
)
"""In the order of preference: Ollama's log holds llama.cpp's."""


def detect(text: str) -> StartLog | None:
    """Return what a log says; None where no engine and no out-of-memory message is recognised,
    or nothing in it is a measurement."""
    lines = clean_lines(text)
    hits = [
        sum(any(signature in line.text for line in lines) for signature in engine.signatures)
        for engine in _ENGINES
    ]
    engine = _ENGINES[0] if hits[0] >= 2 else _ENGINES[hits.index(max(hits))]
    log = engine.read(lines) if max(hits) else StartLog(engine=None, gpu=card(lines))
    ran_out = torch_oom.read(lines)
    if ran_out:
        log = msgspec.structs.replace(log, outcome="oom", readings=(*log.readings, *ran_out))
    return log if log.readings else None
