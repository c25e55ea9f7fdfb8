"""README and the documentation: the README is short, and their figures are those of the code."""

import re
from pathlib import Path

import msgspec

from accuracy.run import in_readme
from fitgauge.api.connection_limits import BoundedConnection
from fitgauge.catalog import accelerators, instances
from fitgauge.catalog.accuracy import accuracy
from fitgauge.engine.performance.host import CPU_GBPS, link_rates
from fitgauge.engine.serving.fit import POSSIBLE, SURE
from fitgauge.engine.serving.mlx.memory import STEP
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.tensorrt_llm.memory import TOKENS_PER_BLOCK
from fitgauge.serve import OPTIONS
from fitgauge.services.common.host_memory import ROOM_GIB
from live.conformance import OPERATIONS

ROOT = Path(__file__).parents[1]
README = ROOT.joinpath("README.md").read_text("utf-8")
FRONT = ROOT.joinpath("docs", "README.md").read_text("utf-8")
LONGEST, FIRST_SCREEN = 120, 20
"""lines"""


def test_the_answer_is_in_the_first_screen_and_the_readme_is_short():
    lines = README.splitlines()
    assert len(lines) <= LONGEST
    first = "\n".join(lines[:FIRST_SCREEN])
    assert "docs/answer.svg" in first
    assert "make serve" in first
    assert first.count("<!-- accuracy") == 2
    (needed,) = re.findall(r"([\d.]+) GiB needed", first)
    assert f"{needed} GiB" in ROOT.joinpath("docs", "answer.svg").read_text("utf-8")


def test_every_operation_is_on_the_first_page_of_the_documentation():
    assert [operation.path for operation in OPERATIONS if operation.path not in FRONT] == []


def test_the_machines_are_as_many_as_the_documentation_says():
    machines = instances.load().all()
    priced = [machine for machine in machines if machine.usd_per_hour_low is not None]
    numbers = re.search(
        r"(\d+) machines of (\d+) clouds map to their GPUs, (\d+) with a dated", FRONT
    )
    assert [int(number) for number in numbers.groups()] == [
        len(machines),
        len({machine.cloud for machine in machines}),
        len(priced),
    ]


def test_figures_of_verdicts_and_engines_are_those_of_the_engine():
    intervals, engines = (
        ROOT.joinpath("docs", name).read_text("utf-8") for name in ("intervals.md", "engines.md")
    )
    assert f"| `fits` | {SURE:g} and more |" in intervals
    assert f"| `tight` | {POSSIBLE:g} to {SURE:g} |" in intervals
    assert f"blocks of {TOKENS_PER_BLOCK} tokens" in engines
    assert f"steps of {STEP} tokens" in engines
    assert [name for name in ENGINES if name not in engines.lower()] == []


def test_rates_of_host_memory_are_those_of_the_engine():
    page = ROOT.joinpath("docs", "speed.md").read_text("utf-8")
    desktop, server = CPU_GBPS["desktop"], CPU_GBPS["server"]
    link = link_rates(accelerators.load().get("rtx-4090-24gb"))
    for low, expected, high in (desktop, server, link):
        assert re.search(rf" at {expected:.0f} [^(|]*\({low:.0f} to {high:.0f}\)", page)
    assert f"{ROOM_GIB} GiB of it are left to the system" in page


def test_bounds_of_the_server_are_those_of_the_code():
    page = ROOT.joinpath("docs", "SERVER.md").read_text("utf-8")
    limits = BoundedConnection
    for bound, value in {
        "from a request's first byte to its last": f"{limits.request_seconds:g} s",
        "a caller reads less than half of what waits for it": f"{limits.request_seconds:g} s",
        "size of a head": f"{limits.head_bytes // 1024} KiB",
        "requests sent ahead of their turn, per connection": f"{limits.ahead_bytes // 1024} KiB",
        "connections": f"{limits.most_connections:,}",
        "after SIGTERM: an idle connection": f"{limits.drain_seconds:g} s",
        "after SIGTERM: requests that have arrived": f"{OPTIONS['timeout_graceful_shutdown']} s",
    }.items():
        assert f"| {bound} | {value} |" in page


def test_the_lines_on_accuracy_are_the_figures_that_the_service_answers():
    figures = [msgspec.to_builtins(figure) for figure in accuracy()]
    assert in_readme(README, figures) == README, "run: make accuracy"
