"""Engines that are not covered, and which one comes nearest."""

import pytest

from fitgauge.catalog import other_engines
from fitgauge.engine.serving.registry import ENGINES, engine_named
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.parsing import engine


@pytest.mark.parametrize(
    ("text", "instead"),
    [("ktransformers", "llama.cpp"), ("LocalAI", "llama.cpp"), ("ExLlamaV2", None)],
)
def test_an_engine_without_estimates_is_refused_with_the_nearest(
    text: str, instead: str | None
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        engine(text)
    assert refused.value.code == "unknown-engine"
    assert refused.value.send.get("engine") == instead
    assert refused.value.matches == ((instead,) if instead else ())


def test_the_table_holds_no_engine_that_is_covered() -> None:
    table = other_engines._table()
    assert not [word for word in table if engine_named(word)]
    assert {row.instead for row in table.values()} - {None} <= set(ENGINES)
