"""The words of the pictures are those of the page."""

import re
from pathlib import Path

import pytest

import fitgauge
from fitgauge.pictures.texts import TEXTS, text

ON_THE_PAGE = {
    "fits": "verdict.fits",
    "tight": "verdict.tight",
    "does_not_fit": "verdict.does_not_fit",
    "unsupported": "verdict.unsupported",
    "needs": "verdict.null",
    "likely": "probability",
    "load": "context",
    "step": "sequence",
    "available": "bar.capacity",
    "interval": "bar.interval",
}
TERMS = {"kv_cache", "cuda_graphs", "fewest_gpus"}
"""Names that are written in another way than the API's."""
ALONE = {
    "need", "other", "of", "line", "compare", "recommend", "nothing", "more", "unanswered", "speed",
    "price", "cheapest", "fastest", "headroom",
}  # fmt: skip
"""Keys that the page has no text for."""
NUMBERS = {
    "percent": "93 %",
    "context": "8,192",
    "concurrency": "4",
    "sequence": "2,048",
    "batch": "2",
}
SIZES = {"available": "22.1 GiB", "low": "11.5 GiB", "high": "12.4 GiB"}


def page(language: str) -> dict[str, str]:
    """Return the texts of the page."""
    file = Path(fitgauge.__file__).parent / "web" / "texts" / f"{language}.js"
    return dict(re.findall(r"'([\w.-]+)': '([^']*)'", file.read_text()))


def shown(template: str) -> str:
    """Return a text of the page with its values."""
    return template.format(**NUMBERS, **SIZES, budget=SIZES["available"])


@pytest.mark.parametrize("language", TEXTS)
def test_a_text_of_the_pictures_is_the_one_of_the_page(language):
    texts = page(language)
    for key in TEXTS[language].keys() - ALONE:
        name = ON_THE_PAGE.get(key, f"name.{key}")
        assert text(language, key, **NUMBERS, **SIZES) == shown(texts[name]), key


def test_every_text_is_in_every_language():
    assert set(ON_THE_PAGE) | TERMS | ALONE == set(TEXTS["en"])
    assert all(set(TEXTS["en"]) <= set(TEXTS[language]) for language in TEXTS)
