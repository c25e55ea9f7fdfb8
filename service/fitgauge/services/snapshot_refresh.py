"""Reread rows of the bundled snapshot from the Hub.

Every answer is appended to a state file, so that a run that was interrupted goes on where it
stopped; the data files are replaced at the end, each in one step.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from fitgauge import __version__, catalog
from fitgauge.catalog.snapshot import SnapshotModel
from fitgauge.errors import FitgaugeError, HubBusyError, HubUnreachableError
from fitgauge.hub import Hub, Reference
from fitgauge.hub.metadata import RepoMetadata, model_of, read_json

DATA_FOLDER = Path(catalog.__file__).parent / "data"
OWN, DERIVED = "models.jsonl", "models_derived.jsonl"
STATE = "models.refresh.jsonl"
PER_MINUTE = 60
"""Repositories read in a minute, two requests each: far below what the Hub allows an address."""
_ATTEMPTS = 3
_MOST_WAIT_SECONDS = 120.0


class RefreshedRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the state file: the new row of a repository, or why there is none."""

    id: str
    """Hugging Face Hub ID."""
    row: SnapshotModel | None = None
    """The new row; None where there is none."""
    error: str = ""
    """Why there is none."""


class RefreshReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole run did."""

    refreshed: int
    """Number of rows that are new."""
    refused: tuple[RefreshedRow, ...]
    """Rows that stay as they were."""


class SnapshotRefresh:
    """One run over a folder with the data files.

    `say`: takes one line of progress. `today`: the date of new rows."""

    def __init__(
        self,
        hub: Hub,
        folder: Path,
        *,
        per_minute: int = PER_MINUTE,
        say: Callable[[str], None] = print,
        today: Callable[[], str] = lambda: datetime.now(UTC).date().isoformat(),
    ) -> None:
        self._hub = hub
        self._folder = folder
        self._seconds = 60 / per_minute
        self._say = say
        self._today = today

    async def run(self, ids: Sequence[str] = ()) -> RefreshReport:
        """Reread these ids, all of the files without any; what the state file holds already is
        not asked again.

        Raises HubUnreachableError where the Hub does not answer: the state file stays."""
        state = self._folder / STATE
        done = {one.id: one for one in _read_state(state)}
        _replace(state, map(msgspec.json.encode, done.values()))
        wanted = list(ids) or self._known_ids()
        for number, model_id in enumerate(wanted, 1):
            if model_id in done:
                continue
            started = time.monotonic()
            one = await self._reread(model_id)
            with state.open("ab") as file:
                file.write(msgspec.json.encode(one) + b"\n")
            done[model_id] = one
            self._say(f"{number}/{len(wanted)} {model_id}: {one.error or 'read'}")
            if number < len(wanted):
                await asyncio.sleep(max(0.0, started + self._seconds - time.monotonic()))
        rows = {one.id: one.row for one in done.values() if one.row is not None}
        self._write(rows)
        state.unlink(missing_ok=True)
        refused = tuple(one for one in done.values() if one.row is None)
        return RefreshReport(refreshed=len(rows), refused=refused)

    async def _reread(self, model_id: str) -> RefreshedRow:
        """Return the row as the Hub has it now, or why there is none."""
        for attempt in range(_ATTEMPTS):
            try:
                facts = await self._hub.metadata(Reference(model_id))
                return RefreshedRow(id=model_id, row=self._row(model_id, facts))
            except (HubBusyError, HubUnreachableError) as error:
                if attempt + 1 == _ATTEMPTS or self._hub.offline:
                    raise
                seconds = min(error.retry_after_seconds, _MOST_WAIT_SECONDS)
                self._say(f"{model_id}: {error.detail} Waiting {seconds:g} s.")
                await asyncio.sleep(seconds)
            except FitgaugeError as error:
                return RefreshedRow(id=model_id, error=error.detail)
        raise AssertionError("the last attempt raises")

    def _row(self, model_id: str, facts: RepoMetadata) -> SnapshotModel:
        """Return the row that follows from what the Hub says. Raises MalformedModelError where
        no model can be read from it."""
        model = model_of(msgspec.structs.replace(facts, gguf=None))
        assert facts.config is not None
        config = read_json(facts.config, "config.json")
        config.pop("_name_or_path", None)
        return SnapshotModel(
            id=model_id,
            source=f"{self._hub.settings.endpoint}/{facts.repo_id} at {facts.sha}, config.json",
            date=self._today(),
            parameters=model.spec.parameters,
            counted=f"read by fitgauge {__version__} from this config",
            quantization=read_json(facts.quantization, "hf_quant_config.json")
            if facts.quantization
            else None,
            elements=model.stored.elements if model.stored else {},
            config=_finite_values(config),
        )

    def _known_ids(self) -> list[str]:
        """Return the ids of both files."""
        return [_id_of(line) for name in (OWN, DERIVED) for line in _lines(self._folder / name)]

    def _write(self, rows: dict[str, SnapshotModel]) -> None:
        """Put the rows into the first file and take them out of the second."""
        refreshed = {model_id.lower(): _encoded(row) for model_id, row in rows.items()}
        own = {_id_of(line).lower(): line for line in _lines(self._folder / OWN)} | refreshed
        derived = [
            line for line in _lines(self._folder / DERIVED) if _id_of(line).lower() not in refreshed
        ]
        _replace(self._folder / OWN, (own[model_id] for model_id in sorted(own)))
        _replace(self._folder / DERIVED, derived)


class _Id(msgspec.Struct):
    id: str
    """Hugging Face Hub ID."""


def _id_of(line: bytes) -> str:
    return msgspec.json.decode(line, type=_Id).id


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def _read_state(path: Path) -> list[RefreshedRow]:
    """Return what the state file holds; a last line that was cut off is left out."""
    rows = []
    for line in _lines(path):
        with suppress(msgspec.DecodeError):
            rows.append(msgspec.json.decode(line, type=RefreshedRow))
    return rows


def _encoded(row: SnapshotModel) -> bytes:
    """Return a line of models.jsonl: the id first, nothing that is left out."""
    order = ("id", "source", "date", "parameters", "counted", "quantization", "elements", "config")
    values = {name: getattr(row, name) for name in order}
    return msgspec.json.encode({name: value for name, value in values.items() if value})


def _finite_values(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config without the keys whose value no JSON holds: infinite, or not a number."""
    return {
        key: _finite_values(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if not _is_infinite(value)
    }


def _is_infinite(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(
        isinstance(one, float) and (one != one or abs(one) == float("inf")) for one in values
    )


def _replace(path: Path, lines: Iterable[bytes]) -> None:
    """Replace a file in one step."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.writelines(line + b"\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
