"""What a fleet is, as its file has it, and what is answered about it."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from fitgauge.errors import ErrorCode
from fitgauge.services.common.reading_schemas import Verdict
from fitgauge.services.common.schemas import SettingsMode
from fitgauge.services.compare.schemas import CellNote

MOST_MODELS, MOST_GPUS, MOST_LOADS = 2_000, 200, 50
"""Entries of a file."""

MOST_ROWS = 1_000_000
"""Rows of a fleet."""

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Names = Annotated[list[Name], Meta(min_length=1, max_length=200)]


class ModelEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """A model that the fleet serves."""

    model: Name
    """As check_fit takes it."""
    name: Name | None = None
    """What rows call it; the model where it is left out."""
    replicas: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """Copies that run at once."""
    loads: Names | None = None
    """Names of the loads that a copy must hold, one at a time; all where it is left out."""
    gpus: Names | None = None
    """Names of the GPUs that it may run on; all where it is left out."""
    quantization: Name | None = None
    """Format of the weights."""
    engine: Name | None = None
    """The engine, instead of the fleet's."""
    kv_cache_dtype: Name | None = None
    """Format of the KV cache."""

    @property
    def title(self) -> str:
        """What rows call it."""
        return self.name or self.model


class GpuEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """GPUs of one kind, in machines of one size."""

    gpu: Name
    """As check_fit takes it; a count in it is `count`."""
    name: Name | None = None
    """What rows call them; the GPU where it is left out."""
    count: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """How many there are, machines where `gpu` names one of a cloud; without bound where it is left
    out."""
    per_machine: Annotated[int, Meta(ge=1, le=1_024)] | None = None
    """GPUs of a machine; what is usual for the GPU where it is left out."""
    usd_per_hour: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    """Price of one GPU [USD/h]; the catalog's lowest where it is left out."""

    @property
    def title(self) -> str:
        """What rows call them."""
        return self.name or self.gpu


class LoadEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a copy of a model is asked to hold."""

    name: Name
    """What rows call it."""
    context_length: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None
    """Tokens of a request; as in check_fit where it is left out."""
    concurrency: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    """Requests at once."""


class Fault(Struct, kw_only=True, tag_field="kind", tag="fault"):
    """An entry of the file that is not answered; the others are."""

    line: int
    """Its line in the file, from 1."""
    code: ErrorCode
    """The code of the error."""
    message: str
    """What is wrong, and what to write instead."""
    matches: list[str] = []
    """Up to five close matches."""


class Fleet(Struct, kw_only=True):
    """A file that was read."""

    models: list[ModelEntry]
    """The models."""
    gpus: list[GpuEntry]
    """The GPUs."""
    loads: list[LoadEntry]
    """The loads."""
    engine: str | None = None
    """The engine of all models that name none; as in check_fit where it is left out."""
    engine_version: str | None = None
    """The release of that engine."""
    settings: SettingsMode | None = None
    """As in compare_fit."""
    faults: list[Fault] = []
    """Entries that cannot be read."""
    lines: dict[str, dict[str, int]] = {}
    """Lines of the entries, by section and title."""


class FleetRow(Struct, kw_only=True, gc=False, tag_field="kind", tag="row"):
    """One model on GPUs of one kind under one load: the fewest GPUs that hold it, else the most
    that it may take."""

    name: str
    """The model's entry."""
    model: str
    """The model as it was read."""
    gpu: str
    """The GPUs' entry."""
    load: str
    """The load."""
    verdict: Verdict
    """Whether it fits on `gpu_count` of them."""
    gpu_count: int | None
    """GPUs of a copy; null where it is unsupported."""
    engine: str
    """Serving engine."""
    quantization: str
    """Format of the weights."""
    context_length: int
    """Tokens of a request."""
    concurrency: int
    """Requests at once."""
    question: str
    """What the row answers, as a short hash: a results file is read again by it."""
    required_bytes: int | None = None
    """What the fullest GPU needs."""
    budget_bytes: int | None = None
    """What the engine may use of it."""
    usd_per_hour: float | None = None
    """Price of a copy's GPUs [USD/h]; null where none is known."""
    chosen: dict[str, int | float | bool] = {}
    """Settings that differ from the engine's defaults."""
    note: CellNote | None = None
    """Why it is unsupported."""


class PoolAnswer(Struct, kw_only=True):
    """GPUs of the fleet as they were read."""

    name: str
    """Their entry."""
    gpu: str
    """The GPU."""
    count: int | None
    """How many there are; null for no bound."""
    per_machine: int
    """GPUs of a machine."""
    usd_per_hour: float | None
    """Price of one GPU [USD/h]; null where none is known."""
    as_of: str | None
    """Date of the catalog's price; null for the file's own."""


