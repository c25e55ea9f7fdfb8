"""The command: the same questions in a terminal, and the service itself."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click
import msgspec
from msgspec.structs import astuple

from fitgauge import __version__, terminal
from fitgauge.app import create_hub, create_mounted, create_questions
from fitgauge.catalog import overlay_file as own_file
from fitgauge.catalog.catalog import Catalog, bundled
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.console import as_typed, echo_error, echo_json, plain
from fitgauge.errors import FitgaugeError, InvalidRequestError
from fitgauge.services import Services
from fitgauge.services.ask.schemas import AskAnswer, AskRequest
from fitgauge.services.common.schemas import FitAnswer, FitRequest
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest
from fitgauge.services.explain_log.schemas import LONGEST_LOG, ExplainLogRequest, LogAnswer, LogCase
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer, ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest
from fitgauge.services.snapshot_refresh import (
    DATA_FOLDER,
    PER_MINUTE,
    RefreshReport,
    SnapshotRefresh,
)
from fitgauge.services.tools.values import Field, fields_of, is_not_set, read
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanAnswer, TrainingPlanRequest
from fitgauge.services.utilization.schemas import UtilizationRequest
from fitgauge.settings import from_environment, in_force, unknown

_Answer = TypeVar("_Answer")
_EXIT = {"fits": 0, "tight": 3, "does_not_fit": 1, "unsupported": 4}
"""Exit codes; 2: no answer."""
_SHOWN: dict[str, tuple[type, Callable[[Any], None]]] = {
    "check_fit": (FitAnswer, terminal.show_fit),
    "check_training_fit": (TrainingAnswer, terminal.show_training),
    "recommend_gpus": (RecommendAnswer, terminal.show_recommendations),
    "list_models_that_fit": (ModelsForGpuAnswer, terminal.show_models_for_gpu),
    "compare_fit": (CompareAnswer, terminal.show_comparison),
    "plan_training": (TrainingPlanAnswer, terminal.show_plans),
    "explain_log": (LogAnswer, terminal.show_ledger),
}
"""How the answer of each operation is printed."""

_TYPES = {"integer": int, "number": float, "string": str}
_PIECE = 1024 * 1024
_as_json = click.option("--json", "as_json", is_flag=True, help="The API's own answer, as JSON.")


@click.group()
@click.version_option(__version__)
def main() -> None:
    """Will model X fit on GPU Y, and if not, what will?"""


@main.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.")
def serve(host: str | None, port: int | None) -> None:
    """Run the service. Exit code 0 after SIGTERM or SIGINT, 2 where it cannot start."""
    from fitgauge.serve import run  # the server's own imports, which no other command needs

    for warning in unknown():
        click.echo(warning, err=True)
    settings = _told(from_environment)
    changed = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    _told(lambda: run(msgspec.structs.replace(settings, **changed)))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, one object a setting.")
def config(as_json: bool) -> None:
    """Print every setting, its value and where it comes from. Exit code 2 where one is wrong."""
    settings = in_force(_told(from_environment))
    if as_json:
        echo_json(settings)
    else:
        widths = [max(len(str(row[at])) for row in map(astuple, settings)) for at in range(2)]
        for name, value, source in map(astuple, settings):
            click.echo(f"{name:<{widths[0]}}  {value!s:<{widths[1]}}  {source}")
    for warning in unknown():
        click.echo(warning, err=True)


def _question_options(request: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option for every optional field of a request of the contract, under the
    contract's own name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, schemas = msgspec.json.schema_components([request])
        fields = fields_of(request)
        for field, schema in reversed(schemas[request.__name__]["properties"].items()):
            kinds = [
                kind.get("type") or ("string" if "enum" in kind else None)
                for kind in schema.get("anyOf", ())
            ]
            name, described = "--" + field.replace("_", "-"), schema["description"]
            if field in (*schemas[request.__name__]["required"], "gpu"):
                continue  # arguments
            if kinds[:2] == ["integer", "array"]:
                command = click.option(name, type=_integers, metavar="INTEGERS", help=described)(
                    command
                )
            elif "boolean" in kinds:
                command = click.option(
                    f"{name}/--no-{name.removeprefix('--')}", default=None, help=described
                )(command)
            elif field != "detail" and (
                choices := next(
                    (kind["enum"] for kind in schema.get("anyOf", ()) if "enum" in kind), None
                )
            ):
                command = click.option(name, type=click.Choice(choices), help=described)(command)
            elif kinds and kinds[0] in _TYPES and field != "detail":
                kind = _TYPES[kinds[0]] if kinds[0] == "string" else _Number(fields[field])
                command = click.option(name, type=kind, help=described)(command)
        return command

    return decorate


class _Number(click.ParamType[object]):
    """A number as people write it: 32k, 95%, 1.5m."""

    name = "number"

    def __init__(self, field: Field) -> None:
        """field: what is set."""
        self._field = field

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return the number. Fail where it is none."""
        if is_not_set(self._field, value):
            return self.fail(f"{value!r} is no value; leave the option out.", param, ctx)
        try:
            return read(self._field, value).get(self._field.name, value)
        except InvalidRequestError as error:
            return self.fail(f"{error.detail} {as_typed(error.hint)}", param, ctx)


