"""The engines' profiles: every engine has one, every figure a source, and a row says only what
is otherwise from its release on."""

import json
from importlib.resources import files
from itertools import groupby

import msgspec
import pytest

from fitgauge.catalog.engines import load_engines, whole
from fitgauge.engine.serving.profile import Coefficient, EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.errors import InvalidRequestError

ROWS = json.loads(files("fitgauge.catalog").joinpath("data/engines.json").read_text("utf-8"))
PROFILES = msgspec.convert(whole(ROWS), list[EngineProfile])


def by_engine(rows):
    return [list(of_one) for _, of_one in groupby(rows, key=lambda row: row["engine"])]


def test_every_engine_has_profiles_in_the_order_of_its_releases():
    engines = by_engine(ROWS)
    assert {one[0]["engine"] for one in engines} == set(ENGINES)
    assert len(engines) == len(ENGINES)
    for one in engines:
        assert [row["since"] for row in one] == sorted(row["since"] for row in one)


def test_a_row_says_nothing_that_the_row_before_it_says():
    for before, now, row in zip(whole(ROWS), whole(ROWS)[1:], ROWS[1:], strict=False):
        if before["engine"] == now["engine"]:
            assert [
                name
                for name, value in row.items()
                if name != "engine" and name in before and before[name] == value
            ] == []


@pytest.mark.parametrize(
    "profile", PROFILES, ids=lambda profile: f"{profile.engine} {profile.since}"
)
def test_every_figure_has_a_source_and_lies_in_its_interval(profile):
    assert profile.source
    figures = [
        value
        for value in msgspec.structs.asdict(profile).values()
        if isinstance(value, Coefficient)
    ]
    assert len(figures) >= 6
    for figure in figures:
        assert figure.source
        assert figure.low <= figure.expected <= figure.high
        assert figure.runs >= 0


def test_a_version_gets_the_profile_that_holds_for_it_and_one_older_than_all_is_refused():
    engines = load_engines()
    assert engines.profile("vllm", (0, 20, 2)).since == (0, 20)
    assert engines.profile("vllm", (0, 99)) is engines.profile("vllm", None)
    with pytest.raises(InvalidRequestError) as refused:
        engines.profile("vllm", (0, 3))
    assert refused.value.hint == f"Send a version from {engines.oldest('vllm')}."


def test_a_field_that_nobody_knows_is_refused():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**whole(ROWS)[0], "graph_byte": 1}, EngineProfile)


@pytest.mark.parametrize(("engine", "version"), [("transformers", (0, 33)), ("mlx", (0, 5, 23))])
def test_a_release_of_another_engine_is_answered_by_the_newest(engine, version):
    engines = load_engines()
    assert engines.profile(engine, version) is engines.profile(engine, None)


@pytest.mark.parametrize(("engine", "version"), [("vllm", (0, 3)), ("transformers", (4, 20))])
def test_a_release_older_than_all_is_refused(engine, version):
    with pytest.raises(InvalidRequestError):
        load_engines().profile(engine, version)
