"""The command: the same questions in a terminal, and the service itself."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click
import msgspec
from msgspec.structs import astuple

from fitgauge import __version__, terminal
from fitgauge.catalog import overlay_file as own_file
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.chat_commands import slack
from fitgauge.command_options import as_request, question_options, write_launch_files
from fitgauge.console import echo_error, echo_json
from fitgauge.fleet_command import fleet
from fitgauge.key_command import key
from fitgauge.local_services import Commands, answered, local_catalog, or_exit
from fitgauge.machine import machine_question, this_machine
from fitgauge.manifest_command import EXIT_CODES, manifest_options
from fitgauge.measure import append
from fitgauge.measure_command import measure
from fitgauge.questions import create_hub
from fitgauge.services.ask.schemas import AskRequest
from fitgauge.services.common.name_search import word_match
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.explain_log.schemas import LONGEST_LOG, ExplainLogRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.snapshot_refresh import (
    DATA_FOLDER,
    PER_MINUTE,
    RefreshReport,
    SnapshotRefresh,
)
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from fitgauge.services.utilization.schemas import UtilizationRequest
from fitgauge.settings import from_environment, in_force, unknown
from fitgauge.truth_commands import truth

_Answer = TypeVar("_Answer")
_PIECE = 1024 * 1024
_as_json = click.option("--json", "as_json", is_flag=True, help="The API's own answer, as JSON.")
_on_machine = click.option(
    "--machine/--no-machine",
    default=True,
    help="Without GPU: ask about this machine's GPUs and what is free of them (default), or only"
    " say what the model needs.",
)


@click.group(cls=Commands)
@click.version_option(__version__)
def main() -> None:
    """Will model X fit on GPU Y, and if not, what will?"""


for command in (slack, truth, key, measure, fleet):
    main.add_command(command)


@main.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.")
def serve(host: str | None, port: int | None) -> None:
    """Run the service. Exit code 0 after SIGTERM or SIGINT, 2 where it cannot start."""
    from fitgauge.serve import run  # the server's own imports, which no other command needs

    for warning in unknown():
        click.echo(warning, err=True)
    settings = or_exit(from_environment)
    changed = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    or_exit(lambda: run(msgspec.structs.replace(settings, **changed)))


@main.command()
@click.option(
    "--url", default="http://127.0.0.1:8000", show_default=True, help="Address of the service."
)
def mcp(url: str) -> None:
    """Serve the tools over MCP on standard input and output, for hosts that start a command.
    Exit code 2 where no service answers at the address."""
    from fitgauge_plugin.mcp_stdio import NoServiceError, run  # imports that nothing else needs

    try:
        run(url)
    except NoServiceError as error:
        echo_error(f"{error} Start one with `fitgauge serve`, or set --url.")
        sys.exit(2)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, one object a setting.")
def config(as_json: bool) -> None:
    """Print every setting, its value and where it comes from. Exit code 2 where one is wrong."""
    settings = in_force(or_exit(from_environment))
    if as_json:
        echo_json(settings)
    else:
        widths = [max(len(str(row[at])) for row in map(astuple, settings)) for at in range(2)]
        for name, value, source in map(astuple, settings):
            click.echo(f"{name:<{widths[0]}}  {value!s:<{widths[1]}}  {source}")
    for warning in unknown():
        click.echo(warning, err=True)


@main.command()
@click.argument("model", required=False)
@click.argument("gpu", required=False)
@question_options(FitRequest)
@_on_machine
@_as_json
@manifest_options
def check(model: str, gpu: str | None, machine: bool, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Will MODEL fit on GPU when it is served? Without GPU: on this machine; where that has none,
    what MODEL needs, and the smallest GPUs that hold it. With -f: do the servers in manifests fit?

    Exit code 0 if it fits, 3 if it is tight, 1 if not, 4 where it is unsupported, 2 where the
    question cannot be answered; of several servers the worst: 1, 4, 2, 3, 0.
    """
    fields = {"model": model, "gpu": gpu or None, "detail": "full", **options}
    if machine and not gpu:
        _ask_of_this_machine(fields, serves=True, as_json=as_json)
    request = as_request(fields, FitRequest)
    _, answer = answered(lambda questions: questions.check_fit(request), model)
    _show(answer, terminal.show_fit, as_json)
    sys.exit(EXIT_CODES[answer.verdict] if answer.verdict else 0)


