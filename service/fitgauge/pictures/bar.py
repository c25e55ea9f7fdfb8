"""The picture of one answer: the verdict, and what takes the memory of the fullest GPU against
what may be used."""

from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

from fitgauge.engine.quantity import GIB
from fitgauge.pictures.drawing import (
    BAR,
    LEFT,
    PALETTES,
    PARTS,
    WIDTH,
    Palette,
    Theme,
    document,
    gib,
    label,
    shortened,
    whole,
)
from fitgauge.pictures.geometry import Segment, marks, segments
from fitgauge.pictures.texts import Language, text
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.training_fit.schemas import TrainingAnswer

_BAR_TOP = 168
_BAR_HEIGHT = 52
_LEGEND_TOP = 276
_LEGEND_COLUMNS = 3
_LEGEND_ROW = 32
_MOST_PARTS = 9
"""Parts in the legend; the rest are one."""
_LONGEST_TITLE = 58
_LEAST_LISTED = GIB // 200


def bar_svg(
    answer: FitAnswer | TrainingAnswer, theme: Theme = "light", language: Language = "en"
) -> str:
    """Return the picture. An answer without a GPU is drawn as what each format or method needs."""
    palette = PALETTES[theme]
    body = [*_heading(answer, palette, language)]
    if answer.per_gpu is not None and answer.terms:
        body += _bar(answer, palette, language)
        rows = -(-min(len(_listed(answer)), _MOST_PARTS) // _LEGEND_COLUMNS)
        height = _LEGEND_TOP + rows * _LEGEND_ROW + 40
    else:
        body += _needs(answer, palette)
        height = _BAR_TOP + max(1, len(answer.needs)) * 40 + 24
    return document("".join(body), height, answer.summary, palette)


def _heading(
    answer: FitAnswer | TrainingAnswer, palette: Palette, language: Language
) -> Iterator[str]:
    verdict = answer.verdict or "needs"
    colour = palette.of(answer.verdict)
    name = answer.model.id
    if answer.gpu is not None:
        name = f"{name} · {answer.gpu.count} × {answer.gpu.name}"
    yield label(LEFT, 56, shortened(name, _LONGEST_TITLE), palette.ink, 28)
    yield label(LEFT, 100, text(language, verdict), colour, 26)
    yield label(WIDTH - LEFT, 100, _load(answer, language), palette.dim, 20, anchor="end")
    if answer.per_gpu is None:
        return
    need = text(
        language,
        "need",
        need=gib(answer.per_gpu.required_bytes.expected),
        available=gib(_available(answer)),
    )
    if answer.fit_probability is not None:
        need += f" · {text(language, 'likely', percent=_percent(answer.fit_probability))}"
    yield label(LEFT, 132, need, palette.ink, 20)


def _load(answer: FitAnswer | TrainingAnswer, language: Language) -> str:
    understood = answer.understood_as
    if isinstance(answer, TrainingAnswer):
        sequence, batch = understood.get("sequence_length"), understood.get("micro_batch_size")
        return text(language, "step", sequence=whole(sequence), batch=batch)
    context, concurrency = understood.get("context_length"), understood.get("concurrency")
    return text(language, "load", context=whole(context), concurrency=concurrency)


def _bar(answer: FitAnswer | TrainingAnswer, palette: Palette, language: Language) -> Iterator[str]:
    assert answer.per_gpu is not None
    assert answer.terms is not None
    required, available = answer.per_gpu.required_bytes, _available(answer)
    at = marks(required, available)
    yield _rect(0, 1, _BAR_TOP, _BAR_HEIGHT, palette.track)
    for part in segments(answer.terms, required, available):
        yield _rect(part.left, part.width, _BAR_TOP, _BAR_HEIGHT, PARTS[part.colour], part.name)
    if at.expected > at.capacity:
        x, width = LEFT + BAR * at.capacity, BAR * (at.expected - at.capacity)
        yield (
            f'<rect class="beyond" x="{x:.2f}" y="{_BAR_TOP}" width="{width:.2f}"'
            f' height="{_BAR_HEIGHT}" fill="none" stroke="{palette.refused}" stroke-width="3"'
            ' stroke-dasharray="7 5"/>'
        )
    yield _rect(at.low, at.high - at.low, _BAR_TOP + _BAR_HEIGHT + 4, 5, palette.dim)
    x = LEFT + BAR * at.capacity
    yield (
        f'<line class="capacity" x1="{x:.2f}" x2="{x:.2f}" y1="{_BAR_TOP - 10}"'
        f' y2="{_BAR_TOP + _BAR_HEIGHT + 12}" stroke="{palette.ink}" stroke-width="3"/>'
    )
    available_text = text(language, "available", available=gib(available))
    anchor = "end" if at.capacity > 0.5 else "start"
    yield label(x, _BAR_TOP + _BAR_HEIGHT + 32, available_text, palette.ink, 18, anchor=anchor)
    interval = text(language, "interval", low=gib(required.low), high=gib(required.high))
    other = (WIDTH - LEFT, "end") if anchor == "start" else (LEFT, "start")
    yield label(other[0], _BAR_TOP + _BAR_HEIGHT + 32, interval, palette.dim, 18, anchor=other[1])
    yield from _legend(_listed(answer), palette, language)


def _listed(answer: FitAnswer | TrainingAnswer) -> list[Segment]:
    """Return the parts that the legend names."""
    assert answer.per_gpu is not None
    parts = segments(answer.terms or [], answer.per_gpu.required_bytes, _available(answer))
    return [part for part in parts if part.size >= _LEAST_LISTED]


def _legend(parts: list[Segment], palette: Palette, language: Language) -> Iterator[str]:
    shown = parts if len(parts) <= _MOST_PARTS else parts[: _MOST_PARTS - 1]
    rest = sum(part.size for part in parts[len(shown) :])
    lines = [(PARTS[part.colour], text(language, part.name), part.size) for part in shown]
    if rest:
        lines.append((palette.track, text(language, "other"), rest))
    for index, (colour, name, size) in enumerate(lines):
        row, column = divmod(index, _LEGEND_COLUMNS)
        x = LEFT + column * BAR // _LEGEND_COLUMNS
        y = _LEGEND_TOP + row * _LEGEND_ROW
        yield f'<rect x="{x}" y="{y}" width="16" height="16" fill="{colour}"/>'
        yield label(x + 26, y + 14, f"{name} {gib(size)}", palette.ink, 18)


def _needs(answer: FitAnswer | TrainingAnswer, palette: Palette) -> Iterator[str]:
    """Draw what each format or method needs in all."""
    largest = max((need.required_bytes.expected for need in answer.needs), default=1)
    for index, need in enumerate(answer.needs):
        y, size = _BAR_TOP + index * 40, need.required_bytes.expected
        yield label(LEFT, y + 20, need.name, palette.ink, 18)
        width = (BAR - 300) * size / largest
        yield f'<rect x="{LEFT + 130}" y="{y}" width="{width:.2f}" height="26" fill="#3b6fb6"/>'
        yield label(LEFT + 142 + width, y + 20, f"{gib(size)}", palette.ink, 18)


def _available(answer: FitAnswer | TrainingAnswer) -> int:
    """Return what the engine may use of the GPU, or training the whole of it [bytes]."""
    assert answer.per_gpu is not None
    if isinstance(answer, FitAnswer):
        return answer.per_gpu.budget_bytes
    return answer.per_gpu.usable_bytes


def _rect(left: float, width: float, y: int, height: int, fill: str, name: str = "") -> str:
    term = f" data-term={quoteattr(name)}" if name else ""
    return (
        f'<rect x="{LEFT + BAR * left:.2f}" y="{y}" width="{BAR * width:.2f}"'
        f' height="{height}" fill="{fill}"{term}/>'
    )


def _percent(probability: float) -> str:
    """Return a probability as the page writes it (web/format.js)."""
    if probability > 0.99:
        return "> 99 %"
    return "< 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"
