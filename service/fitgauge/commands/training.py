"""`fitgauge train-check` and `train-plan`: will a model fit when it is trained, and how?"""

import sys
from pathlib import Path
from typing import Any

import click

from fitgauge.commands.answers import EXIT_CODES, as_json_option, show
from fitgauge.commands.local_services import answered
from fitgauge.commands.options import (
    as_request,
    machine_option,
    question_options,
    write_launch_files,
)
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from fitgauge.terminal.answers import show_training
from fitgauge.terminal.tables import show_plans


@click.command("train-check")
@click.argument("model")
@click.argument("gpu", required=False)
@question_options(TrainingRequest)
@click.option(
    "--files",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the settings as the trainer's configuration files into this directory.",
)
@machine_option
@as_json_option
def train_check(
    model: str,
    gpu: str | None,
    directory: Path | None,
    machine: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - one for every field of the contract
) -> None:
    """Will MODEL fit on GPU when it is trained? Without GPU: on this machine; where that has none,
    what MODEL needs by method, and the smallest GPUs that hold it.

    Exit code 0 if it fits, 3 if it is tight, 1 if not, 4 where it is unsupported, 2 where the
    question cannot be answered.
    """
    fields = {"model": model, "gpu": gpu or None, "detail": "full", **options}
    if machine and not gpu:
        from fitgauge.commands.this_machine import ask_of_this_machine  # looks for drivers

        ask_of_this_machine(fields, serves=False, as_json=as_json)
    request = as_request(fields, TrainingRequest)
    _, answer = answered(lambda questions: questions.check_training_fit(request), model)
    show(answer, show_training, as_json)
    if directory is not None:
        click.echo(write_launch_files(answer.launch, directory), err=True)
    sys.exit(EXIT_CODES[answer.verdict] if answer.verdict else 0)


@click.command("train-plan")
@click.argument("model")
@click.argument("gpu")
@question_options(TrainingPlanRequest)
@as_json_option
def train_plan(model: str, gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which layouts train MODEL on GPU, and on how few? Exit code 0, 1 where none does, 2 where
    the question cannot be answered."""
    request = as_request({"model": model, "gpu": gpu, **options}, TrainingPlanRequest)
    _, answer = answered(lambda questions: questions.plan_training(request), model)
    show(answer, show_plans, as_json)
    sys.exit(0 if answer.plans else 1)
