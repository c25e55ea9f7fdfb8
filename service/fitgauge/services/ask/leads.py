"""What an answer says first where a question in plain words asks for it: the most that a launch
holds, how fast it is, how large its cache is, what of a table is meant."""

import itertools
import math
import re
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct, structs

from fitgauge.engine.quantity import GIB, HOURS_OF_A_MONTH, KIB, gib, rough
from fitgauge.services.ask.remarks import share_of_each
from fitgauge.services.ask.schemas import Understood
from fitgauge.services.ask.topics import Topic, is_about
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.parsing import AS_PUBLISHED
from fitgauge.services.common.schemas import FitRequest, Suggestion
from fitgauge.services.common.smallest import first_step, is_here, step_here
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow
from fitgauge.services.fit.host_speed import rate_in_words
from fitgauge.services.recommend.schemas import RecommendAnswer
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest

Request = TypeVar("Request", FitRequest, TrainingRequest)

_MOST: Sequence[tuple[str, Topic, str]] = (
    ("context_length", "longest context", "tokens of context"),
    ("concurrency", "most requests", "requests at once"),
    ("micro_batch_size", "largest batch", "sequences in a micro-batch"),
    ("sequence_length", "longest sequence", "tokens in a sequence"),
)
"""The fields of requests of which a text may ask the most that fits, and what they count."""


def most_asked(text: str, understood: Understood, kind: type[Struct]) -> str | None:
    """Return the field of such a request of which a text asks the most that fits; None for none."""
    fields = kind.__struct_fields__
    for field, topic, _ in _MOST:
        is_open = getattr(understood, field) is None or is_about(text, "beyond")
        if field in fields and is_open and is_about(text, topic):
            return field
    return None


def most_of(
    field: str | None, request: Request, answer: FitAnswer | TrainingAnswer
) -> tuple[Request, str] | None:
    """Return the request for the most of a field that fits, so that the command holds it, and a
    sentence that says it with a space behind it; None where it is of no field, or nothing fits.
    Where the usual context does not surely fit, it is the one that is suggested."""
    if field is None:
        return None
    changes, most = {}, getattr(answer.limits, f"max_{field}", None)
    if isinstance(answer, FitAnswer) and answer.verdict != "fits":
        most = None
        for one in answer.suggestions if field == "context_length" else ():
            if (
                most is None
                and one.verdict == "fits"
                and is_here(one)
                and "model" not in one.request
            ):
                changes, most = one.request, one.request.get("context_length")
    if not most:
        return None
    noun = next(noun for name, _, noun in _MOST if name == field)
    noun = re.sub("^(request|sequence)s", r"\1", noun) if most == 1 else noun
    sentence = f"{most:,} {noun} at most. "
    return structs.replace(request, **{**changes, field: most}), sentence


def is_too_slow(answer: FitAnswer) -> bool:
    """Return whether an answer misses a speed that its question wants."""
    targets = answer.speed.targets if answer.speed else []
    return any(target.reached in ("unlikely", "no") for target in targets)


def to_fit(text: str, understood: Understood, answer: FitAnswer) -> Suggestion | None:
    """Return the change with which the same GPUs hold a model that does not fit, where a text asks
    the most that they hold or how fast it is, or offers the machine's memory; None for other
    questions."""
    if answer.verdict not in ("does_not_fit", "tight"):
        return None
    if understood.host_memory_gib is None:
        asks = most_asked(text, understood, FitRequest) or is_about(text, "rate")
        return step_here(answer.suggestions) if asks else None
    step = first_step(answer.suggestions, offers_host=True)
    return step if step and (is_here(step) or step.request.get("cpu_offload_gib")) else None


def to_fit_in_words(step: Suggestion, *, offered: bool) -> str:
    """Return a change as a sentence with a space behind it. offered: whether it is of the machine's
    memory, which a text offers, or of a speed, so that what it asks for is said not to fit."""
    if not offered:
        return f"To fit, {step.change.partition(': ')[0]}. "
    return f"As asked it does not fit. To fit, {step.change}. "


FILES = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")
"""Files that run without a GPU, from the largest."""


def needed_gib(answer: FitAnswer) -> float:
    """Return what the first format of an answer without a GPU needs [GiB]."""
    return answer.needs[0].required_bytes.expected / GIB


