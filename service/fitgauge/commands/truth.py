"""Rows of truth: what people said happened, and what was never measured."""

import sys
from pathlib import Path

import click
import msgspec

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.catalog.training import load_training
from fitgauge.commands.chat import data_option
from fitgauge.commands.errors import or_exit
from fitgauge.commands.local_catalog import local_catalog
from fitgauge.console import echo_error, echo_json
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.questions import create_engines
from fitgauge.services.truth_export import exported
from fitgauge.services.truth_gaps import FIGURES, gaps, weakest
from fitgauge.settings import from_environment
from fitgauge.terminal.truth import show_gaps


@click.group()
def truth() -> None:
    """Handle rows of truth: what was measured or said, and what is missing."""


@truth.command()
@data_option
def export(data: Path) -> None:
    """Print what people answered to "it ran" and "it did not", a row of truth a line, as `make
    accuracy TRUTH=` takes it. Names of
    people and channels are not in it; a model that is not public is its size. Exit code 2 where
    the file cannot be read."""
    file = data / "truth.jsonl"
    if not file.is_file():
        echo_error(f"{file} does not exist: the bot writes it. Use --data with its folder.")
        sys.exit(2)
    try:
        lines = file.read_text("utf-8").splitlines()
        for row in exported(lines, Snapshot(), bundled()):
            click.echo(msgspec.json.encode(row))
    except (OSError, msgspec.ValidationError, msgspec.DecodeError) as error:
        echo_error(f"{error}")
        sys.exit(2)


@truth.command("gaps")
@click.argument("gpu", required=False)
@click.option("--engine", type=click.Choice(sorted(ENGINES)), help="Of this engine alone.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_gaps(gpu: str | None, engine: str | None, as_json: bool) -> None:
    """List what was never measured: classes of GPU by engine, and the figures that rest on least.
    With GPU: what each engine was measured for on its class."""
    catalog = or_exit(local_catalog)
    engines = or_exit(lambda: create_engines(from_environment(), catalog))
    accelerator = or_exit(lambda: catalog.find(gpu)).accelerator if gpu else None
    rows = gaps(engines, catalog, engine, accelerator)
    figures = [row for row in weakest(engines, load_training()) if engine in (None, row.engine)]
    if as_json:
        echo_json({"gaps": rows, "figures": figures[:FIGURES]})
    else:
        show_gaps(rows, figures[:FIGURES])