def _ask_of_this_machine(fields: dict[str, Any], *, serves: bool, as_json: bool) -> None:
    """Add this machine's GPUs to a question, and print them; leave it where there are none. serves:
    whether the question has an engine, which GPUs of several kinds decide."""
    machine = this_machine()
    if machine is None:
        return
    question = machine_question(machine, or_exit(local_catalog), mixed=serves)
    fields["gpu"] = question.gpu
    defaults = {"other_memory_gib": question.other_memory_gib}
    if question.engine is None:
        defaults["gpu_count"] = question.gpu_count
    fields |= {name: value for name, value in defaults.items() if fields.get(name) is None}
    divides = question.engine is not None and fields.get("engine") is None
    if divides:
        fields["engine"] = question.engine
    if not as_json:
        terminal.show_machine(question, divides=divides)


@main.command()
@click.argument("question", nargs=-1, required=True)
@_as_json
def ask(question: tuple[str, ...], as_json: bool) -> None:
    """Answer a QUESTION in plain words. Exit code as that of check; 0 for lists, 2 without an
    answer."""
    request = as_request({"question": " ".join(question)}, AskRequest)
    answer = answered(lambda services: services.ask(request))
    _show(answer, terminal.show_ask, as_json)
    if answer.answer is None:
        sys.exit(2)
    sys.exit(EXIT_CODES.get(str(answer.answer.get("verdict")), 0))


@main.command("train-check")
@click.argument("model")
@click.argument("gpu", required=False)
@question_options(TrainingRequest)
@click.option(
    "--files",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the settings as the trainer's configuration files into this directory.",
)
@_on_machine
@_as_json
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
        _ask_of_this_machine(fields, serves=False, as_json=as_json)
    request = as_request(fields, TrainingRequest)
    _, answer = answered(lambda questions: questions.check_training_fit(request), model)
    _show(answer, terminal.show_training, as_json)
    if directory is not None:
        click.echo(write_launch_files(answer.launch, directory), err=True)
    sys.exit(EXIT_CODES[answer.verdict] if answer.verdict else 0)


