"""Intervals and probabilities of left-out campaigns in docs/ACCURACY.md, with the reliability
diagram docs/reliability.svg."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import mean

from accuracy import left_out
from accuracy.left_out import Judgement
from accuracy.table import table

Odds = dict[str, dict[str, float]]

BINS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.94, 0.96, 1.01)
"""Edges of the diagram's bins of probability."""

SIZE, EDGE = 260, 44
"""Of a panel of the diagram, and of the room around it, in pixels."""

PREFACE = """Every run is asked of a service that is calibrated on other campaigns alone: they are
dealt to six parts by a hash, each is left out once (`left_out.py`), and every campaign weighs the
same. *Terms alone*: the intervals that terms have by themselves. *Served*: with what
`engine/serving/doubt.py` adds, a share of all but the cache and a ceiling of the probability, by
whether this engine was measured on this class of GPU in the same releases, in others, or never
(0.04, 0.06 and 0.12; 0.97, 0.95 and 0.93; `measured` in `catalog/data/engines.json` says where).
Both halves of the campaigns gain by it: interval score, Brier score and log loss fall in each. A
doubt of what lies outside the engine's share gained nothing in one half, so there is none."""


def odds() -> Odds:
    """Return the figures of left-out campaigns, with and without the doubt."""
    return {
        "terms alone": left_out.figures(left_out.judgements(False)),
        "served": left_out.figures(left_out.judgements()),
    }


def section(odds: Odds) -> str:
    """Return the part of the page."""
    judgements = left_out.judgements()
    return "\n\n".join(
        (
            "## Campaigns left out",
            PREFACE,
            compared(odds),
            "![Reliability of probabilities by campaign, engine and GPU](reliability.svg)",
            "*held*: the share of runs that served what was asked; the diagram has a circle for"
            " every group, its area by its campaigns, against the mean probability.",
            groups("probability", binned, judgements),
            groups("engine", lambda one: one.run.engine, judgements),
            groups("GPU", lambda one: one.gpu, judgements),
            covered(judgements),
        )
    )


def compared(odds: Odds) -> str:
    """Return what must be reached, with and without the doubt."""
    before, after = odds["terms alone"], odds["served"]
    rows: list[tuple[object, ...]] = [
        ("needs within their 90 % interval, %", "85 to 97", "coverage"),
        ("the same, every campaign alike, %", "85 to 97", "coverage_by_campaign"),
        ("width of the interval, median share of the need, %", "at most 12", "width"),
        ("Brier score of the probability", "no worse", "brier"),
        ("log loss of the probability", "no worse", "log_loss"),
        ("`fits` (0.9 or more)", "", "sure"),
        ("of these held", "", "sure_held"),
        ("highest probability", "", "highest"),
    ]
    body = [(words, wanted, before[str(key)], after[str(key)]) for words, wanted, key in rows]
    counted = (
        f"{after['runs']:g} needs of {after['campaigns']:g} campaigns, {after['judged']:g} outcomes"
        f" of {after['judged_campaigns']:g}."
    )
    return table(("figure", "must be", "terms alone", "served"), list(body)) + f"\n\n{counted}"


def binned(one: Judgement) -> str:
    """Return the bin of a probability in words."""
    number = max(index for index, edge in enumerate(BINS) if edge <= one.probability)
    return f"{BINS[number]:g} to {min(1.0, BINS[number + 1]):g}"


def grouped(
    group: Callable[[Judgement], str], judgements: Sequence[Judgement]
) -> list[tuple[str, list[Judgement]]]:
    """Return the judged runs of every group, by its name."""
    groups_ = defaultdict(list)
    for one in judgements:
        if one.held is not None:
            groups_[group(one)].append(one)
    return sorted(groups_.items())


def groups(name: str, group: Callable[[Judgement], str], judgements: Sequence[Judgement]) -> str:
    """Return a row for every group: its runs and campaigns, what was said and what came of it."""
    rows: list[tuple[object, ...]] = [
        (
            words,
            len(ones),
            len({one.run.campaign for one in ones}),
            f"{left_out.by_campaign(ones, lambda one: one.probability):.2f}",
            f"{left_out.by_campaign(ones, lambda one: bool(one.held)):.2f}",
            f"{left_out.by_campaign(ones, lambda one: one.brier):.3f}",
        )
        for words, ones in grouped(group, judgements)
    ]
    return table((name, "runs", "campaigns", "mean probability", "held", "Brier score"), rows)


def covered(judgements: Sequence[Judgement]) -> str:
    """Return how many needs of every campaign lie within their interval."""
    by_campaign = defaultdict(list)
    for one in judgements:
        if one.need is not None:
            by_campaign[one.run.campaign].append(bool(one.covered))
    rows: list[tuple[object, ...]] = [
        (campaign, len(ones), sum(ones)) for campaign, ones in sorted(by_campaign.items())
    ]
    return table(("campaign", "needs", "within the interval"), rows)


def diagram() -> str:
    """Return the reliability diagram as SVG: a panel each by probability, engine and GPU."""
    judgements = left_out.judgements()
    panels = (
        ("by probability", grouped(binned, judgements)),
        ("by engine", grouped(lambda one: one.run.engine, judgements)),
        ("by GPU", grouped(lambda one: one.gpu, judgements)),
    )
    width, height = len(panels) * (SIZE + EDGE) + EDGE, SIZE + 2 * EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, (title, by_group) in enumerate(panels):
        lines += panel(title, by_group, EDGE + number * (SIZE + EDGE), EDGE)
    return "\n".join([*lines, "</svg>", ""])


def panel(title: str, points: list[tuple[str, list[Judgement]]], left: int, top: int) -> list[str]:
    """Return one panel: mean probability to the right, share that held upwards, a circle a
    group."""
    right, bottom = left + SIZE, top + SIZE
    lines = [
        f'<text x="{left}" y="{top - 12}" font-size="13">{title}</text>',
        f'<rect x="{left}" y="{top}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#999"/>',
        f'<line x1="{left}" y1="{bottom}" x2="{right}" y2="{top}" stroke="#bbb"'
        ' stroke-dasharray="4 4"/>',
        f'<text x="{left}" y="{bottom + 28}">mean probability; upwards: held</text>',
    ]
    for tick in (0.0, 0.5, 1.0):
        lines += [
            f'<text x="{left + tick * SIZE - 6:.0f}" y="{bottom + 14}">{tick:g}</text>',
            f'<text x="{left - 20}" y="{bottom - tick * SIZE + 4:.0f}">{tick:g}</text>',
        ]
    for words, ones in points:
        mean_odds = mean(one.probability for one in ones)
        held = mean(bool(one.held) for one in ones)
        radius = 3 + len({one.run.campaign for one in ones}) ** 0.5
        x, y = left + mean_odds * SIZE, bottom - held * SIZE
        lines += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="#4477aa" opacity="0.6">'
            f"<title>{words}: {len(ones)} runs</title></circle>"
        ]
    return lines
