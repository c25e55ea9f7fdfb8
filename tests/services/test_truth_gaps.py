"""What was never measured is listed, with what would measure it."""

import json
from pathlib import Path

from click.testing import CliRunner

from accuracy import report_weakest
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.training import load_training
from fitgauge.cli import main
from fitgauge.engine.serving.doubt import NEVER, SAME_RELEASE, gpu_class
from fitgauge.services.truth_gaps import FIGURES, MEND, gaps, weakest

PAGE = Path(__file__).parents[2] / "docs" / "ACCURACY.md"


def test_a_gap_is_a_class_that_no_campaign_measured():
    rows = gaps(load_engines(), bundled())
    assert rows
    for row in rows:
        profile = load_engines().profile(row.engine, None)
        assert row.gpu_class not in profile.measured
        assert row.doubt_share > SAME_RELEASE.share
        assert (row.doubt_share == NEVER.share) == (row.measured_ever == 0)


def test_of_a_gpu_every_engine_that_runs_there_is_listed():
    gpu = bundled().find("4090").accelerator
    rows = gaps(load_engines(), bundled(), accelerator=gpu)
    assert {row.gpu_class for row in rows} == {gpu_class(gpu)}
    assert {"vllm", "sglang", "llama.cpp"} <= {row.engine for row in rows}
    assert "mlx" not in {row.engine for row in rows}
    assert [row.measured for row in rows] == sorted(row.measured for row in rows)


def test_a_gpu_older_than_an_engine_is_no_gap():
    old = bundled().find("K80").accelerator
    assert "vllm" not in {row.engine for row in gaps(load_engines(), bundled(), accelerator=old)}


def test_every_figure_says_what_would_measure_it():
    rows = weakest(load_engines(), load_training())
    assert {row.name.partition(" ")[0] for row in rows} <= MEND.keys()
    assert all(row.mend for row in rows)
    assert [row.runs for row in rows] == sorted(row.runs for row in rows)


def test_the_page_ends_with_the_weakest_figures():
    page = PAGE.read_text("utf-8")
    assert page.endswith(report_weakest.document())
    assert report_weakest.document().count("\n| ") == FIGURES + 1


def test_the_command_lists_both():
    result = CliRunner().invoke(main, ["truth", "gaps", "4090", "--engine", "vllm", "--json"])
    answer = json.loads(result.stdout)
    assert {row["engine"] for row in answer["gaps"] + answer["figures"]} == {"vllm"}
    assert "FP" not in CliRunner().invoke(main, ["truth", "gaps"]).stderr
    assert CliRunner().invoke(main, ["truth", "gaps", "no such gpu"]).exit_code == 2
