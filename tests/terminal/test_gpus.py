"""fitgauge gpus: the catalog as a table, one card with where it is rented, and words where
nothing is meant."""

import pytest
from click.testing import CliRunner

from fitgauge.cli import main


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    return lambda *arguments: CliRunner().invoke(main, ["gpus", *arguments])


def test_every_accelerator_is_listed_with_its_price(run):
    result = run()
    assert result.exit_code == 0
    assert "rtx-4090-24gb" in result.output
    assert "USD/h: one GPU on demand" in result.output


def test_one_accelerator_is_shown_with_the_machines_that_hold_it(run):
    result = run("mi300x")
    assert result.exit_code == 0
    assert "Standard_ND96isr_MI300X_v5" in result.output
    assert "BM.GPU.MI300X.8" in result.output


def test_a_machine_of_a_cloud_shows_its_accelerator(run):
    assert "h100-sxm-80gb" in run("p5.48xlarge").output


def test_an_accelerator_that_nobody_rents_out_is_shown_with_those_words(run):
    assert (
        "No cloud instance with RTX 5090 D is known."
        in run("RTX 5090 D 32").output + run("rtx-5090-d-32gb").output
    )


def test_what_means_nothing_is_told_with_what_resembles_it(run):
    result = run("RTX 4095")
    assert result.exit_code == 2
    assert "Did you mean: RTX 4090" in result.output


def test_what_resembles_nothing_is_told_too(run):
    result = run("nosuch")
    assert result.exit_code == 2
    assert "Unknown accelerator 'nosuch'." in result.output
