"""Which engine wrote a log, and what it says."""

import msgspec

from fitgauge.engine.serving.engine import LogParser
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.lines import Line, clean_lines
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.start_log.names import card
from fitgauge.logs import torch_oom


def detect(text: str) -> StartLog | None:
    """Return what a log says; None where no engine and no out-of-memory message is recognised,
    or nothing in it is a measurement."""
    lines = clean_lines(text)
    parser = _parser(lines)
    log = parser.read(lines) if parser else StartLog(engine=None, gpu=card(lines))
    ran_out = torch_oom.read(lines)
    if ran_out:
        log = msgspec.structs.replace(log, outcome="oom", readings=(*log.readings, *ran_out))
    return log if log.readings else None


def _parser(lines: list[Line]) -> LogParser | None:
    """Return the parser with the most signatures in the text, but a wrapper's before that of the
    engine whose log it holds; None where none is there."""
    hits = {
        parser: sum(
            any(signature in line.text for line in lines) for signature in parser.signatures
        )
        for parser in sorted(
            (row.log_parser for row in ENGINES.values() if row.log_parser),
            key=lambda parser: not parser.wraps_another,
        )
    }
    wrapping = (parser for parser in hits if parser.wraps_another and hits[parser] >= 2)
    best = next(wrapping, None) or max(hits, key=lambda parser: hits[parser])
    return best if hits[best] else None