def _integers(text: str) -> list[int]:
    """Return whole numbers with commas between them; click tells of the ValueError."""
    return [int(part) for part in text.split(",")]


def _misused(error: msgspec.ValidationError) -> click.UsageError:
    """Return what the contract says of an option or argument, named as it is typed."""
    said, _, path = str(error).partition(" - at `$.")
    return click.UsageError(f"{path.rstrip('`').replace('_', '-')}: {said}" if path else said)


@main.command()
@click.argument("model")
@click.argument("gpu", required=False)
@_question_options(FitRequest)
@_as_json
def check(model: str, gpu: str | None, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Will MODEL fit on GPU when it is served? Without GPU: what it needs, and the smallest GPUs
    that hold it. Exit code 0 if it fits, 3 if it is tight, 1 if not, 4 where it is unsupported, 2
    where the question cannot be answered."""
    request = _converted({"model": model, "gpu": gpu, "detail": "full", **options}, FitRequest)
    _, answer = _answered(lambda questions: questions.check_fit(request))
    _show(answer, terminal.show_fit, as_json)
    sys.exit(_EXIT[answer.verdict] if answer.verdict else 0)


@main.command()
@click.argument("question", nargs=-1, required=True)
@_as_json
def ask(question: tuple[str, ...], as_json: bool) -> None:
    """Answer a QUESTION in plain words. Exit code as that of check; 0 for lists, 2 without an
    answer."""
    request = _converted({"question": " ".join(question)}, AskRequest)
    answer = _answered(lambda services: services.ask(request))
    _show(answer, _show_ask, as_json)
    if answer.answer is None:
        sys.exit(2)
    sys.exit(_EXIT.get(str(answer.answer.get("verdict")), 0))


def _show_ask(answer: AskAnswer) -> None:
    """Print what was understood, what is missing, and the answer."""
    understood = msgspec.to_builtins(answer.understood)
    if understood:
        said = ", ".join(f"{name} {value}" for name, value in understood.items())
        click.echo(plain(f"Understood: {said}", sys.stdout.encoding))
    if answer.operation is None:
        echo_error("This is no question about GPU memory.")
    for line in (*answer.missing, *(f"Not understood: {text}" for text in answer.not_understood)):
        echo_error(line)
    if answer.operation is not None and answer.answer is not None:
        kind, show = _SHOWN[answer.operation]
        show(msgspec.convert(answer.answer, kind))


@main.command("train-check")
@click.argument("model")
@click.argument("gpu", required=False)
@_question_options(TrainingRequest)
@_as_json
def train_check(model: str, gpu: str | None, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Will MODEL fit on GPU when it is trained? Without GPU: what it needs by method, and the
    smallest GPUs that hold it. Exit code 0 if it fits, 3 if it is tight, 1 if not, 4 where it is
    unsupported, 2 where the question cannot be answered."""
    request = _converted({"model": model, "gpu": gpu, "detail": "full", **options}, TrainingRequest)
    _, answer = _answered(lambda questions: questions.check_training_fit(request))
    _show(answer, terminal.show_training, as_json)
    sys.exit(_EXIT[answer.verdict] if answer.verdict else 0)


@main.command("train-plan")
@click.argument("model")
@click.argument("gpu")
@_question_options(TrainingPlanRequest)
@_as_json
def train_plan(model: str, gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which layouts train MODEL on GPU, and on how few? Exit code 0, 1 where none does, 2 where
    the question cannot be answered."""
    request = _converted({"model": model, "gpu": gpu, **options}, TrainingPlanRequest)
    _, answer = _answered(lambda questions: questions.plan_training(request))
    _show(answer, terminal.show_plans, as_json)
    sys.exit(0 if answer.plans else 1)


@main.command()
@click.argument("gpu")
@_question_options(UtilizationRequest)
@_as_json
def utilization(gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """How much of GPU does a training run use? Exit code 0, or 2 where the question cannot be
    answered."""
    request = _converted({"gpu": gpu, **options}, UtilizationRequest)
    answer = _answered(lambda questions: questions.explain_utilization(request))
    _show(answer, terminal.show_utilization, as_json)


@main.command("explain-trace")
@click.argument("trace", metavar="FILE", type=click.File("rb"))
@_as_json
def explain_trace(trace: BinaryIO, as_json: bool) -> None:
    """Where the time goes in a PyTorch profiler's trace (.json or .json.gz); - reads standard
    input."""
    answer = _answered(lambda questions: questions.explain_trace(_pieces(trace)))
    _show(answer, terminal.show_utilization, as_json)


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield a file as it is read."""
    while piece := file.read(_PIECE):
        yield piece


@main.command()
@click.argument("model")
@_question_options(RecommendRequest)
@_as_json
def recommend(model: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Recommend GPUs to serve MODEL on. Exit code 0, or 2 for a request without an answer."""
    request = _converted({"model": model, **options}, RecommendRequest)
    answer = _answered(lambda questions: questions.recommend_gpus(request))
    _show(answer, terminal.show_recommendations, as_json)


@main.command("models-for")
@click.argument("gpu")
@_question_options(ModelsForGpuRequest)
@_as_json
def models_for(gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which models run on GPU? Exit code 0, or 2 where the question cannot be answered."""
    request = _converted({"gpu": gpu, **options}, ModelsForGpuRequest)
    answer = _answered(lambda questions: questions.list_models_that_fit(request))
    _show(answer, terminal.show_models_for_gpu, as_json)


@main.command()
@click.argument("models")
@click.argument("gpus")
@_question_options(CompareRequest)
@click.option("--json", "as_json", is_flag=True, help="One row a line, as JSON.")
def compare(models: str, gpus: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which of MODELS fit on which of GPUS? Both with commas between them. Exit code 0, or 2
    where the question cannot be answered."""
    request = _converted({"models": models, "gpus": gpus, **options}, CompareRequest)
    answer = _answered(lambda questions: _whole(questions, request))
    if as_json:
        click.echo(msgspec.json.Encoder().encode_lines(answer.items), nl=False)
    else:
        terminal.show_comparison(answer)


async def _whole(questions: Services, request: CompareRequest) -> CompareAnswer:
    """Return the whole table, however large."""
    comparison = await questions.compare_fit(request)
    return CompareAnswer(
        items=[row async for some in questions.rows(comparison) for row in some],
        total=comparison.total,
    )


def _converted(given: dict[str, Any], kind: type[_Answer]) -> _Answer:
    """Return the request of the contract; options left out are left out."""
    try:
        return msgspec.convert(
            {name: value for name, value in given.items() if value is not None}, kind
        )
    except msgspec.ValidationError as error:
        raise _misused(error) from None


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
    answer = _answered(
        lambda questions: questions.explain_log(ExplainLogRequest(log=text, detail="full", **named))
    )
    if truth is not None:
        _append(truth, answer.case)
    _show(answer, terminal.show_ledger, as_json)


def _append(truth: Path, case: LogCase) -> None:
    """Add the case unless it is there; what it holds names no machine, no path and no person."""
    known = truth.read_text(encoding="utf-8") if truth.exists() else ""
    if f'"{case.id}"' not in known:
        with truth.open("a", encoding="utf-8") as file:
            file.write(msgspec.json.encode(case).decode() + "\n")


@main.command()
@click.argument("search", required=False)
def gpus(search: str | None) -> None:
    """List the accelerators that are known; SEARCH narrows them down. One alone is shown with where
    it is rented.

    Exit code 0, or 2 where nothing is meant by SEARCH.
    """
    known, words = _told(_catalog), (search or "").lower().split()
    rows = [
        row
        for row in known.all()
        if all(word in f"{row.id} {row.vendor} {row.name}".lower() for word in words)
    ]
    if len(rows) > 1:
        terminal.show_gpus(rows, known.offers)
        return
    row = rows[0] if rows else _told(lambda: known.find(search)).accelerator
    terminal.show_gpu(row, known.offers)


@main.group()
def catalog() -> None:
    """Check catalog overlays of GPUs, names, prices and quotas."""


@catalog.command("check")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
def check_catalog(path: Path) -> None:
    """Is the own catalog in FILE, or in a folder, sound? Exit code 0 if so, 2 if not, with the
    file, the row and the field."""
    loaded = _told(lambda: OverlayReload(path, bundled())).current
    made = loaded.catalog
    held = (
        f"{len(made.all())} accelerators, {len(made.names)} names, {len(made.quotas)} quotas,"
        f" {len(made.offers.all())} instance types"
    )
    click.echo(f"{', '.join(loaded.files)}: valid. With the bundled catalog: {held}.")


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
    report = _told(lambda: asyncio.run(_refreshed(ids, folder, per_minute)))
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


def _catalog() -> Catalog:
    """Return the catalog of this process: ours, or a company's own over it."""
    mounted = create_mounted(from_environment())
    return mounted.current.catalog if mounted else bundled()


def _answered(ask: Callable[[Services], Awaitable[_Answer]]) -> _Answer:
    """Return the result of `ask` on the services of this process; exit with its error."""
    answer: _Answer = _told(lambda: asyncio.run(_asked(ask)))
    return answer


async def _asked(ask: Callable[[Services], Awaitable[_Answer]]) -> _Answer:
    """Return what `ask` gets from the questions of this process."""
    hub = create_hub(from_environment())
    questions = create_questions(hub, _catalog())
    await hub.start()
    try:
        return await ask(questions)
    finally:
        await questions.close()
        await hub.close()


def _show(answer: _Answer, show: Callable[[_Answer], None], as_json: bool) -> None:
    """Print the answer as JSON, as the API sends it, or through `show`."""
    if as_json:
        echo_json(answer)
    else:
        show(answer)


def _told(ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is asked
    """Return the result of `ask`; print a FitgaugeError and exit with code 2."""
    try:
        return ask()
    except FitgaugeError as error:
        context = click.get_current_context(silent=True)
        if context is not None and context.params.get("as_json"):
            echo_json(_problem(error))
        else:
            echo_error(f"{error.detail}\n{error.hint}")
            if error.matches:
                echo_error("Did you mean: " + ", ".join(error.matches))
        sys.exit(2)


def _problem(error: FitgaugeError) -> dict[str, object]:
    """Return an error as the API's problem+json has it."""
    fields = ("code", "detail", "hint", "field", "matches", "send")
    return {name: value for name in fields if (value := getattr(error, name, None))}