def without_gpu_in_words(answer: FitAnswer, machine: float | None) -> str:
    """Return what an answer's model takes of a machine without a GPU. machine: its memory
    [GiB]."""
    need, load = needed_gib(answer), answer.understood_as
    holds = "hold that" if machine and need <= machine else "do not hold that"
    of_it = f": its {machine:,g} GiB {holds}" if machine else ""
    return (
        f"Without a GPU {answer.model.id} takes {need:,.1f} GiB of the machine's memory in"
        f" {answer.needs[0].name}, with {load['context_length']:,} tokens of context{of_it}. How"
        " fast it is there is not estimated."
    )


def layers_in_words(text: str, answer: FitAnswer) -> str:
    """Return how many layers an answer's command keeps on the GPUs, where a text asks for that, as
    a sentence with a space behind it; empty for other questions."""
    layers = re.search(r"-ngl (\d+)", answer.launch.command if answer.launch else "")
    return f"{layers[1]} layers on the GPU. " if layers and is_about(text, "layers") else ""


def most_of_each(field: str, names: Sequence[str], answers: Sequence[FitAnswer]) -> str:
    """Return the most of a field that fits of each of several answers, as a sentence with a space
    behind it. names: of the answers."""
    noun = next(noun for name, _, noun in _MOST if name == field).capitalize()
    values = [getattr(one.limits, f"max_{field}", None) or 0 for one in answers]
    each = ", ".join(f"{name} {value:,}" for name, value in zip(names, values, strict=True))
    return f"{noun} at most: {each}. "


def host_in_words(machine: float, answer: FitAnswer) -> str:
    """Return how much of the machine's memory would do, where it has too little, as a sentence with
    a space behind it; empty where none would. machine: what it has [GiB]; answer: with enough."""
    step = first_step(answer.suggestions, offers_host=True)
    if step is None or step.host_memory is None or step.host_memory.total_bytes < machine * GIB:
        return ""
    needed = gib(step.host_memory.total_bytes)
    return f"In host memory it would take {needed}, and {machine:g} GiB do not hold that. "


def copies_in_words(text: str, answer: FitAnswer) -> str:
    """Return how many copies of a model the GPUs of a question hold, where it asks for that, as a
    sentence with a space behind it; empty for other questions."""
    each = answer.limits.min_gpu_count if answer.limits else None
    if not each or answer.gpu is None or not is_about(text, "copies"):
        return ""
    if answer.gpu.count == 1 and share_of_each(text) is not None:
        return ""  # they share it
    copies, noun = (answer.gpu.count or 1) // each, "GPU" if each == 1 else "GPUs"
    if copies == 0:
        return f"No copy fits: one takes {each} {noun}. "
    return f"{copies:,} cop{'y' if copies == 1 else 'ies'} at most, each on {each} {noun}. "


def cache_in_words(answer: FitAnswer) -> str:
    """Return 'The KV cache takes 40.00 GiB for 131,072 tokens, about 320 KiB a token. ', of all
    GPUs together; empty where there is none."""
    tokens = int(answer.understood_as["context_length"]) * int(answer.understood_as["concurrency"])
    gpus = answer.gpu.count if answer.gpu else 1
    if answer.needs:
        size = answer.needs[0].kv_cache_bytes
    else:
        size = gpus * sum(term.bytes for term in answer.terms or () if term.name == "kv_cache")
    if not size:
        return ""
    over = f" over {gpus} GPUs" if gpus > 1 else ""
    each = f"about {size / tokens / KIB:,.0f} KiB a token"
    most = answer.limits.kv_cache_tokens if answer.limits else None
    left = f"There is room for {most:,} tokens. " if most else ""
    return f"The KV cache takes {gib(size)}{over} for {tokens:,} tokens, {each}. {left}"


_HOUR = 3600

_FEW_GPUS = 4
"""GPUs, or rows, of each of which something is said."""


def lacks_format(request: CompareRequest, table: CompareAnswer) -> bool:
    """Return whether nothing fits of a table whose question names no format."""
    return request.quantizations is None and not any(row.verdict == "fits" for row in table.items)


def format_to_take(understood: Understood, table: CompareAnswer) -> FitRequest | None:
    """Return the question about the widest format that fits, of a table of one model on one GPU in
    several formats; None for another table, or where none fits."""
    rows = table.items
    if len({row.quantization for row in rows}) < 2 or understood.models or understood.gpus:
        return None
    best = next((row for row in rows if row.verdict == "fits"), None)
    if best is None or understood.model is None:
        return None
    return as_question(best, understood)


def as_question(row: CompareRow, understood: Understood) -> FitRequest:
    """Return the question that a row of a table answers."""
    return FitRequest(
        model=understood.model or row.model,
        gpu=row.gpu,
        gpu_count=row.gpu_count,
        engine=row.engine,
        quantization=None if row.quantization == AS_PUBLISHED else row.quantization,
        context_length=row.context_length,
        concurrency=row.concurrency,
        kv_cache_dtype=understood.kv_cache_dtype,
    )


