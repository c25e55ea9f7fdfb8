"""What the commands share that run something here and measure it."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from fitgauge.commands.errors import or_exit
from fitgauge.commands.local_catalog import local_catalog
from fitgauge.console import echo_error
from fitgauge.engine.quantity import GIB
from fitgauge.machine import machine_question, memory_of_machine, this_machine
from fitgauge.measure import append
from fitgauge.services.explain_log.schemas import LogCase


class Device(NamedTuple):
    """What it runs on."""

    gpu: str
    """As a question has it."""
    is_cpu: bool
    """Whether it is the CPU, whose memory stands for a GPU's."""
    fields: dict[str, Any]
    """Further fields of a question about serving."""


python_option = click.option(
    "--python",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A Python that has the engine, where it is not on PATH.",
)
cpu_option = click.option("--cpu", is_flag=True, help="Run on the CPU, in the machine's memory.")
seconds_option = click.option(
    "--seconds",
    type=click.IntRange(1, 86_400),
    default=1_800,
    show_default=True,
    help="How long it may take, downloads included.",
)
write_option = click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add the row of truth to this file without asking.",
)


def device_of(gpu: str | None, *, cpu: bool) -> Device:
    """Return what to measure: the GPU that is named, this machine's, else its CPU."""
    if gpu is not None:
        return Device(gpu, False, {})
    machine = None if cpu else this_machine()
    if machine is not None:
        question = machine_question(machine, or_exit(local_catalog), mixed=True)
        fields = {"gpu_count": question.gpu_count} if question.engine is None else {}
        used = {"other_memory_gib": question.other_memory_gib, "engine": question.engine}
        return Device(question.gpu, False, fields | used)
    memory = memory_of_machine()
    if memory is None:
        raise click.UsageError("This machine names no GPU: send one.")
    return Device(f"{memory / GIB:.2f}GiB", True, {})


def keep(row: LogCase, write: Path | None, *, asks: bool) -> None:
    """Add the row to a file of truth: the one that is named, else the one that is agreed to."""
    asks = asks and write is None and sys.stdin.isatty()
    if asks and click.confirm("Add this row to truth.jsonl?", default=False):
        write = Path("truth.jsonl")
    if write is not None:
        try:
            append(write, row)
        except OSError as error:
            echo_error(f"{error}")
            sys.exit(2)
