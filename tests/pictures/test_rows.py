"""The pictures of lists: every row's bar, line and figures are those of its answer."""

import asyncio
import xml.etree.ElementTree as ElementTree

import pytest

from bundled_models import shared_questions
from fitgauge.engine.quantity import GIB, Bytes
from fitgauge.pictures.drawing import BAR, LEFT, WIDTH, gib
from fitgauge.pictures.rows import MOST_ROWS, Row, compare_svg, recommend_svg, rows_svg
from fitgauge.pictures.texts import TEXTS
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.recommend.schemas import RecommendRequest

SVG = "{http://www.w3.org/2000/svg}"
TABLE = CompareRequest(models="Qwen/Qwen3-32B", gpus="RTX 4090, H100", quantizations="bf16, awq")
HOSTILE = '<script>alert("x")</script>&amp;'


@pytest.fixture(scope="module")
def table():
    return asyncio.run(shared_questions().compare_page(TABLE))


@pytest.fixture(scope="module")
def options():
    question = RecommendRequest(model="Qwen/Qwen3-8B", gpus="2x RTX 4090, H100, L4")
    return asyncio.run(shared_questions().recommend_gpus(question))


def parts(svg, name):
    """Return the places of the rectangles of a class: (x, width, y)."""
    return [
        tuple(float(rect.get(key)) for key in ("x", "width", "y"))
        for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect")
        if rect.get("class") == name
    ]


def texts(svg):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def lines(svg):
    return [
        (float(line.get("x1")), float(line.get("y1")))
        for line in ElementTree.fromstring(svg).iter(f"{SVG}line")
    ]


def check_rows(svg, rows, available):
    """Assert the facts of every row: its bar ends where its bytes do."""
    bars, capacities = parts(svg, "need"), lines(svg)
    assert len(bars) == len(capacities) == len(rows)
    assert len({x for x, _ in capacities}) == 1
    at = capacities[0][0] - LEFT
    for (x, width, y), (_, top), row in zip(bars, capacities, rows, strict=True):
        share = row.required_bytes.expected / available(row)
        assert x == LEFT
        assert width == pytest.approx(min(share * at, BAR), abs=0.02)
        assert top < y
        assert any(gib(row.required_bytes.expected) in text for text in texts(svg))
    assert [y for *_, y in bars] == sorted(y for *_, y in bars)


def test_a_table_draws_every_row_against_one_line(table):
    svg = compare_svg(table)
    check_rows(svg, table.items, lambda row: row.budget_bytes)
    beyond = [row for row in table.items if row.headroom_bytes < 0]
    assert len(parts(svg, "beyond")) == len(beyond) > 0
    for verdict in {row.verdict for row in table.items}:
        count = sum(row.verdict == verdict for row in table.items)
        assert texts(svg).count(TEXTS["en"][verdict]) == count


def test_the_title_is_what_all_rows_have_in_common(table):
    title, _, first, *_ = texts(compare_svg(table))
    assert title.startswith("Qwen/Qwen3-32B")
    assert "8,192 tokens" in title
    assert first == "1 × RTX 4090 · bf16"


def test_options_are_drawn_with_their_speed_and_price(options):
    svg = recommend_svg(options)
    check_rows(svg, options.options, lambda row: row.budget_bytes)
    shown = " ".join(texts(svg))
    for option in options.options:
        assert f"{option.gpu.count} × {option.gpu.name}" in shown
        assert f"{option.decode.tokens_per_second.expected:,.0f} tokens/s" in shown
        if option.cost is not None:
            assert f"{option.cost.usd_per_hour_low:.2f} USD/h" in shown


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_is_within_the_picture(table, options, theme, language):
    for svg in (compare_svg(table, theme, language), recommend_svg(options, theme, language)):
        root = ElementTree.fromstring(svg)
        for node in root.iter(f"{SVG}text"):
            content = "".join(node.itertext())
            width = sum(1.0 if ord(letter) > 0x2E80 else 0.6 for letter in content)
            width *= float(node.get("font-size"))
            x = float(node.get("x"))
            left = x - width if node.get("text-anchor") == "end" else x
            assert left >= 0, content
            assert left + width <= WIDTH, content
            assert float(node.get("y")) <= float(root.get("height"))


def test_long_and_hostile_names_stay_short_text():
    size = Bytes(low=GIB, expected=2 * GIB, high=3 * GIB)
    rows = [
        Row(HOSTILE * 9, HOSTILE * 9, "fits", size, 4 * GIB),
        Row("x", HOSTILE, None, None, None),
    ]
    root = ElementTree.fromstring(rows_svg(HOSTILE, rows, 2, "light", "en"))
    assert not list(root.iter(f"{SVG}script"))
    assert max(len(text) for text in texts(ElementTree.tostring(root))) <= 80


def test_what_needs_far_more_ends_with_the_picture():
    size = Bytes(low=9 * GIB, expected=9 * GIB, high=9 * GIB)
    svg = rows_svg("far", [Row("x", "", "does_not_fit", size, GIB)], 1, "light", "en")
    ((x, width, _),) = parts(svg, "beyond")
    assert x + width == LEFT + BAR
    assert "»" in texts(svg)


def test_rows_beyond_the_picture_are_a_number(table):
    table.total = MOST_ROWS + 1000
    assert f"and {table.total - len(table.items):,} more" in texts(compare_svg(table))


def test_a_list_of_nothing_says_so():
    assert TEXTS["zh"]["nothing"] in texts(rows_svg("x", [], 0, "dark", "zh"))