def fitting_rows(table: CompareAnswer) -> list[CompareRow]:
    """Return the rows of a table that fit, where they are few enough to say something of each;
    empty for others."""
    rows = [row for row in table.items if row.verdict == "fits"]
    return rows if len(rows) <= _FEW_GPUS else []


def nearest_rows(understood: Understood, table: CompareAnswer) -> list[CompareRow]:
    """Return the row that needs least of each GPU, of a table of one model on a few GPUs where
    nothing fits; none of another table."""
    nearest: dict[str, CompareRow] = {}
    for row in table.items:
        if row.verdict in ("fits", "tight") or understood.model is None:
            return []
        if (
            row.required_bytes
            and row.gpu
            and row.required_bytes.expected < _need(nearest.get(row.gpu))
        ):
            nearest[row.gpu] = row
    return list(nearest.values()) if len(nearest) <= _FEW_GPUS else []


def _need(row: CompareRow | None) -> float:
    return row.required_bytes.expected if row and row.required_bytes else math.inf


def enough_of_each(answers: Sequence[FitAnswer]) -> str:
    """Return how many GPUs hold the model of several answers, as a sentence with a space behind
    it; empty where no number does."""
    least = [(one.limits.min_gpu_count, one.gpu) for one in answers if one.limits and one.gpu]
    each = " or ".join(f"{count} x {gpu.name}" for count, gpu in least if count)
    return f"It takes {each}. " if each else ""


def row_names(rows: Sequence[CompareRow], table: CompareAnswer) -> list[str]:
    """Return each of some rows of a table by what tells the table's rows apart."""
    names = [_columns(row) for row in rows]
    telling = [len(set(column)) > 1 for column in zip(*map(_columns, table.items), strict=True)]
    return [" ".join(itertools.compress(name, telling)) for name in names]


def _columns(row: CompareRow) -> tuple[str, ...]:
    gpus = f"{row.gpu_count} x {row.gpu}"
    return row.model, gpus, str(row.quantization), str(row.engine), str(row.context_length)


def side_by_side(text: str, table: CompareAnswer) -> list[CompareRow]:
    """Return the row of each GPU of a table of one model on a few GPUs, or of each model where a
    text asks for the speed of a few: in the widest format of those that most of them hold. None for
    another table, or where only one is held."""
    gpus = {(row.gpu, row.gpu_count) for row in table.items}
    models, loads = (
        {row.model for row in table.items},
        {(row.context_length, row.concurrency) for row in table.items},
    )
    options = max(len(gpus), len(models))
    if len(loads) > 1 or min(len(gpus), len(models)) > 1 or not 1 < options <= _FEW_GPUS:
        return []
    if len(models) > 1 and not is_about(text, "fastest", "rate"):
        return []
    rows = [row for row in table.items if row.verdict == "fits"]
    by_format: dict[str | None, list[CompareRow]] = {}
    for row in rows:
        by_format.setdefault(row.quantization, []).append(row)
    held = rows if len(table.items) == options else max(by_format.values(), key=len, default=[])
    return held if 1 < len(held) <= options else []


def together(table: CompareAnswer) -> str:
    """Return whether the models of a table fit on each of its GPUs at once, in a sentence; empty
    where it is about other things."""
    counted = [row for row in table.items if row.required_bytes is not None and row.budget_bytes]
    models = {row.model for row in counted}
    gpus = list(dict.fromkeys((row.gpu, row.gpu_count) for row in counted))
    if len(models) < 2 or len(models) * len(gpus) != len(counted):
        return ""
    each = [[row for row in counted if (row.gpu, row.gpu_count) == gpu] for gpu in gpus]
    return f"At once they {', and '.join(map(_sum_of, each))}. Each alone: "


def _sum_of(rows: Sequence[CompareRow]) -> str:
    """Return whether the models of some rows fit on their GPU at once, in words."""
    needs = [row.required_bytes.expected / GIB for row in rows if row.required_bytes]
    budget = max(row.budget_bytes or 0 for row in rows) / GIB
    parts = " + ".join(f"{need:.1f}" for need in needs)
    most = sum(row.required_bytes.high for row in rows if row.required_bytes) / GIB
    verb = "fit" if most <= budget else "do not fit"
    gpu = f"{rows[0].gpu_count} x {rows[0].gpu}"
    return f"{verb} on {gpu}: {parts} = {sum(needs):.1f} of {budget:.1f} GiB"


