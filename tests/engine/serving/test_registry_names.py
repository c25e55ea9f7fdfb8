"""Facts of an engine stand in its row: no service and no part of the API names one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import fitgauge
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES, preferred
from fitgauge.engine.training.workload import Framework

PACKAGE = Path(fitgauge.__file__).parent
TRAINING = "training"
"""In the name of services and modules in which `transformers` is a training framework."""
TOOLS = (
    PACKAGE / "services/training_fit/launchers",
    PACKAGE / "services/training_fit/setting_names.py",
    PACKAGE / "services/tools/aliases.py",
)
"""A training tool's file and the words of its settings name the engine that the tool samples with,
and agents' aliases name `transformers` as a training framework."""


def named_engines(source: str) -> Iterator[str]:
    """Yield the engines that string literals of a source are the names of."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in ENGINES:
            yield str(node.value)


def test_services_and_the_api_name_no_engine() -> None:
    named = []
    for path in sorted([*PACKAGE.glob("services/**/*.py"), *PACKAGE.glob("api/**/*.py")]):
        frameworks = Framework.__args__ if TRAINING in str(path.relative_to(PACKAGE)) else ()
        if not any(path.is_relative_to(tool) for tool in TOOLS):
            named += [
                f"{path.relative_to(PACKAGE)}: {name}"
                for name in named_engines(path.read_text(encoding="utf-8"))
                if name not in frameworks
            ]
    assert named == []


def test_services_import_no_engine() -> None:
    packages = [path.parent.name for path in PACKAGE.glob("engine/serving/*/engine.py")]
    imports = [f"fitgauge.engine.serving.{name}" for name in packages]
    assert "fitgauge.engine.serving.vllm" in imports
    assert [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.glob("services/**/*.py")
        if any(name in path.read_text(encoding="utf-8") for name in imports)
    ] == []


def test_a_name_in_quotes_is_seen() -> None:
    assert list(named_engines('x = "vllm" if y == "sglang" else "vllm needs"')) == [
        "vllm",
        "sglang",
    ]


def test_each_rank_is_taken_once_and_every_default_has_one() -> None:
    ranks = [row.preference for row in ENGINES.values() if row.preference is not None]
    assert sorted(ranks) == list(range(1, len(ranks) + 1))
    assert set(DEFAULT_ENGINES) == {name for name, row in ENGINES.items() if row.default}
    assert set(DEFAULT_ENGINES) <= set(preferred())


def test_an_engine_is_suggested_where_it_has_kernels() -> None:
    for row in ENGINES.values():
        assert row.suggested_vendors <= row.platforms.keys()
