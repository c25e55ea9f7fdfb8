"""list_models_that_fit: which of the bundled models run on this GPU?"""

from collections.abc import Hashable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from operator import itemgetter

from msgspec import json, msgpack, structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import Block, ModelSpec
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing, responses
from fitgauge.services.common.gpu_count import sent_count
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.name_search import word_match
from fitgauge.services.common.pages import take_page
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.models_for_gpu.capability import capability
from fitgauge.services.models_for_gpu.formats import (
    ListedGpu,
    Served,
    engines_on,
    rows_in,
    widest_row,
)
from fitgauge.services.models_for_gpu.schemas import (
    FittingModel,
    ModelsForGpuAnswer,
    ModelsForGpuRequest,
)
from fitgauge.services.models_for_gpu.summary import in_words
from fitgauge.services.models_for_gpu.training import TrainedModels

_CACHED_MODELS = 1024
"""Models laid out in a format, at some 10 KiB each: a list of one GPU needs some 600, of two unlike
ones 800."""

_LISTS = 8
"""Lists that are held for their other pages, each of some 0.3 MiB."""

_OF_TRAINING = ("method", "sequence_length")
_OF_SERVING = (
    "engine",
    "quantizations",
    "context_length",
    "concurrency",
    "kv_cache_dtype",
    "settings",
)

_MOST_REMEMBERED = 10
"""What is derived from each of them: four facts of it, and three of each of two numbers of GPUs.
Held in fewer, each list works all of them out again."""


class ModelsForGpu:
    """Holds every bundled model, once somebody asks, against one GPU. Tenths of a second, so
    not for an event loop."""

    def __init__(
        self, engines: Engines, snapshot: Snapshot, checkpoints: Checkpoints | None = None
    ) -> None:
        """checkpoints: the published repositories that rows may load."""
        self._engines = engines
        self._checkpoints = checkpoints
        self._trained = TrainedModels(engines)
        self._snapshot = snapshot
        self._preparer = WeightCache(_CACHED_MODELS, _MOST_REMEMBERED, _CACHED_MODELS)
        self._models: dict[str, Model | None] = {}
        self._blocks: dict[Block, Block] = {}
        self._specs: dict[bytes, ModelSpec] = {}
        self._capabilities: dict[str, float] = {}
        self._served: Memo[Hashable, Served] = Memo(_LISTS)
        self._lists: Memo[Hashable, tuple[FittingModel, ...]] = Memo(_LISTS)

    def answer(
        self, request: ModelsForGpuRequest, match: GpuMatch, checkpoint: Checkpoint = no_checkpoint
    ) -> ModelsForGpuAnswer:
        """Return a page of those that fit, in the order of `objective`. Raises InvalidRequestError
        for a format, an engine or a cache format unknown, and for a field of the other task."""
        _refuse_other_fields(request)
        count = sent_count(request.gpu_count, match.count) or 1
        of_any_page = structs.replace(request, gpu="", limit=None, offset=None)
        rows = self._lists.get_or_compute(
            (json.encode(of_any_page), match.accelerator, count),
            lambda: self._list(request, match, count, checkpoint),
        )
        items, following = take_page(
            islice(rows, request.offset or 0, None),
            request.limit,
            request.offset,
            len(rows),
            lambda row: row,
        )
        return ModelsForGpuAnswer(
            gpu=responses.gpu_answer(match.accelerator, count),
            items=items,
            total=len(rows),
            next_offset=following,
            summary=in_words(
                responses.gpu_count_in_words(match.accelerator, count), items, len(rows)
            ),
            warnings=match.warnings,
        )

    def _list(
        self, request: ModelsForGpuRequest, match: GpuMatch, count: int, checkpoint: Checkpoint
    ) -> tuple[FittingModel, ...]:
        """Return the rows of all pages, in the order that the request wants."""
        rank = _by_size if request.objective == "largest" else self._capability
        runs_by = match.accelerator, count, request.engine, request.kv_cache_dtype
        served = self._served.get_or_compute(runs_by, dict)
        engines = () if request.task == "training" else engines_on(request, match.accelerator)
        gpu = ListedGpu(request, match, count, engines, served, {})
        rows = [
            (-rank(model, row.parameters), row.model.lower(), row)
            for model in self._meant(request, checkpoint)
            for row in self._rows_of(gpu, model, checkpoint)
        ]
        rows.sort(key=itemgetter(0, 1))
        return tuple(row for _, _, row in rows)

    def _capability(self, model: Model, parameters: int) -> float:
        """Return `capability`, worked out once."""
        if model.id not in self._capabilities:
            self._capabilities[model.id] = capability(model, parameters)
        return self._capabilities[model.id]

    def _rows_of(
        self, gpu: ListedGpu, model: Model, checkpoint: Checkpoint
    ) -> Iterable[FittingModel]:
        """Return the rows of one model."""
        request = gpu.request
        if request.task == "training":
            row = self._trained.row(request, model, gpu.match, gpu.count, checkpoint)
            return () if row is None else (row,)
        fitting = BatchEstimator(
            model, self._engines, self._preparer, checkpoint, self._checkpoints
        )
        if request.quantizations is None:
            row = widest_row(gpu, fitting, model)
            return () if row is None else (row,)
        return rows_in(gpu, fitting, model, parsing.quantizations(request.quantizations))

    def _bundled(self, checkpoint: Checkpoint) -> Iterator[Model]:
        """Yield every bundled model, read when it is first asked for."""
        for model_id in self._snapshot.own_ids:
            checkpoint()
            if model_id not in self._models:
                self._models[model_id] = self._read(model_id)
            model = self._models[model_id]
            if model is not None:
                yield model

    def _read(self, model_id: str) -> Model | None:
        """Return a bundled model, whose layers are those of another where they are the same: more
        than half are; and all that it is made of, as of one in six."""
        model = self._snapshot.model(model_id)
        if model is None:
            return None
        digest = blake2b(msgpack.encode(model.spec), digest_size=16).digest()
        if digest not in self._specs:
            blocks = tuple(self._blocks.setdefault(block, block) for block in model.spec.blocks)
            self._specs[digest] = structs.replace(model.spec, blocks=blocks)
        return structs.replace(model, spec=self._specs[digest])

    def _meant(self, request: ModelsForGpuRequest, checkpoint: Checkpoint) -> Iterator[Model]:
        """Yield the models that are asked about: by task and by words of their name."""
        matches = word_match(request.search)
        for model in self._bundled(checkpoint):
            spec = model.spec
            if request.task in (None, "serving", "training", spec.task) and matches(
                f"{model.id} {spec.model_type} {spec.architecture}"
            ):
                yield model


def _by_size(model: Model, parameters: int) -> float:
    """Return the parameters of a model that generates text; other models come after those."""
    return 0.0 if model.spec.task == "encode" else float(parameters)


def _refuse_other_fields(request: ModelsForGpuRequest) -> None:
    """Raise InvalidRequestError for a field of the other task."""
    trains = request.task == "training"
    for name in _OF_SERVING if trains else _OF_TRAINING:
        if getattr(request, name) is not None:
            raise InvalidRequestError(
                f"`{name}` is a field of {'serving' if trains else 'training'}.",
                hint=f"Leave out `{name}`, or send another `task`.",
                field=name,
                code="conflicting-fields",
            )