def needs_together(answers: Sequence[Struct]) -> str:
    """Return what several models need at once, of answers without a GPU, in a sentence with a
    space behind it; empty for other answers."""
    needs = [
        one.needs[0].required_bytes.expected / GIB
        for one in answers
        if isinstance(one, FitAnswer) and one.needs
    ]
    if len(needs) < 2 or len(needs) < len(answers):
        return ""
    parts = " + ".join(f"{need:.1f}" for need in needs)
    return f"At once they need {parts} = {sum(needs):.1f} GiB. "


def month_in_words(answer: RecommendAnswer) -> str:
    """Return what the cheapest of an answer's options costs a month, as a sentence with a space
    behind it; empty where no price is known."""
    priced = [(one.cost.usd_per_hour_low, one.gpu) for one in answer.options if one.cost]
    if not priced:
        return ""
    price, gpu = min(priced, key=lambda pair: pair[0])
    month = f"{price * HOURS_OF_A_MONTH:,.0f} USD a month ({HOURS_OF_A_MONTH} hours)"
    return f"From {month}, on {gpu.count} x {gpu.name}. "


def seconds_of_each(answer: FitAnswer) -> float | None:
    """Return how long each request of an answer's load takes, from its arrival to its last token
    [s]; None where no speed is known."""
    if answer.speed is None or answer.speed.seconds_to_first_token is None:
        return None
    tokens = answer.speed.load.output_tokens
    speed = answer.speed.tokens_per_second_per_request.expected
    return answer.speed.seconds_to_first_token.expected + tokens / speed


def requests_in_words(rate: float, answer: FitAnswer, seconds: float, *, reached: bool) -> str:
    """Return how many requests at once a rate is, as a sentence with a space behind it. seconds:
    of each request; reached: whether the answer's load ends as many a second."""
    assert answer.speed is not None
    load = answer.speed.load
    each = f"each {load.prompt_tokens:,} + {load.output_tokens:,} tokens in {seconds:.1f} s"
    if reached:
        return f"{rate:.3g} requests a second are up to {load.concurrency} at once, {each}. "
    most = load.concurrency / seconds
    if math.isinf(rate):
        return f"About {most:.2g} requests a second end with {load.concurrency} at once, {each}. "
    return (
        f"{rate:.3g} requests a second are too many: about {most:.2g} end a second with"
        f" {load.concurrency} at once, {each}. "
    )


def speed_in_words(answer: FitAnswer, texts: float | None = None) -> str:
    """Return how fast the launch of an answer is, as a sentence with a space behind it; empty
    where nothing tells, or the answer says it anyway. texts: how many there are to read."""
    if answer.texts is not None:
        pace = answer.texts.texts_per_second
        low, expected, high = map(rough, (pace.low, pace.expected, pace.high))
        hours = rough(texts / pace.expected / _HOUR) if texts else ""
        whole = f": {texts:,.0f} of them take about {hours} hours" if texts else ""
        each = f"{answer.understood_as['context_length']:,} tokens"
        return f"About {expected} texts a second of {each} each ({low} to {high}){whole}. "
    if answer.speed is None and answer.verdict in ("fits", "tight"):
        return "How fast it is there is not estimated. "
    if answer.speed is None or answer.speed.targets:
        return ""
    speed = answer.speed
    rate = rate_in_words(speed.tokens_per_second_per_request, speed.load.concurrency)
    return f"{rate[0].upper()}{rate[1:]}. "


def speeds_in_words(answers: Sequence[FitAnswer]) -> str:
    """Return the speeds of one model on several GPUs, or of several on one, the fastest first, as a
    sentence with a space behind it; empty where fewer than two are known."""
    measured = [one for one in answers if one.gpu is not None and one.speed is not None]
    formats = {str(one.understood_as["quantization"]) for one in measured}
    is_one = len({one.model.id for one in measured}) == 1
    rates = [
        (
            f"{one.gpu.count} x {one.gpu.name}" if is_one and one.gpu else one.model.id,
            one.speed.tokens_per_second_per_request,
        )
        for one in measured
        if one.speed is not None
    ]
    if len(rates) < 2:
        return ""
    rates.sort(key=lambda pair: -pair[1].expected)
    parts = [
        f"{name} about {rough(rate.expected)} ({rough(rate.low)} to {rough(rate.high)})"
        for name, rate in rates
    ]
    stored = f", weights {formats.pop()}" if len(formats) == 1 else ""
    return f"Tokens a second of one request{stored}: {', '.join(parts)}. "
