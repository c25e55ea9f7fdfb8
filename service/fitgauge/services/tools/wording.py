"""What the short answers share: GiB with one decimal, names, and lists that stay short."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.reading_schemas import Reading
from fitgauge.services.common.schemas import Assumption, GpuAnswer, Suggestion, TermAnswer
from fitgauge.services.tools.arguments import Arguments
from fitgauge.services.tools.faces import OPTIONS, Tool
from fitgauge.services.tools.schemas import Fix, ToolAnswer, Value

LONGEST = 2_050
"""Characters of an answer as JSON: some 570 tokens."""

_PARTS = 3
"""Parts that are named; `other` holds the rest."""

_FIXES = 3
_READINGS = 3
_NAME = 60
_WARNINGS = 2
_SHOWN_ELSEWHERE = frozenset((
    "answered-from-snapshot", "other-memory-uncounted", "gpus-searched", "prices-dated",
    "speeds-estimated", "speeds-at-peak", "server-settings", "command-placeholders",
    "model-is-a-size", "context-length-assumed", "requests-queued", "checkpoint-loaded",
    "sharded-not-replicated", "activations-unverified", "architecture-unverified",
    "gpu-read-as", "model-read-as", "prices-unknown", "checkpoint-needed", "tool-defaults",
    "hub-counts-missing",
))  # fmt: skip
"""Codes of warnings that another field of a short answer shows, or that change no decision."""

_NOT_SET = re.compile(r"^`\w+` not set: assuming (?P<rest>.*?)\.?$", re.DOTALL)
_TWO_DECIMALS = re.compile(r"(?<![\d.])(\d[\d,]*\.\d{2})(?= GiB)")


def gib(size: int) -> float:
    """Return bytes as GiB with one decimal; two below 0.1."""
    value = round(size / 2**30, 1)
    return value or round(size / 2**30, 2)


def one_decimal(text: str) -> str:
    """Return a text with its GiB in one decimal, as the rest of the answer has them; those below
    0.1 as they are."""
    return _TWO_DECIMALS.sub(lambda match: _rounded(match[1]), text)


def _rounded(digits: str) -> str:
    size = float(digits.replace(",", ""))
    return f"{size:,.1f}" if size >= 0.1 else digits


def gpus(gpu: GpuAnswer) -> str:
    """Return "one RTX 4090", "4 x RTX 4090" or "RTX 4090 + RTX 3060 12GB"."""
    if "+" in gpu.id:
        return gpu.name
    return f"one {gpu.name}" if gpu.count == 1 else f"{gpu.count} x {gpu.name}"


def counted(name: str, count: int) -> str:
    """Return "2x L40S", as it can be sent."""
    return f"{count}x {name}"


def short_name(model: str) -> str:
    """Return a model's name without its owner."""
    return model.rpartition("/")[2] or model


def engine_title(name: object) -> str:
    """Return an engine's name as its makers write it."""
    for row in ENGINES.values():
        if row.name == name:
            return row.title
    return str(name)


def parts(terms: Sequence[TermAnswer], needs: float) -> dict[str, float]:
    """Return the largest terms; with `other` they add up to `needs`."""
    largest = sorted(terms, key=lambda term: -term.bytes)
    named = {term.name: gib(term.bytes) for term in largest[:_PARTS] if gib(term.bytes) >= 0.1}
    other = round(needs - sum(named.values()), 1)
    if other < 0 and named:  # rounding: the largest takes it
        first = next(iter(named))
        named[first] = round(named[first] + other, 1)
    return {**named, "other": other} if other > 0 else named


def assumed(
    rows: Iterable[Assumption], fields: Sequence[str] = (), without: Iterable[str] = ()
) -> list[str]:
    """Return what was assumed, in a few words each. fields: only these, in this order; all where
    empty. without: fields that were read as something already."""
    texts = {row.field: _assumption(row) for row in rows}
    for name in without:
        texts.pop(name, None)
    order = [name for name in fields if name in texts] if fields else list(texts)
    return [texts[name] for name in order]


