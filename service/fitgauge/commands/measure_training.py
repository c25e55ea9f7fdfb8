"""`fitgauge train-measure`: run a training step here, compare it with its estimate, keep a row of
truth."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.commands.answers import as_json_option
from fitgauge.commands.errors import or_exit
from fitgauge.commands.local_catalog import local_catalog
from fitgauge.commands.local_services import answered
from fitgauge.commands.measuring import (
    cpu_option,
    device_of,
    keep,
    python_option,
    seconds_option,
    write_option,
)
from fitgauge.commands.options import as_request, question_options
from fitgauge.console import echo_error, echo_json
from fitgauge.measure import NotInstalledError, run
from fitgauge.measure.training import (
    NotMeasuredError,
    compared,
    step_measured,
    step_row,
    step_start,
)
from fitgauge.redaction import redacted
from fitgauge.services.public_rows import public_question
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.terminal.steps import show_step

_USUAL = {"method": "full", "framework": "transformers", "detail": "full"}
"""What the script runs where nothing else is asked for."""


@click.command("train-measure")
@click.argument("model")
@click.argument("gpu", required=False)
@question_options(TrainingRequest)
@python_option
@cpu_option
@seconds_option
@write_option
@as_json_option
def train_measure(
    model: str,
    gpu: str | None,
    python: Path | None,
    cpu: bool,
    seconds: int,
    write: Path | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - one for every field of the contract
) -> None:
    """Train MODEL for two steps with transformers, and with peft for LoRA, in a Python that has
    them, and put each phase of the second one next to the estimate. Print the row of truth, which
    `make accuracy TRUTH=` takes; at a terminal, ask whether to add it to truth.jsonl.

    Without GPU: this machine's. Exit code 0, 2 where nothing was measured.
    """
    device = device_of(gpu, cpu=cpu)
    fields = {"model": model, "gpu": device.gpu} | _USUAL
    fields |= {name: value for name, value in options.items() if value is not None}
    request = as_request(fields, TrainingRequest)
    _, answer = answered(lambda questions: questions.check_training_fit(request), model)
    try:
        text = run(step_start(request, answer, python, cpu=device.is_cpu), seconds)
    except (NotInstalledError, NotMeasuredError, OSError) as error:
        echo_error(f"{error}")
        sys.exit(2)
    printed = step_measured(text)
    if printed is None:
        echo_error("Nothing was measured. The end of what it printed:\n" + redacted(text)[-2_000:])
        sys.exit(2)
    terms = compared(printed, answer)
    trained = (answer.model.id, answer.model.parameters) if answer.model else None
    gpu_id = answer.gpu.id if answer.gpu else None
    question = public_question(fields, trained, gpu_id, Snapshot(), or_exit(local_catalog))
    row = step_row(printed, fields | {"model": trained and trained[0]}, question)
    if as_json:
        echo_json({"terms": terms, "row": row})
    else:
        show_step(terms)
        click.echo("\n" + msgspec.json.encode(row).decode())
    keep(row, write, asks=not as_json)
