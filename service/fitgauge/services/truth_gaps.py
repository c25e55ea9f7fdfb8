"""What no run, or few, have shown: classes of GPU that an engine was never measured on, and figures
that rest on least evidence, each with what would mend it."""

from collections.abc import Iterable, Iterator, Mapping
from math import inf

import msgspec
from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.serving.doubt import doubt, gpu_class
from fitgauge.engine.serving.profile import Coefficient, EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.training.profile import TrainingProfile

TRAINING = "training"
"""The engine of a figure of training."""

FIGURES = 20
"""How many of the figures are listed."""

MEND: Mapping[str, str] = {
    "logits_copies": "a start that prints its activation peak, of a model with a large vocabulary",
    "second_logits_copies": "the same start under the second model runner",
    "hidden_copies": "a start that prints its activation peak, of a model with a wide MLP",
    "graph_bytes": "a start that prints what CUDA graphs took, of a model with few layers",
    "graph_layer_bytes": "a start that prints what CUDA graphs took, of a model with many layers",
    "graph_latent_layer_bytes": "what CUDA graphs took of a model with latent attention",
    "runtime_bytes": "one GPU: the size of the process and of its tensors",
    "communication_bytes": "two GPUs and one: the size of a process and of its tensors",
    "plain_communication_bytes": "two GPUs without NVLink: sizes of a process and of its tensors",
    "context_share": "a start that prints free and total memory before it loads",
    "unified_share": "free and total memory before a start on a machine with unified memory",
    "fragmentation": "a training run that prints the peaks allocated and reserved",
    "fragmentation_logits": "peaks allocated and reserved, of a model with a large vocabulary",
    "fragmentation_dispatched": "peaks allocated and reserved, of experts over several ranks",
    "fragmentation_varied": "peaks allocated and reserved, of samples that vary in length",
    "fragmentation_least": "the largest batch that trains on a GPU, and the one that does not",
    "filled_probability": "training runs that nearly fill a GPU, also those that failed",
    "spread": "a training run that prints its peak, of a family that has a recipe",
    "spread_assumed": "a training run that prints its peak, of a family without a recipe",
    "spread_routed": "a training run that prints its peak on every rank, of a mixture of experts",
    "slack": "the peak of one training run under several releases of PyTorch",
}
"""By figure: the run that would measure it."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """An engine on a class of GPU."""

    engine: str
    """The engine."""
    release: str
    """The release whose profile holds now."""
    gpu_class: str
    """GPUs that the engine treats alike."""
    gpus: tuple[str, ...]
    """Their names in the catalog."""
    measured: int
    """Campaigns that measured these releases there."""
    measured_ever: int
    """Campaigns that measured any release there."""
    doubt_share: float
    """What the interval is wider by on each side, as a share of all but the cache."""
    command: str
    """What measures it."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A coefficient and what it rests on."""

    engine: str
    """The engine, or training."""
    release: str
    """From which release it holds; empty for training."""
    name: str
    """The field of engines.json or training.json."""
    runs: int
    """Runs that it was fitted on."""
    low: float
    """Lower end of its interval."""
    expected: float
    """Its value."""
    high: float
    """Upper end of its interval."""
    source: str
    """What it rests on."""

    @property
    def spread(self) -> float:
        """Half of its interval, as a share of its value."""
        return (self.high - self.low) / 2 / abs(self.expected) if self.expected else inf

    @property
    def mend(self) -> str:
        """The run that would measure it."""
        return MEND[self.name.partition(" ")[0]]


def gaps(
    engines: Engines,
    catalog: Catalog,
    engine: EngineName | None = None,
    accelerator: Accelerator | None = None,
) -> list[Gap]:
    """Return the classes of GPU that the newest release of each engine was not measured on, those
    with the most GPUs first. With an accelerator: what is measured on its class, of each engine.
    """
    rows: list[Gap] = []
    for name in (engine,) if engine else ENGINES:
        profile = engines.profile(name, None)
        for kind, members in _classes(catalog.all(), name).items():
            if accelerator is not None and kind != gpu_class(accelerator):
                continue
            if accelerator is None and kind in profile.measured:
                continue
            gpu = accelerator or members[0]
            rows.append(
                Gap(
                    engine=name,
                    release=_release(profile),
                    gpu_class=kind,
                    gpus=tuple(member.name for member in members),
                    measured=profile.measured.get(kind, 0),
                    measured_ever=profile.measured_ever.get(kind, 0),
                    doubt_share=doubt(profile, gpu).share,
                    command=f"fitgauge measure MODEL --engine {name}",
                )
            )
    return sorted(rows, key=lambda row: (row.measured, row.measured_ever, -len(row.gpus)))


def weakest(engines: Engines, training: TrainingProfile) -> list[Figure]:
    """Return the figures of every engine's newest release and of training, those that rest on
    fewest runs first, of these the widest first. What has no width is of a source and no figure."""
    rows = [
        figure
        for name in ENGINES
        for figure in _figures(name, _release(engines.profile(name, None)), _fields(engines, name))
    ]
    rows += _figures(TRAINING, "", structs.asdict(training))
    return sorted(
        (row for row in rows if row.high > row.low),
        key=lambda row: (row.runs, -row.spread, row.engine, row.name),
    )


def _classes(accelerators: Iterable[Accelerator], engine: str) -> dict[str, list[Accelerator]]:
    """Return the accelerators that an engine has kernels for, by class."""
    classes: dict[str, list[Accelerator]] = {}
    for accelerator in accelerators:
        row, capability = ENGINES[engine], accelerator.compute_capability
        too_old = capability is not None and capability < row.min_compute_capability
        if accelerator.vendor.lower() in row.platforms and not too_old:
            classes.setdefault(gpu_class(accelerator), []).append(accelerator)
    return classes


def _fields(engines: Engines, name: str) -> dict[str, object]:
    return structs.asdict(engines.profile(name, None))


def _figures(engine: str, release: str, fields: Mapping[str, object]) -> Iterator[Figure]:
    """Yield the coefficients among the fields of a profile, also those that are by name."""
    for name, value in fields.items():
        if isinstance(value, dict):
            by_name = {f"{name} {key}": one for key, one in value.items()}
            yield from _figures(engine, release, by_name)
        elif isinstance(value, Coefficient):
            yield Figure(
                engine=engine,
                release=release,
                name=name,
                runs=value.runs,
                low=value.low,
                expected=value.expected,
                high=value.high,
                source=value.source,
            )


def _release(profile: EngineProfile) -> str:
    return ".".join(map(str, profile.since))