def unrepeated(texts: Sequence[str]) -> list[str]:
    """Return the texts without those that one before says already."""
    return [text for at, text in enumerate(texts) if not any(text in one for one in texts[:at])]


def _assumption(row: Assumption) -> str:
    match = _NOT_SET.match(row.message)
    text = one_decimal(match["rest"] if match else row.message.rstrip("."))
    text = text.replace("; the model's maximum is ", ", of at most ")
    if row.field == "model":
        return text.partition(": assuming ")[2] or text
    return f"{row.field} {text}" if re.fullmatch(r"[\w.,+-]+", text) else text


def readings(rows: Iterable[Reading]) -> list[str]:
    """Return what was guessed of the names in a call, what else they may mean, and the verdicts of
    the others where one differs."""
    texts = []
    for row in rows:
        text = f"{row.field} {row.sent[:_NAME]} read as {row.taken}"
        if row.changes_verdict:
            others = [f"{name}: {verdict}" for name, verdict in row.verdicts.items()]
            text += f" ({'; '.join(others[:_READINGS])})"
        elif row.others:
            text += f", not {' or '.join(row.others[:_READINGS])}"
        texts.append(text)
    return texts


def number(understood: Mapping[str, object], name: str) -> int | UnsetType:
    """Return a whole number of a request with every default filled in."""
    value = understood.get(name)
    return value if isinstance(value, int) else UNSET


def shown_warnings(warnings: Iterable[Note]) -> list[str]:
    """Return the warnings that an agent must pass on."""
    notes = [note.message for note in warnings if note.code not in _SHOWN_ELSEWHERE]
    return [one_decimal(note) for note in notes[:_WARNINGS]]


def to_arguments(tool: Tool, fields: Mapping[str, Value], options: str = "") -> dict[str, Value]:
    """Return fields of a request as arguments of its tool: on the face, else in `options`, added to
    the options that were sent."""
    face = {OPTIONS, *(parameter.name for parameter in tool.parameters)}
    arguments = {name: value for name, value in fields.items() if name in face}
    rest = {name: value for name, value in fields.items() if name not in face}
    if rest:
        pairs = [f"{name}={_shown(value)}" for name, value in rest.items() if value != ""]
        arguments[OPTIONS] = ", ".join([*_without(options, fields), *pairs])
    return arguments


def _without(options: str, fields: Mapping[str, Value]) -> list[str]:
    """Return the pairs of `options` whose keys are not among the fields."""
    pairs = [pair.strip() for pair in re.split(r",\s*(?=[\w-]+\s*=)", options) if pair.strip()]
    return [pair for pair in pairs if pair.partition("=")[0].strip() not in fields]


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def fixes(tool: Tool, call: Arguments, suggestions: Sequence[Suggestion]) -> list[Fix]:
    """Return the changes that help, those that fit first."""
    order = sorted(suggestions, key=lambda one: one.verdict != "fits")
    return [
        Fix(
            change=one_decimal(one.change),
            arguments=to_arguments(tool, one.request, call.options),
            needs_gib=gib(one.required_bytes),
            verdict=one.verdict,
        )
        for one in order[:_FIXES]
    ]


_TRIMMED = ("options", "warnings", "fixes", "smallest", "assumed")
"""Lists that are cut where an answer is too long, the first first."""


def bounded(answer: ToolAnswer) -> ToolAnswer:
    """Cut the ends of lists until the answer is short enough; `more` counts the options cut."""
    while _length(answer) > LONGEST:
        name = next((name for name in _TRIMMED if _can_cut(answer, name)), None)
        if name is None:
            break
        rows = getattr(answer, name)
        setattr(answer, name, rows[:-1])
        if name == "options":
            answer.more = (answer.more or 0) + 1
    return answer


def _can_cut(answer: ToolAnswer, name: str) -> bool:
    rows = getattr(answer, name)
    return isinstance(rows, list) and len(rows) > 1


def _length(answer: ToolAnswer) -> int:
    return len(msgspec.json.encode(answer).decode())
