"""The picture of one answer: the verdict, and what takes the memory of the fullest GPU against
what may be used."""

from collections.abc import Iterator
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from fitgauge.engine.quantity import GIB
from fitgauge.pictures.geometry import Segment, marks, segments
from fitgauge.pictures.texts import Language, text
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.training_fit.schemas import TrainingAnswer

Theme = Literal["light", "dark"]

WIDTH = 960
_LEFT = 40
_BAR = WIDTH - 2 * _LEFT
_BAR_TOP = 168
_BAR_HEIGHT = 52
_LEGEND_TOP = 276
_LEGEND_COLUMNS = 3
_LEGEND_ROW = 32
_MOST_PARTS = 9
"""Parts in the legend; the rest are one."""
_LONGEST_TITLE = 58
_LEAST_LISTED = GIB // 200
_PARTS = ("#3b6fb6", "#d98032", "#4f9d69", "#9467bd", "#c0504d", "#8c7a5b", "#3aa6a6", "#888e96")


class Palette(NamedTuple):
    """The colours of a theme."""

    back: str
    """Ground."""
    ink: str
    """Text and the capacity line."""
    dim: str
    """Text of less weight, and the interval."""
    track: str
    """What is left of the memory."""
    fits: str
    """Verdict `fits`."""
    tight: str
    """Verdict `tight`."""
    refused: str
    """The other verdicts, and what passes the capacity line."""


_PALETTES: dict[Theme, Palette] = {
    "light": Palette("#ffffff", "#1c2024", "#545b64", "#e9ebee", "#1b6e3c", "#8a5300", "#b02a2a"),
    "dark": Palette("#15181c", "#e8eaed", "#a5adb6", "#2a2f36", "#7ed79c", "#f2bd5b", "#ff9c93"),
}


def bar_svg(
    answer: FitAnswer | TrainingAnswer, theme: Theme = "light", language: Language = "en"
) -> str:
    """Return the picture. An answer without a GPU is drawn as what each format or method needs."""
    palette = _PALETTES[theme]
    body = [*_heading(answer, palette, language)]
    if answer.per_gpu is not None and answer.terms:
        body += _bar(answer, palette, language)
        rows = -(-min(len(_listed(answer)), _MOST_PARTS) // _LEGEND_COLUMNS)
        height = _LEGEND_TOP + rows * _LEGEND_ROW + 40
    else:
        body += _needs(answer, palette)
        height = _BAR_TOP + max(1, len(answer.needs)) * 40 + 24
    title = escape(answer.summary)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" role="img" font-family="Noto Sans CJK SC, sans-serif">'
        f"<title>{title}</title>"
        f'<rect width="{WIDTH}" height="{height}" fill="{palette.back}"/>{"".join(body)}</svg>'
    )


def _heading(
    answer: FitAnswer | TrainingAnswer, palette: Palette, language: Language
) -> Iterator[str]:
    verdict = answer.verdict or "needs"
    colour = {"fits": palette.fits, "tight": palette.tight}.get(
        verdict, palette.ink if verdict == "needs" else palette.refused
    )
    name = answer.model.id
    if answer.gpu is not None:
        name = f"{name} · {answer.gpu.count} × {answer.gpu.name}"
    if len(name) > _LONGEST_TITLE:
        name = f"{name[: _LONGEST_TITLE - 1]}…"
    yield _text(_LEFT, 56, name, palette.ink, 28)
    yield _text(_LEFT, 100, text(language, verdict), colour, 26)
    yield _text(WIDTH - _LEFT, 100, _load(answer, language), palette.dim, 20, anchor="end")
    if answer.per_gpu is None:
        return
    need = text(
        language,
        "need",
        need=_gib(answer.per_gpu.required_bytes.expected),
        available=_gib(_available(answer)),
    )
    if answer.fit_probability is not None:
        need += f" · {text(language, 'likely', percent=_percent(answer.fit_probability))}"
    yield _text(_LEFT, 132, need, palette.ink, 20)


def _load(answer: FitAnswer | TrainingAnswer, language: Language) -> str:
    understood = answer.understood_as
    if isinstance(answer, TrainingAnswer):
        sequence, batch = understood.get("sequence_length"), understood.get("micro_batch_size")
        return text(language, "step", sequence=_whole(sequence), batch=batch)
    context, concurrency = understood.get("context_length"), understood.get("concurrency")
    return text(language, "load", context=_whole(context), concurrency=concurrency)


