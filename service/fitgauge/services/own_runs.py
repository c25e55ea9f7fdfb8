"""Runs that a company measured itself: by them the estimate's doubt follows, for the GPU and the
release that ran."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.doubt import own_share
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.errors import FitgaugeError, InvalidSettingsError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.service import FitService

LARGEST = 2**22
"""Bytes of all files together."""


class OwnRun(msgspec.Struct, frozen=True, kw_only=True):
    """What of a row of truth says how far an estimate was off."""

    question: dict[str, Any]
    """The fields of the request."""
    measured: dict[str, Any]
    """Sizes per GPU, in the unit that their names end in."""
    scores: list[str] = []
    """What of it an estimate may be held to."""
    settings: dict[str, Any] = {}
    """What the contract has no word for; `cpu` where no GPU ran."""
    total_gpu_gib: float | None = None
    """Memory of the GPU as the engine printed it [GiB]."""


def read_own_runs(path: Path) -> tuple[OwnRun, ...]:
    """Return the rows of a .jsonl file, or of all in a folder.

    Raises InvalidSettingsError where they cannot be read, which names the line."""
    try:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if sum(file.stat().st_size for file in files) > LARGEST:
            raise _unreadable(f"{path} holds more than {LARGEST // 2**20} MiB")
        lines = [
            (file.name, number, line)
            for file in files
            for number, line in enumerate(file.read_bytes().splitlines(), start=1)
            if line.strip()
        ]
    except OSError as error:
        raise _unreadable(f"{path}: {error.strerror}") from None
    return tuple(_row(*line) for line in lines)


def _row(name: str, number: int, line: bytes) -> OwnRun:
    try:
        return msgspec.json.decode(line, type=OwnRun)
    except msgspec.DecodeError as error:
        raise _unreadable(f"{name}, line {number}: {error}") from None


def _unreadable(detail: str) -> InvalidSettingsError:
    return InvalidSettingsError(
        f"FITGAUGE_TRUTH: {detail}.",
        hint="Set it to a .jsonl file of `fitgauge measure`, or to a folder of them.",
    )


def with_own_runs(
    engines: Engines, runs: Iterable[OwnRun], catalog: Catalog, snapshot: Snapshot
) -> Engines:
    """Return the profiles with the doubt that these runs leave, by engine, release and GPU. Runs
    that do not say what was needed, or whose model is not bundled, change nothing."""
    service = FitService(engines)
    misses: defaultdict[tuple[str, tuple[int, int]], defaultdict[str, list[float]]]
    misses = defaultdict(lambda: defaultdict(list))
    for profile, gpu, miss in _misses(service, runs, catalog, snapshot):
        misses[profile.engine, profile.since][gpu].append(miss)
    shares: Mapping[tuple[str, tuple[int, int]], dict[str, float]] = {
        release: {gpu: own_share(each) for gpu, each in by_gpu.items()}
        for release, by_gpu in misses.items()
    }
    return engines.with_own_shares(shares)


def _misses(
    service: FitService, runs: Iterable[OwnRun], catalog: Catalog, snapshot: Snapshot
) -> Iterator[tuple[EngineProfile, str, float]]:
    """Yield the profile, the GPU and measurement / estimate - 1 of what was needed."""
    for run in runs:
        if run.settings.get("cpu"):
            continue
        try:
            checked = _checked(service, run, catalog, snapshot)
        except (FitgaugeError, msgspec.ValidationError):
            continue
        if checked is None or checked.refused is not None:
            continue
        both = _need(run, checked)
        if both is not None:
            measured, expected = both
            yield checked.query.profile, checked.query.accelerator.id, measured / expected - 1


def _checked(
    service: FitService, run: OwnRun, catalog: Catalog, snapshot: Snapshot
) -> FitEstimate | None:
    model = snapshot.model(str(run.question.get("model")))
    request = msgspec.convert(run.question | {"settings": "defaults"}, FitRequest)
    if model is None or request.gpu is None:
        return None
    return service.check(request, model, catalog.find(request.gpu))


def _need(run: OwnRun, checked: FitEstimate) -> tuple[float, float] | None:
    """Return what was needed and what was expected [bytes]: all but the cache where the log says
    what was left for it, else what the process held."""
    stage = checked.estimate.fullest
    share, pool = run.question.get("gpu_memory_utilization"), run.measured.get("kv_gib")
    if "need" in run.scores and run.total_gpu_gib and share and pool:
        return (run.total_gpu_gib * share - pool) * GIB, float(stage.fixed_bytes)
    if "weights" in run.scores and (process := run.measured.get("process_gib")):
        return process * GIB, float(stage.required.expected)
    return None
