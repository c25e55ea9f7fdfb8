"""What the row of a serving engine is made of: platforms, formats, architectures, logs, flags."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal, NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import MixedMemo
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term
from fitgauge.engine.serving.estimate import CacheLayout, StageMemory
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import ShardedWeights

Capability = tuple[int, int]
"""A compute capability of NVIDIA: (major, minor)."""

Version = tuple[int, ...]

FileKind = Literal["safetensors", "gguf", "mlx"]
"""The kinds of weight files that repositories hold."""

ANY_CAPABILITY: Capability = (0, 0)

CheckpointKind = Literal["gguf", "mlx", "ollama"]
"""A repository of GGUF files or of MLX weights on the Hub; a tag of Ollama's library."""


CacheBytes = Callable[[CacheLayout, Workload], int]
"""What the cache of a stage takes for the requests of a workload [bytes]."""


ForAccelerator = Callable[
    [Sequence[tuple[Term, ...]], Sequence[StageMemory], Workload, Accelerator],
    tuple[StageMemory, ...],
]
"""Turns the memory of a kind of accelerators into that of one of them."""


class Offload(NamedTuple):
    """What stays in host memory."""

    layers: int
    """The first layers that stay there whole."""
    experts: int
    """The first layers whose experts stay there."""


class SplitEstimate(NamedTuple):
    """An estimate in two parts: what the weights take, and all other memory.

    The second part is the same for every number format of the weights, so that a search over
    formats estimates it once. `estimate.stage_estimates` of both parts, and of the cache, is the
    whole estimate."""

    loaded: Callable[
        [ModelSpec, ShardedWeights, Workload, Accelerator], tuple[tuple[Term, ...], ...]
    ]
    """The terms of the loaded weights, by pipeline stage."""

    stage_memory: Callable[
        [ModelSpec, Workload, Accelerator, EngineProfile, MixedMemo], tuple[StageMemory, ...]
    ]
    """All other memory, by pipeline stage, but for the cache that `cache_bytes` counts. The memo
    holds earlier results of the same model and engine."""

    cache_bytes: CacheBytes | None = None
    """The cache of a stage; None where more than the cache depends on the number of requests."""

    context_read: Callable[[ModelSpec, Workload, Accelerator], Hashable] = (
        lambda spec, workload, accelerator: workload.context_length
    )
    """What `stage_memory` reads of the context, but for the longest request that layouts log: the
    same for all contexts under which it is the same."""

    for_accelerator: ForAccelerator | None = None
    """Turn `stage_memory` of a kind of accelerators into that of one of them, by its memory: never
    less than before. None where all of a kind hold the same."""

    supports_offload: bool = True
    """Whether both parts are right for a workload that keeps weights in host memory."""


class Platform(NamedTuple):
    """What an engine offers on the accelerators of one vendor."""

    targets: frozenset[str] = frozenset()
    """The gfx targets it is built for; empty for all."""

    methods: frozenset[str] | None = None
    """The quantization methods it reads there (`support.family`); None where no list is known."""

    plugin: str | None = None
    """The package without which the engine does not run there."""

    community: Mapping[str, str] = {}
    """Targets that only builds of others run on, and the name of such a build."""

    fp8_targets: frozenset[str] | None = None
    """The targets whose matrix units multiply fp8; None where every target reads fp8 weights."""


class Release(NamedTuple):
    """A release of an engine."""

    name: str
    """As its project names it: 0.4.4.post2."""

    numbers: Version
    """The same for comparison: (0, 4, 4, 2)."""


def release_of_each(text: str) -> dict[str, Release]:
    """Return the release by architecture, from words of which each release is followed by the
    architectures that it is the first, or the last, to have."""
    releases: dict[str, Release] = {}
    release = Release("0", (0,))
    for word in text.split():
        if word[0].isdigit():
            numbers = tuple(int(part.removeprefix("post")) for part in word.split("."))
            release = Release(word, numbers)
        else:
            releases[word] = release
    return releases


class Borrowed(NamedTuple):
    """The first releases that take transformers' own class for a model without one."""

    text: Version
    """For a model of text alone."""

    towers: Version
    """For one that sees images or hears, too."""


class ArchitectureList(NamedTuple):
    """The model classes that an engine has, as read in one release."""

    names: frozenset[str]
    """Architectures, or model types where `by_type`."""

    release: Version
    """The release read; () for an engine without release numbers."""

    read: str
    """The same in words."""

    by_type: bool = False
    """Whether the engine picks its class by model type."""

    first: Mapping[str, Release] = {}
    """The first release with a class, by name."""

    borrows: Borrowed | None = None
    """Since when the engine takes transformers' own class for other models; None: it does not."""

    lacking: frozenset[str] | None = None
    """Model types that the list certainly lacks; None: whatever vLLM had long before."""

    without_awq: frozenset[str] = frozenset()
    """Model types that run on transformers' class, which reads neither AWQ nor GPTQ there."""

    generates_only: bool = False
    """Whether towers, encoders and Whisper run in other packages of the same project."""

    removed: Callable[[ModelSpec, Version], UnsupportedError | None] = lambda spec, version: None
    """Why a release no longer has a model's class."""


class LogParser(NamedTuple):
    """How to read the start-up log of an engine."""

    signatures: tuple[str, ...]
    """Texts that its logs alone hold."""

    read: Callable[[list[Line]], StartLog]
    """Return what the log says."""

    options: tuple[str, ...] = ()
    """Options of a command line that it reads."""

    wraps_another: bool = False
    """Whether its log also holds that of another engine, which it runs."""


class MemoryFlag(NamedTuple):
    """A setting that lowers an engine's memory."""

    change: str
    """What it does, as a sentence without its full stop."""

    flags: str
    """What to add to the command line, or to set before it."""

    kv_cache_alone: bool = False
    """Whether it makes room in the KV cache and not for weights."""

    device_alone: bool = False
    """Whether it lowers what the device holds and leaves the KV cache no more."""


class SingleGpuShare(NamedTuple):
    """How much of a single GPU an engine fills with weights, where it is not all."""

    share: float
    """Of the usable memory; the rest of the weights goes to host memory."""

    setting: str
    """The setting that does so, in words."""

    remedy: str
    """What to do instead."""
