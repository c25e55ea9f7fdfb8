"""The picture of an answer: what is drawn is what the answer says."""

import asyncio
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bundled_models import shared_questions
from fitgauge.engine.quantity import GIB
from fitgauge.pictures.bar import WIDTH, bar_svg
from fitgauge.pictures.png import png
from fitgauge.pictures.texts import TEXTS
from fitgauge.services.common.schemas import FitRequest
from pictures import answer_svg

FITS = FitRequest(model="Qwen/Qwen3-8B", gpu="RTX 4090")
DOES_NOT_FIT = FitRequest(model="Qwen/Qwen3-32B", gpu="RTX 4090")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert("x")</script>&amp;'


def answered(request):
    return asyncio.run(shared_questions().check_fit(request))[1]


def drawn(request, **style):
    answer = answered(request)
    return answer, ElementTree.fromstring(bar_svg(answer, **style))


def rectangles(root):
    return {
        rect.get("data-term"): (float(rect.get("x")), float(rect.get("width")))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("data-term")
    }


@pytest.mark.parametrize("request_", [FITS, DOES_NOT_FIT])
def test_the_parts_stand_side_by_side_and_are_as_wide_as_their_bytes(request_):
    answer, root = drawn(request_)
    whole = max(answer.per_gpu.required_bytes.high, answer.per_gpu.budget_bytes)
    scale = (WIDTH - 80) / whole
    x = 40.0
    for term in answer.terms:
        if term.bytes:
            left, width = rectangles(root)[term.name]
            assert left == pytest.approx(x, abs=0.02)
            assert width == pytest.approx(scale * term.bytes, abs=0.02)
            x += scale * term.bytes
    assert x == pytest.approx(40 + scale * answer.per_gpu.required_bytes.expected, abs=0.1)
    (line,) = root.iter(f"{SVG}line")
    assert float(line.get("x1")) == pytest.approx(40 + scale * answer.per_gpu.budget_bytes, abs=0.1)


def test_only_what_does_not_fit_passes_the_line():
    beyond = [
        [one for one in drawn(request)[1].iter(f"{SVG}rect") if one.get("class") == "beyond"]
        for request in (FITS, DOES_NOT_FIT)
    ]
    assert [len(rects) for rects in beyond] == [0, 1]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_is_within_the_picture_and_says_the_answers_figures(language, theme):
    answer, root = drawn(FITS, language=language, theme=theme)
    texts = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    need = answer.per_gpu.required_bytes.expected / GIB
    assert any(f"{need:.1f} GiB" in text for text in texts)
    assert TEXTS[language]["fits"] in texts
    for node in root.iter(f"{SVG}text"):
        content = "".join(node.itertext())
        width = sum(1.0 if ord(letter) > 0x2E80 else 0.6 for letter in content)
        width *= float(node.get("font-size"))
        x = float(node.get("x"))
        left = x - width if node.get("text-anchor") == "end" else x
        assert left >= 0, content
        assert left + width <= WIDTH, content


def test_a_hostile_name_stays_text():
    answer = answered(FITS)
    answer.model.id = HOSTILE
    root = ElementTree.fromstring(bar_svg(answer))
    assert not list(root.iter(f"{SVG}script"))
    assert HOSTILE in [
        "".join(node.itertext()).partition(" · ")[0] for node in root.iter(f"{SVG}text")
    ]


def test_both_languages_say_the_same_things():
    words = re.compile(r"{(\w+)}")
    for key, english in TEXTS["en"].items():
        assert sorted(words.findall(english)) == sorted(words.findall(TEXTS["zh"][key])), key


def test_a_png_is_as_large_as_its_picture():
    _, root = drawn(FITS)
    content = png(bar_svg(answered(FITS)), scale=2)
    assert content.startswith(b"\x89PNG")
    size = [int.from_bytes(content[start : start + 4], "big") for start in (16, 20)]
    assert size == [2 * WIDTH, 2 * int(root.get("height"))]


def test_the_readmes_picture_is_the_services_own():
    committed = (Path(__file__).parents[2] / "docs" / "answer.svg").read_text("utf-8")
    assert committed == answer_svg() + "\n", "run: make pictures"
