"""The picture of a list: what each row needs of its GPU, all against one capacity line."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fitgauge.engine.quantity import Bytes
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
from fitgauge.pictures.texts import Language, text
from fitgauge.services.compare.schemas import CompareAnswer, CompareRow
from fitgauge.services.recommend.option_schemas import Recommendation, TrainingRecommendation
from fitgauge.services.recommend.schemas import RecommendAnswer

MOST_ROWS = 12
"""Rows of a picture; the rest are a number."""
_ROWS_TOP = 132
_ROW = 104
_BAR_HEIGHT = 22
_LONGEST_TITLE = 58
_LONGEST_LABEL = 64
_LONGEST_DETAIL = 80
_WIDEST = 2.0
"""The longest bar, in capacities; what needs more is drawn as long."""


class Row(NamedTuple):
    """One row of a list."""

    label: str
    """What it is."""

    detail: str
    """What else is known of it."""

    verdict: str | None
    """Its verdict; None where it has no answer."""

    required: Bytes | None
    """Memory of the fullest GPU; None where it is not known."""

    available: int | None
    """What may be used of that GPU [bytes]; None likewise."""


def compare_svg(answer: CompareAnswer, theme: Theme = "light", language: Language = "en") -> str:
    """Return the picture of a table: above, what all rows have in common."""
    items = answer.items[:MOST_ROWS]
    facts = [_facts(row, language) for row in items]
    answered = [names for names, row in zip(facts, items, strict=True) if row.error is None]
    common = (
        [one for one in answered[0] if all(one in all_ for all_ in answered)] if answered else []
    )
    differing = [[one for one in row if one not in common] for row in facts]
    rows = [
        Row(
            label=" · ".join(different or common),
            detail=row.error.detail if row.error else "",
            verdict=row.verdict,
            required=row.required_bytes,
            available=row.budget_bytes,
        )
        for row, different in zip(items, differing, strict=True)
    ]
    title = " · ".join(common) or text(language, "compare")
    return rows_svg(title, rows, answer.total, theme, language)


def recommend_svg(
    answer: RecommendAnswer, theme: Theme = "light", language: Language = "en"
) -> str:
    """Return the picture of the options."""
    rows = [
        *(_serving_row(option, language) for option in answer.options),
        *(_training_row(option, language) for option in answer.training_options),
    ]
    title = text(language, "recommend", model=answer.model.id)
    return rows_svg(title, rows, len(rows), theme, language)


def rows_svg(title: str, rows: Sequence[Row], total: int, theme: Theme, language: Language) -> str:
    """Return a picture of rows. total: of the whole list."""
    palette = PALETTES[theme]
    scale = min(max((_share(row) for row in rows), default=1.0), _WIDEST)
    body = [
        label(LEFT, 56, shortened(title, _LONGEST_TITLE), palette.ink, 28),
        label(LEFT, 88, text(language, "line"), palette.dim, 18),
    ]
    for index, row in enumerate(rows):
        body += _row(row, _ROWS_TOP + index * _ROW, scale, palette, language)
    height = _ROWS_TOP + len(rows) * _ROW
    if not rows:
        body.append(label(LEFT, height, text(language, "nothing"), palette.ink, 20))
        height += 40
    if total > len(rows):
        more = text(language, "more", count=whole(total - len(rows)))
        body.append(label(LEFT, height, more, palette.dim, 18))
        height += 40
    return document("".join(body), height, title, palette)


def _facts(row: CompareRow, language: Language) -> list[str]:
    """Return what identifies a row of a table, the widest first."""
    gpus = row.gpu if row.gpu_count is None else f"{row.gpu_count} × {row.gpu}"
    if row.context_length is None:
        load = []
    else:
        load = [
            text(language, "load", context=whole(row.context_length), concurrency=row.concurrency)
        ]
    return [row.model, gpus, *filter(None, (row.quantization, row.engine)), *load]


def _serving_row(option: Recommendation, language: Language) -> Row:
    decode = option.decode
    speed = decode.tokens_per_second if decode else None
    facts = [*_roles(option.roles, language), option.quantization, option.engine]
    if speed is not None:
        facts.append(text(language, "speed", tokens=whole(round(speed.expected))))
    return Row(
        label=f"{option.gpu.count} × {option.gpu.name}",
        detail=" · ".join(dict.fromkeys([*facts, *_price(option, language)])),
        verdict=option.verdict,
        required=option.required_bytes,
        available=option.budget_bytes,
    )


def _training_row(option: TrainingRecommendation, language: Language) -> Row:
    facts = [*_roles(option.roles, language), option.method, option.framework]
    return Row(
        label=f"{option.gpu.count} × {option.gpu.name}",
        detail=" · ".join(dict.fromkeys([*facts, *_price(option, language)])),
        verdict=option.verdict,
        required=option.required_bytes,
        available=option.usable_bytes,
    )


def _roles(roles: Iterable[str], language: Language) -> list[str]:
    return [text(language, role) for role in roles]


def _price(option: Recommendation | TrainingRecommendation, language: Language) -> list[str]:
    cost = option.cost
    return [] if cost is None else [text(language, "price", usd=f"{cost.usd_per_hour_low:.2f}")]


def _share(row: Row) -> float:
    """Return what a row needs at most, in capacities of its GPU."""
    if row.required is None or not row.available:
        return 1.0
    return max(1.0, row.required.high / row.available)


def _row(row: Row, y: int, scale: float, palette: Palette, language: Language) -> Iterator[str]:
    """Draw one row. scale: capacities from end to end of a bar."""
    yield label(LEFT, y, shortened(row.label, _LONGEST_LABEL), palette.ink, 20)
    verdict = text(language, row.verdict or "unanswered")
    yield label(WIDTH - LEFT, y, verdict, palette.of(row.verdict or "unanswered"), 20, anchor="end")
    detail = shortened(row.detail, _LONGEST_DETAIL)
    if row.required is None or not row.available:
        yield label(LEFT, y + 28, detail, palette.dim, 18)
        return
    below = y + 12 + _BAR_HEIGHT + 24
    yield label(LEFT, below, detail, palette.dim, 18)
    at, top = BAR / scale, y + 12
    need = text(language, "of", need=gib(row.required.expected), available=gib(row.available))
    yield label(WIDTH - LEFT, below, need, palette.ink, 18, anchor="end")
    width = min(row.required.expected / row.available, scale) * at
    yield _bar(LEFT, BAR, top, f'fill="{palette.track}"')
    yield _bar(LEFT, width, top, f'fill="{PARTS[0]}" class="need"')
    if width > at:
        yield _bar(LEFT + at, width - at, top, f'fill="{palette.refused}" class="beyond"')
    if row.required.expected > scale * row.available:
        yield label(WIDTH - LEFT - 6, top + 17, "»", palette.back, 20, anchor="end")
    low, high = (
        min(size / row.available, scale) * at for size in (row.required.low, row.required.high)
    )
    yield (
        f'<rect class="interval" x="{LEFT + low:.2f}" y="{top + _BAR_HEIGHT + 2}"'
        f' width="{high - low:.2f}" height="3" fill="{palette.dim}"/>'
    )
    yield (
        f'<line class="capacity" x1="{LEFT + at:.2f}" x2="{LEFT + at:.2f}" y1="{top - 5}"'
        f' y2="{top + _BAR_HEIGHT + 7}" stroke="{palette.ink}" stroke-width="3"/>'
    )


def _bar(x: float, width: float, y: int, rest: str) -> str:
    return f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_BAR_HEIGHT}" {rest}/>'
