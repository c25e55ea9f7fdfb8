"""The public truth set: what engines printed of their memory, as questions of the API with what was
measured.

`serving.jsonl`: a run a line: `question` (fields of POST /v1/fit), `outcome`, `measured` (sizes
per GPU, in the unit their names end in, as printed), `scores` (what of it may be scored),
`source`. `models.jsonl`: quantized repositories beside the bundled snapshot, each the config of
its base with other settings. Split by a hash of the source: calibration sees `fit` alone."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model, Stored
from fitgauge.errors import FitgaugeError
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.service import FitService

HERE = Path(__file__).parent
GIB = 2**30
FIT_SHARE = 70
ONE_CAMPAIGN = {"llm-d-incubation/llm-d-planner#205": "llm-d-incubation/llm-d-planner"}
"""Threads that hold runs of a repository's own campaign."""
FOLDS = 6
"""Parts that all campaigns are dealt to by a hash: each is left out once."""

Scored = Literal["weights", "planner", "kv_tokens", "activations", "need", "outcome", "training"]


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One posted run. `build`: the version as printed where it is no release; `settings`: what
    the API has no word for."""

    id: str
    question: dict[str, Any]
    outcome: str | None
    measured: dict[str, Any]
    scores: list[Scored]
    source: str
    build: str | None = None
    total_gpu_gib: float | None = None
    settings: dict[str, Any] = {}
    error: str | None = None
    note: str | None = None

    @property
    def part(self) -> Literal["fit", "check"]:
        """The part that a hash of its source puts it in: 70 % fit, 30 % check."""
        if int(sha256(self.source.encode()).hexdigest()[:8], 16) % 100 < FIT_SHARE:
            return "fit"
        return "check"

    @property
    def campaign(self) -> str:
        """The thread or repository behind the source: files of a repository are one campaign."""
        if self.source.startswith("http"):
            return self.source
        where, _, file = self.source.partition(":")
        thread = re.sub(r"#\d+$", "", where) if file else where
        return ONE_CAMPAIGN.get(thread, thread)

    @property
    def fold(self) -> int:
        """The part of the campaigns that this one is left out with."""
        return int(sha256(self.campaign.encode()).hexdigest()[:8], 16) % FOLDS

    @property
    def engine(self) -> str:
        return str(self.question.get("engine", "vllm"))

    @property
    def version(self) -> tuple[int, ...] | None:
        """The release in numbers, None where none was printed."""
        text = self.question.get("engine_version")
        return tuple(int(part) for part in text.split(".")) if text else None

    @property
    def request(self) -> FitRequest:
        return msgspec.convert(
            self.question | {"detail": "full", "settings": "defaults"}, FitRequest
        )


@cache
def runs() -> tuple[Run, ...]:
    """Return every run of serving.jsonl."""
    return tuple(
        msgspec.json.decode(line, type=Run)
        for line in (HERE / "serving.jsonl").read_bytes().splitlines()
    )


def source_weights(chosen: list[Run]) -> list[float]:
    """Return a weight for every run so that all campaigns weigh the same."""
    size = Counter(run.campaign for run in chosen)
    return [1 / size[run.campaign] for run in chosen]


@cache
def variants() -> dict[str, dict[str, Any]]:
    """Return the rows of models.jsonl by id."""
    rows = (json.loads(line) for line in (HERE / "models.jsonl").read_text().splitlines())
    return {row["id"]: row for row in rows}


_SNAPSHOT = Snapshot()


@cache
def model(name: str) -> Model | None:
    """Return the model of the bundled snapshot by its own config, or of models.jsonl; None where
    neither has it."""
    variant = variants().get(name)
    row = _SNAPSHOT.get(variant["base"] if variant else name)
    if row is None or row.like is not None:
        return None
    if variant:
        config = row.config | {"quantization_config": variant["quantization_config"]}
    else:
        config = row.config
    stored = Stored(elements=row.elements) if row.elements and not variant else None
    return Model(
        id=name,
        source="snapshot",
        spec=read_config(config, None if variant else row.quantization),
        stored=stored,
    )


_Answer = TypeVar("_Answer")

SERVING = FitService(load_engines())


def answer(run: Run, **changes: Any) -> FitAnswer | None:
    """Return the answer to a run's question, None where its model is unknown here. Raises
    FitgaugeError where it is refused."""
    return _ask(run, changes, SERVING.answer)


def check(run: Run, service: FitService = SERVING, **changes: Any) -> FitEstimate | None:
    """Return the estimate behind the answer of a service."""
    return _ask(run, changes, service.check)


def _ask(run: Run, changes: dict[str, Any], how: Callable[..., _Answer]) -> _Answer | None:
    resolved = model(run.question["model"])
    if resolved is None:
        return None
    request = msgspec.convert(
        {**run.question, **changes, "detail": "full", "settings": "defaults"}, FitRequest
    )
    return how(request, resolved, bundled().find(request.gpu))


def estimated(part: str | None, scored: Scored) -> Iterator[tuple[Run, FitEstimate]]:
    """Run of a part that may be scored for something, with their estimates; those that are
    refused or unknown are left out."""
    for run in runs():
        if scored in run.scores and part in (None, run.part):
            try:
                result = check(run)
            except FitgaugeError:
                continue
            if result is not None:
                yield run, result
