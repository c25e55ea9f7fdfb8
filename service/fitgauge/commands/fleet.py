"""`fitgauge fleet`: a file of models, GPUs and loads, read here, answered by the services."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

import click
import msgspec

from fitgauge.commands.local_catalog import local_catalog
from fitgauge.commands.local_services import on_hub
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.hub import Hub
from fitgauge.hub.local_files import is_path, read_local
from fitgauge.questions import create_engines, create_models
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fleet.drift import DriftSummary, Releases
from fitgauge.services.fleet.fleet_file import LONGEST, read_fleet
from fitgauge.services.fleet.schemas import Fault, Fleet, FleetRow, Line
from fitgauge.services.fleet.service import WHOLE, FleetService, Shard
from fitgauge.services.fleet.summary import FleetSummary
from fitgauge.settings import Settings
from fitgauge.terminal.fleet import show_drift, show_fleet

_NO_ANSWER = 2
_INDEX = "JOB_COMPLETION_INDEX"
"""Where an indexed Job of Kubernetes says which of its pods runs, from 0."""

_YAML = frozenset({".yaml", ".yml", ".json"})
_STEPS = 10
"""How often progress is printed."""


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--engine-version", help="The release of the fleet's engine, instead of the file's.")
@click.option(
    "--against",
    metavar="RELEASE",
    help="What changes from this release to the other: models that stop fitting, and why.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    help="Add the rows to this file, and answer only those that it lacks; a folder has a file for"
    " each part.",
)
@click.option(
    "--shard",
    metavar="PART/PARTS",
    help="Answer one part of the models, such as 3/20. PARTS alone takes the part from"
    f" {_INDEX}, which Kubernetes sets.",
)
@click.option("--json", "as_json", is_flag=True, help="One row a line, as JSON, then the answer.")
def fleet(
    file: Path,
    engine_version: str | None,
    against: str | None,
    results: Path | None,
    shard: str | None,
    as_json: bool,
) -> None:
    """Which of the models in FILE (TOML, or YAML) fit on which of its GPUs under its loads, what it
    costs, and the fewest GPUs for all of them. With --against: what a release of the engine
    changes.

    Exit code 0 if all fit, 3 if some fit only tightly, 1 if some fit on none (with --against: stop
    fitting), 2 where an entry or the file cannot be answered. With --shard 0, whatever fits.
    """
    if against is not None and (results or shard):
        raise click.UsageError("--against takes neither --results nor --shard.")
    part = _shard(shard)

    async def run(hub: Hub, settings: Settings) -> int:
        models, catalog = create_models(hub), local_catalog()

        async def find(text: str) -> Model:
            return read_local(text) if is_path(text) else await models.find(text)

        engines = create_engines(settings, catalog)
        service = FleetService(find, Checkpoints(models), engines, catalog)
        question = _read(file, engine_version)
        if against is not None:
            return await _drift(service, question, against, as_json=as_json)
        return await _answered(service, question, results, part, as_json=as_json)

    sys.exit(on_hub(run))


class _Lines:
    """Prints lines of JSON where they are asked for."""

    def __init__(self, *, as_json: bool) -> None:
        self._encoder = msgspec.json.Encoder() if as_json else None

    def write(self, lines: Iterable[Line]) -> None:
        """Print these lines."""
        if self._encoder is not None:
            click.echo(self._encoder.encode_lines(lines), nl=False)


class _Progress:
    """Says on standard error how far a long answer is."""

    def __init__(self, models: int) -> None:
        self._models = models
        self._done = 0

    def step(self) -> None:
        """Count a model."""
        self._done += 1
        tenth = self._models // _STEPS
        if tenth > 1 and self._done % tenth == 0:
            click.echo(f"{self._done} of {self._models} models", err=True)


def _read(file: Path, engine_version: str | None) -> Fleet:
    """Return the fleet of a file. Raises InvalidRequestError."""
    with file.open(encoding="utf-8", errors="replace") as text:
        fleet = read_fleet(text.read(LONGEST + 1), is_yaml=file.suffix.lower() in _YAML)
    if engine_version is not None:
        fleet.engine_version = engine_version
    return fleet


def _shard(text: str | None) -> Shard:
    """Return the part that is meant. Raises click.BadParameter."""
    if text is None:
        return WHOLE
    part, _, total = text.rpartition("/")
    index = os.environ.get(_INDEX, "")
    if not part and index.isdigit():
        part = str(int(index) + 1)
    if not (part.isdigit() and total.isdigit() and 1 <= int(part) <= int(total)):
        raise click.BadParameter(
            f"{text!r} is no part: of 20 they are 1/20 to 20/20, or 20 where {_INDEX} is set.",
            param_hint="'--shard'",
        )
    return Shard(int(part), int(total))


async def _answered(
    service: FleetService, fleet: Fleet, results: Path | None, shard: Shard, *, as_json: bool
) -> int:
    """Print the rows and the answer, and return the exit code."""
    question, out = service.question(fleet), _Lines(as_json=as_json)
    summary = FleetSummary(question, shard)
    progress = _Progress(len(shard.models(fleet.models)))
    own, others = _files(results, shard) if results is not None else (None, [])
    previous = {row.question: row for path in others for row in _rows(path)}
    with closing(_Results(own)) as file:
        async for batch in service.batches(question, previous, shard):
            file.add([row for row in batch.rows if row.question not in previous])
            out.write(batch.rows)
            summary.add(batch)
            progress.step()
    answer = summary.answer()
    out.write([*answer.faults, answer])
    if not as_json:
        show_fleet(answer)
    if shard.total > 1:
        return 0
    return _code(bool(answer.do_not_fit), answer.faults, tight=bool(answer.tight))


async def _drift(service: FleetService, fleet: Fleet, against: str, *, as_json: bool) -> int:
    """Print what a release changes, and return the exit code."""
    question, out = service.question(fleet), _Lines(as_json=as_json)
    engine = fleet.engine or DEFAULT_ENGINES[0]
    after = fleet.engine_version or service.engines.profile(engine, None).newest
    releases = Releases(service, question, before=against, after=after)
    summary, progress = DriftSummary(releases, question.faults), _Progress(len(fleet.models))
    async for batch in releases.batches():
        out.write(batch.rows)
        summary.add(batch)
        progress.step()
    answer = summary.answer()
    out.write([*answer.faults, answer])
    if not as_json:
        show_drift(answer)
    return _code(bool(answer.stop), answer.faults)


def _code(fails: bool, faults: list[Fault], *, tight: bool = False) -> int:
    """Return the exit code: of what does not fit, of faults, of what is tight, in this order."""
    return 1 if fails else _NO_ANSWER if faults else 3 if tight else 0


class _Results:
    """A file of rows, which rows are added to."""

    def __init__(self, path: Path | None) -> None:
        """path: None for no file. A line that an interrupted run left is ended."""
        self._file: IO[bytes] | None = None
        if path is not None:
            self._file = path.open("ab+")
            if self._file.seek(0, os.SEEK_END):
                self._file.seek(-1, os.SEEK_END)
                self._file.write(b"" if self._file.read(1) == b"\n" else b"\n")

    def add(self, rows: list[FleetRow]) -> None:
        """Add these rows, all of one model, so that an interrupted run has whole lines."""
        if self._file is not None and rows:
            self._file.write(msgspec.json.Encoder().encode_lines(rows))
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _files(results: Path, shard: Shard) -> tuple[Path, list[Path]]:
    """Return the file to add rows to, and those whose rows are read."""
    if results.suffix and not results.is_dir():
        return results, [results] if results.exists() else []
    results.mkdir(parents=True, exist_ok=True)
    own = results / f"{shard.number}-of-{shard.total}.ndjson"
    return own, sorted(results.glob("*.ndjson"))


def _rows(path: Path) -> Iterator[FleetRow]:
    """Yield the rows of a results file; a line that an interrupted run left is no row."""
    decoder = msgspec.json.Decoder(FleetRow)
    with path.open("rb") as lines:
        for line in lines:
            with suppress(msgspec.DecodeError):
                yield decoder.decode(line)
