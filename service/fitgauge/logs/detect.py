"""Which engine wrote a log, and what it says."""

import msgspec

from fitgauge.engine.serving.engine_facts import LogParser
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.lines import Line, clean_lines
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.start_log.names import gpu_name
from fitgauge.engine.serving.workload import EngineName
from fitgauge.logs import out_of_memory, torch_oom


def detect(
    text: str, command: str | None = None, engine: EngineName | None = None
) -> StartLog | None:
    """Return what a log says; None where it holds no measurement and no out-of-memory message.
    command: the launch command, read as one more line of the log. engine: that is said to have
    written it, which decides where one wraps another."""
    printed = clean_lines(text)
    lines = printed + (clean_lines(command) if command else [])
    parser = _parser(lines, engine)
    log = parser.read(lines) if parser else StartLog(engine=None, gpu=gpu_name(lines))
    numbers = torch_oom.read(printed) or out_of_memory.read_numbers(printed)
    kind = out_of_memory.memory_kind(printed, of_an_engine=bool(log.readings))
    if (kind is None or log.outcome == "served") and not numbers:
        return log if log.readings else None
    outcome = "oom" if numbers else log.outcome or ("kv_too_small" if kind == "kv_cache" else "oom")
    training = parser is None and out_of_memory.is_training(lines)
    phase = out_of_memory.training_phase(printed) if training else None
    remarks = (
        *log.remarks,
        *["host_memory"] * (kind == "host"),
        *["training"] * training,
        *["captures_graphs"] * (not training and out_of_memory.captures_graphs(printed)),
        *([phase] if phase else []),
        *["checkpointed"] * (training and out_of_memory.checkpoints(lines)),
    )
    return msgspec.structs.replace(
        log, outcome=outcome, remarks=remarks, readings=(*log.readings, *numbers)
    )


def _parser(lines: list[Line], engine: EngineName | None) -> LogParser | None:
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
    named = ENGINES[engine].log_parser if engine else None
    wrapping = (
        parser
        for parser in hits
        if parser.wraps_another and hits[parser] >= (1 if parser is named else 2)
    )
    best = next(wrapping, None) or max(hits, key=lambda parser: hits[parser])
    return best if hits[best] else None