class Placement(Struct, kw_only=True, frozen=True):
    """Copies of a model on GPUs of one kind."""

    name: str
    """The model's entry."""
    gpu: str
    """The GPUs' entry."""
    replicas: int
    """Copies there."""
    gpu_count: int
    """GPUs of each copy."""


class PoolUse(Struct, kw_only=True, frozen=True):
    """What a plan takes of the GPUs of one kind."""

    gpu: str
    """Their entry."""
    gpus: int
    """GPUs that copies run on."""
    machines: int
    """Machines that hold them, each paid whole."""
    usd_per_hour: float | None
    """Price of the machines [USD/h]; null where none is known."""


class Plan(Struct, kw_only=True):
    """Where every copy of every model runs."""

    objective: Literal["fewest", "cheapest"]
    """What was minimised: GPUs that copies run on, or the price of the machines."""
    gpus: int
    """GPUs that copies run on."""
    machines: int
    """Machines that hold them."""
    usd_per_hour: float | None
    """Price of the machines [USD/h]; null where one of them has none."""
    gap: float
    """How much better another plan may be, as a share: 0 where none is."""
    pools: list[PoolUse]
    """What it takes of each kind of GPU."""
    placements: list[Placement]
    """Where copies run, in the order of the file."""
    unplaced: dict[str, int] = {}
    """Copies that find no GPUs, by the model's entry."""


class FleetAnswer(Struct, kw_only=True, tag_field="kind", tag="answer"):
    """The fleet as a whole."""

    summary: str
    """In a sentence or two."""
    models: int
    """Models that were answered."""
    rows: int
    """Rows that were answered."""
    skipped: int
    """Rows of them that the results file had."""
    fit: list[str]
    """Models that fit under each of their loads on GPUs of one kind, by entry."""
    tight: list[str]
    """Models that fit so at best tightly."""
    do_not_fit: list[str]
    """Models that fit on none."""
    why: dict[str, str] = {}
    """What lacks of those that do not fit or are tight, by entry: the load, and the GPUs that come
    nearest to holding it."""
    pools: list[PoolAnswer]
    """The GPUs."""
    counts: dict[str, dict[str, int]]
    """The fewest GPUs of a copy, by the model's entry and the GPUs' entry, where it fits."""
    plans: list[Plan] = []
    """The fewest and the cheapest GPUs for all together."""
    no_plan: str | None = None
    """Why there are no plans."""
    faults: list[Fault] = []
    """Entries that were not answered."""


class TermChange(Struct, kw_only=True, frozen=True):
    """What a release changes of a part of a GPU's memory."""

    term: str
    """The term."""
    before_bytes: int
    """Its size on the release before."""
    after_bytes: int
    """Its size on the release after."""


class DriftRow(Struct, kw_only=True, tag_field="kind", tag="drift"):
    """One model on GPUs of one kind under one load, on two releases."""

    name: str
    """The model's entry."""
    gpu: str
    """The GPUs' entry."""
    load: str
    """The load."""
    change: Literal["stops", "needs_more", "needs_fewer", "starts"]
    """`stops`: fits before and on no count after; `needs_more`, `needs_fewer`: GPUs of a copy;
    `starts`: fits after alone."""
    gpu_count_before: int | None
    """GPUs of a copy before; null where it does not fit."""
    gpu_count_after: int | None
    """GPUs of a copy after; null likewise."""
    at_gpu_count: int
    """GPUs for which the sizes below hold."""
    verdict_before: Verdict
    """The verdict before, on so many."""
    verdict_after: Verdict
    """The verdict after, on so many."""
    required_bytes: tuple[int, int] | None = None
    """What the fullest GPU needs before and after; null where one of them is unsupported."""
    budget_bytes: tuple[int, int] | None = None
    """What the engine may use of it before and after; null likewise."""
    terms: list[TermChange] = []
    """What changes of the need, the largest first."""
    note: CellNote | None = None
    """Why it is unsupported."""


class DriftAnswer(Struct, kw_only=True, tag_field="kind", tag="answer"):
    """What a release changes for the fleet."""

    summary: str
    """In a sentence or two."""
    engine: str
    """The engine."""
    before: str
    """The release before."""
    after: str
    """The release after."""
    models: int
    """Models that were asked about."""
    stop: list[str]
    """Models that fit before and not after, by entry: under one load on GPUs of one kind."""
    grow: list[str]
    """Other models that need more GPUs."""
    rows: list[DriftRow]
    """What changes."""
    not_asked: list[str] = []
    """Models of another engine."""
    faults: list[Fault] = []
    """Entries that were not answered."""


Line: TypeAlias = FleetRow | Fault | FleetAnswer | DriftRow | DriftAnswer
"""A line of what is printed as JSON."""
