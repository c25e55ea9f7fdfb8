"""`fitgauge explain-log`, `explain-trace` and `utilization`: what ran, next to its estimate."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from fitgauge.commands.answers import as_json_option, show
from fitgauge.commands.local_services import answered
from fitgauge.commands.options import as_request, question_options
from fitgauge.measure.rows import append
from fitgauge.services.explain_log.schemas import LONGEST_LOG, ExplainLogRequest
from fitgauge.services.utilization.schemas import UtilizationRequest
from fitgauge.terminal.logs import show_ledger, show_utilization

_PIECE = 1024 * 1024


@click.command()
@click.argument("gpu")
@question_options(UtilizationRequest)
@as_json_option
def utilization(gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """How much of GPU does a training run use? Exit code 0, or 2 where the question cannot be
    answered."""
    request = as_request({"gpu": gpu, **options}, UtilizationRequest)
    answer = answered(lambda questions: questions.explain_utilization(request))
    show(answer, show_utilization, as_json)


@click.command("explain-trace")
@click.argument("trace", metavar="FILE", type=click.File("rb"))
@as_json_option
def explain_trace(trace: BinaryIO, as_json: bool) -> None:
    """Where the time goes in a PyTorch profiler's trace (.json or .json.gz); - reads standard
    input."""
    answer = answered(lambda questions: questions.explain_trace(_pieces(trace)))
    show(answer, show_utilization, as_json)


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield a file as it is read."""
    while piece := file.read(_PIECE):
        yield piece


@click.command("explain-log")
@click.argument("log", metavar="FILE", type=click.File("rb"))
@click.option("--model", help="The model, if the log names only a path.")
@click.option("--gpu", help="The accelerator, if the log does not name it.")
@click.option("--gpu-count", type=click.IntRange(1, 4096), help="The number of GPUs.")
@click.option("--engine", help="The engine, for a message that does not show it.")
@click.option("--command", help="The launch command, if the log does not show it.")
@click.option(
    "--append",
    "truth",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add the run, anonymised, to this truth file (JSON lines).",
)
@as_json_option
def explain_log(log: BinaryIO, truth: Path | None, as_json: bool, **named: Any) -> None:  # noqa: ANN401 - fields of the contract
    """Compare what the start-up log in FILE measured with the estimate; of an out-of-memory
    message, say what took the memory and what to change. - reads standard input."""
    text = log.read(LONGEST_LOG).decode("utf-8", "replace")
    answer = answered(
        lambda questions: questions.explain_log(ExplainLogRequest(log=text, detail="full", **named))
    )
    if truth is not None:
        append(truth, answer.case)
    show(answer, show_ledger, as_json)