def _bar(answer: FitAnswer | TrainingAnswer, palette: Palette, language: Language) -> Iterator[str]:
    assert answer.per_gpu is not None
    assert answer.terms is not None
    required, available = answer.per_gpu.required_bytes, _available(answer)
    at = marks(required, available)
    yield _rect(0, 1, _BAR_TOP, _BAR_HEIGHT, palette.track)
    for part in segments(answer.terms, required, available):
        yield _rect(part.left, part.width, _BAR_TOP, _BAR_HEIGHT, _PARTS[part.colour], part.name)
    if at.expected > at.capacity:
        x, width = _LEFT + _BAR * at.capacity, _BAR * (at.expected - at.capacity)
        yield (
            f'<rect class="beyond" x="{x:.2f}" y="{_BAR_TOP}" width="{width:.2f}"'
            f' height="{_BAR_HEIGHT}" fill="none" stroke="{palette.refused}" stroke-width="3"'
            ' stroke-dasharray="7 5"/>'
        )
    yield _rect(at.low, at.high - at.low, _BAR_TOP + _BAR_HEIGHT + 4, 5, palette.dim)
    x = _LEFT + _BAR * at.capacity
    yield (
        f'<line class="capacity" x1="{x:.2f}" x2="{x:.2f}" y1="{_BAR_TOP - 10}"'
        f' y2="{_BAR_TOP + _BAR_HEIGHT + 12}" stroke="{palette.ink}" stroke-width="3"/>'
    )
    label = text(language, "available", available=_gib(available))
    anchor = "end" if at.capacity > 0.5 else "start"
    yield _text(x, _BAR_TOP + _BAR_HEIGHT + 32, label, palette.ink, 18, anchor=anchor)
    interval = text(language, "interval", low=_gib(required.low), high=_gib(required.high))
    other = (WIDTH - _LEFT, "end") if anchor == "start" else (_LEFT, "start")
    yield _text(other[0], _BAR_TOP + _BAR_HEIGHT + 32, interval, palette.dim, 18, anchor=other[1])
    yield from _legend(_listed(answer), palette, language)


def _listed(answer: FitAnswer | TrainingAnswer) -> list[Segment]:
    """Return the parts that the legend names."""
    assert answer.per_gpu is not None
    parts = segments(answer.terms or [], answer.per_gpu.required_bytes, _available(answer))
    return [part for part in parts if part.size >= _LEAST_LISTED]


def _legend(parts: list[Segment], palette: Palette, language: Language) -> Iterator[str]:
    shown = parts if len(parts) <= _MOST_PARTS else parts[: _MOST_PARTS - 1]
    rest = sum(part.size for part in parts[len(shown) :])
    lines = [(_PARTS[part.colour], text(language, part.name), part.size) for part in shown]
    if rest:
        lines.append((palette.track, text(language, "other"), rest))
    for index, (colour, name, size) in enumerate(lines):
        row, column = divmod(index, _LEGEND_COLUMNS)
        x = _LEFT + column * _BAR // _LEGEND_COLUMNS
        y = _LEGEND_TOP + row * _LEGEND_ROW
        yield f'<rect x="{x}" y="{y}" width="16" height="16" fill="{colour}"/>'
        yield _text(x + 26, y + 14, f"{name} {_gib(size)}", palette.ink, 18)


def _needs(answer: FitAnswer | TrainingAnswer, palette: Palette) -> Iterator[str]:
    """Draw what each format or method needs in all."""
    largest = max((need.required_bytes.expected for need in answer.needs), default=1)
    for index, need in enumerate(answer.needs):
        y, size = _BAR_TOP + index * 40, need.required_bytes.expected
        yield _text(_LEFT, y + 20, need.name, palette.ink, 18)
        width = (_BAR - 300) * size / largest
        yield f'<rect x="{_LEFT + 130}" y="{y}" width="{width:.2f}" height="26" fill="#3b6fb6"/>'
        yield _text(_LEFT + 142 + width, y + 20, f"{_gib(size)}", palette.ink, 18)


def _available(answer: FitAnswer | TrainingAnswer) -> int:
    """Return what the engine may use of the GPU, or training the whole of it [bytes]."""
    assert answer.per_gpu is not None
    if isinstance(answer, FitAnswer):
        return answer.per_gpu.budget_bytes
    return answer.per_gpu.usable_bytes


def _rect(left: float, width: float, y: int, height: int, fill: str, name: str = "") -> str:
    label = f" data-term={quoteattr(name)}" if name else ""
    return (
        f'<rect x="{_LEFT + _BAR * left:.2f}" y="{y}" width="{_BAR * width:.2f}"'
        f' height="{height}" fill="{fill}"{label}/>'
    )


def _text(x: float, y: float, content: str, fill: str, size: int, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.2f}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def _percent(probability: float) -> str:
    """Return a probability as the page writes it (web/format.js)."""
    if probability > 0.99:
        return "> 99 %"
    return "< 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= 10 * GIB else f"{size / GIB:.2f} GiB"


def _whole(number: object) -> str:
    return f"{number:,}" if isinstance(number, int) else str(number)