@main.command("train-plan")
@click.argument("model")
@click.argument("gpu")
@question_options(TrainingPlanRequest)
@_as_json
def train_plan(model: str, gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which layouts train MODEL on GPU, and on how few? Exit code 0, 1 where none does, 2 where
    the question cannot be answered."""
    request = as_request({"model": model, "gpu": gpu, **options}, TrainingPlanRequest)
    _, answer = answered(lambda questions: questions.plan_training(request), model)
    _show(answer, terminal.show_plans, as_json)
    sys.exit(0 if answer.plans else 1)


@main.command()
@click.argument("gpu")
@question_options(UtilizationRequest)
@_as_json
def utilization(gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """How much of GPU does a training run use? Exit code 0, or 2 where the question cannot be
    answered."""
    request = as_request({"gpu": gpu, **options}, UtilizationRequest)
    answer = answered(lambda questions: questions.explain_utilization(request))
    _show(answer, terminal.show_utilization, as_json)


@main.command("explain-trace")
@click.argument("trace", metavar="FILE", type=click.File("rb"))
@_as_json
def explain_trace(trace: BinaryIO, as_json: bool) -> None:
    """Where the time goes in a PyTorch profiler's trace (.json or .json.gz); - reads standard
    input."""
    answer = answered(lambda questions: questions.explain_trace(_pieces(trace)))
    _show(answer, terminal.show_utilization, as_json)


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield a file as it is read."""
    while piece := file.read(_PIECE):
        yield piece


@main.command()
@click.argument("model")
@question_options(RecommendRequest)
@_as_json
def recommend(model: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Recommend GPUs to serve MODEL on. Exit code 0, or 2 for a request without an answer."""
    request = as_request({"model": model, **options}, RecommendRequest)
    answer = answered(lambda questions: questions.recommend_gpus(request), model)
    _show(answer, terminal.show_recommendations, as_json)


@main.command("models-for")
@click.argument("gpu")
@question_options(ModelsForGpuRequest)
@_as_json
def models_for(gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which models run on GPU? Exit code 0, or 2 where the question cannot be answered."""
    request = as_request({"gpu": gpu, **options}, ModelsForGpuRequest)
    answer = answered(lambda questions: questions.list_models_that_fit(request))
    _show(answer, terminal.show_models_for_gpu, as_json)


@main.command()
@click.argument("models")
@click.argument("gpus")
@question_options(CompareRequest)
@click.option("--json", "as_json", is_flag=True, help="One row a line, as JSON.")
def compare(models: str, gpus: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which of MODELS fit on which of GPUS? Both with commas between them. Exit code 0, or 2
    where the question cannot be answered."""
    request = as_request({"models": models, "gpus": gpus, **options}, CompareRequest)
    answer = answered(lambda questions: questions.whole_comparison(request))
    if as_json:
        click.echo(msgspec.json.Encoder().encode_lines(answer.items), nl=False)
    else:
        terminal.show_comparison(answer)


@main.command("explain-log")
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
@_as_json
def explain_log(log: BinaryIO, truth: Path | None, as_json: bool, **named: Any) -> None:  # noqa: ANN401 - fields of the contract
    """Compare what the start-up log in FILE measured with the estimate; of an out-of-memory
    message, say what took the memory and what to change. - reads standard input."""
    text = log.read(LONGEST_LOG).decode("utf-8", "replace")
    answer = answered(
        lambda questions: questions.explain_log(ExplainLogRequest(log=text, detail="full", **named))
    )
    if truth is not None:
        append(truth, answer.case)
    _show(answer, terminal.show_ledger, as_json)


@main.command()
@click.argument("search", required=False)
def gpus(search: str | None) -> None:
    """List the accelerators of the catalog; SEARCH narrows them down. One alone is shown with where
    it is rented.

    Exit code 0, or 2 where SEARCH names none.
    """
    gpu_catalog = or_exit(local_catalog)
    matches = word_match(search)
    rows = [row for row in gpu_catalog.all() if matches(f"{row.id} {row.vendor} {row.name}")]
    if len(rows) > 1:
        terminal.show_gpus(rows, gpu_catalog.offers)
        return
    row = rows[0] if rows else or_exit(lambda: gpu_catalog.find(search)).accelerator
    terminal.show_gpu(row, gpu_catalog.offers)


@main.group()
def catalog() -> None:
    """Check catalog overlays of GPUs, names, prices and quotas."""


@catalog.command("check")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
def check_catalog(path: Path) -> None:
    """Is the own catalog in FILE, or in a folder, sound? Exit code 0 if so, 2 if not, with the
    file, the row and the field."""
    loaded = or_exit(lambda: OverlayReload(path, bundled())).current
    merged = loaded.catalog
    rows = (
        f"{len(merged.all())} accelerators, {len(merged.names)} names,"
        f" {len(merged.quotas)} quotas, {len(merged.offers.all())} instance types"
    )
    click.echo(f"{', '.join(loaded.files)}: valid. With the bundled catalog: {rows}.")


@catalog.command("schema")
def catalog_schema() -> None:
    """Print the JSON schema of an own catalog."""
    echo_json(own_file.schema())


@main.group()
def snapshot() -> None:
    """Keep the models that are known without the Hub."""


@snapshot.command("refresh")
@click.argument("ids", nargs=-1)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=DATA_FOLDER,
    help="Where models.jsonl and models_derived.jsonl lie; by default those of this package.",
)
@click.option(
    "--per-minute",
    type=click.IntRange(1, 600),
    default=PER_MINUTE,
    show_default=True,
    help="Repositories to read in a minute.",
)
def refresh_snapshot(ids: tuple[str, ...], folder: Path, per_minute: int) -> None:
    """Reread the rows of IDS from the Hub, all without any. Run it again to go on where it was
    interrupted. Exit code 0, or 2 where the Hub does not answer."""
    report = or_exit(lambda: asyncio.run(_refreshed(ids, folder, per_minute)))
    for one in report.refused:
        click.echo(f"{one.id}: unchanged. {one.error}", err=True)
    click.echo(f"{report.refreshed} rows refreshed, {len(report.refused)} unchanged.")


async def _refreshed(ids: Sequence[str], folder: Path, per_minute: int) -> RefreshReport:
    """Return what a run over these ids did."""
    hub = create_hub(from_environment())
    await hub.start()
    try:
        say = partial(click.echo, err=True)
        return await SnapshotRefresh(hub, folder, per_minute=per_minute, say=say).run(ids)
    finally:
        await hub.close()


def _show(answer: _Answer, show: Callable[[_Answer], None], as_json: bool) -> None:
    """Print the answer as JSON, as the API sends it, or through `show`."""
    if as_json:
        echo_json(answer)
    else:
        show(answer)
