"""What a serving engine is: the one row that carries all its facts.

Every package `serving/NAME/` has such a row, `ENGINE` in its engine.py; registry.py collects
them. To add an engine, write a package with a row, name it in the registry and in
`workload.EngineName`, and measure its profile (catalog, engines.json)."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Bytes, Term, total
from fitgauge.engine.serving.estimate import Estimate, StageMemory
from fitgauge.engine.serving.fit import fit_probability, starting_probability
from fitgauge.engine.serving.ladders import Ladders
from fitgauge.engine.serving.launch import Launch
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.weights.sharding import ShardedWeights

Capability = tuple[int, int]
"""A compute capability of NVIDIA: (major, minor)."""

Version = tuple[int, ...]

ANY_CAPABILITY: Capability = (0, 0)

SIZED_FOR_VLLM = ("lora_slots", "lora_rank", "speculative_tokens", "draft_model")
"""Request fields that are sized for vLLM alone."""


class SplitEstimate(NamedTuple):
    """An estimate in two parts: what the weights take, and all other memory.

    The second part is the same for every number format of the weights, so that a search over
    formats estimates it once. `estimate.stage_estimates` of both parts is the whole estimate."""

    loaded: Callable[
        [ModelSpec, ShardedWeights, Workload, Accelerator], tuple[tuple[Term, ...], ...]
    ]
    """The terms of the loaded weights, by pipeline stage."""

    stage_memory: Callable[
        [ModelSpec, Workload, Accelerator, EngineProfile, Memo], tuple[StageMemory, ...]
    ]
    """All other memory, by pipeline stage. The memo holds earlier results of the same model and
    engine."""

    with_concurrency: (
        Callable[[tuple[StageMemory, ...], Workload], tuple[StageMemory, ...]] | None
    ) = None
    """Turn `stage_memory` of one request into that of more; None where more than the cache
    depends on their number."""

    for_accelerator: (
        Callable[
            [Sequence[tuple[Term, ...]], Sequence[StageMemory], Workload, Accelerator],
            tuple[StageMemory, ...],
        ]
        | None
    ) = None
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

    fp8_targets: frozenset[str] | None = None
    """The targets whose matrix units multiply fp8; None where every target reads fp8 weights."""


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

    borrows: bool = False
    """Whether the engine takes transformers' own class for other models."""

    lacking: frozenset[str] | None = None
    """Model types that the list certainly lacks; None: whatever vLLM had long before."""

    without_awq: frozenset[str] = frozenset()
    """Model types that run on transformers' class, which reads neither AWQ nor GPTQ there."""

    generates_only: bool = False
    """Whether towers, encoders and Whisper run in other packages of the same project."""

    removed: Callable[[ModelSpec, Version], str | None] = lambda spec, version: None
    """Why a release no longer has a model's class."""


class LogParser(NamedTuple):
    """How to read the start-up log of an engine."""

    signatures: tuple[str, ...]
    """Texts that its logs alone hold."""

    read: Callable[[list[Line]], StartLog]
    """Return what the log says."""

    wraps_another: bool = False
    """Whether its log also holds that of another engine, which it runs."""


def unchanged(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> Workload:
    """Return the workload as it is: nothing of it depends on the model and the accelerator."""
    return workload


def all_usable(accelerator: Accelerator, workload: Workload) -> Bytes:
    """Return all of the accelerator that can be used [bytes]."""
    return accelerator.usable


def one_kind(accelerator: Accelerator) -> Hashable:
    """Return the same kind for every accelerator."""
    return None


def always_runs(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> str | None:
    """Return None: the engine refuses nothing by rules of its own."""
    return None


class Engine(NamedTuple):
    """All facts of one serving engine."""

    name: EngineName

    aliases: tuple[str, ...]
    """Other spellings that people send, in small letters and digits alone."""

    estimate: Callable[[ModelSpec, ShardedWeights, Workload, Accelerator, EngineProfile], Estimate]
    """Estimate the memory of every pipeline stage."""

    shard_weights: Callable[..., ShardedWeights]
    """Prepare a model's weights in a quantization scheme as the engine shards them."""

    default_batch: Callable[[Accelerator, int, Version, ModelSpec], tuple[int, int]]
    """(max_num_seqs, max_batched_tokens) on an accelerator, for a context, a version, a model."""

    command: Callable[[Launch], str]
    """Return the command line that starts the engine."""

    platforms: Mapping[str, Platform]
    """By vendor in small letters; what is not named has no kernels."""

    formats: Mapping[str, Capability]
    """Quantization methods it reads, each with its least compute capability."""

    ladders: Ladders = Ladders()
    """What its settings may be changed to where its defaults do not run a workload."""

    split: SplitEstimate | None = None
    """The estimate in two parts, where it comes apart."""

    with_defaults: Callable[[Workload, ModelSpec, Accelerator], Workload] = unchanged
    """Fill in what the engine derives from model and accelerator."""

    budget: Callable[[Accelerator, Workload], Bytes] = all_usable
    """What the engine may use of an accelerator."""

    terms_outside_budget: Callable[..., tuple[Term, ...]] | None = None
    """What it holds outside that share of the whole device; None where the budget is all."""

    accelerator_kind: Callable[[Accelerator], Hashable] = one_kind
    """Accelerators of one kind hold the same, but for what `split.for_accelerator` changes."""

    refusal: Callable[[ModelSpec, Workload, Accelerator], str | None] = always_runs
    """Why the engine refuses a model by rules of its own."""

    min_compute_capability: Capability = ANY_CAPABILITY
    """The least NVIDIA compute capability of its kernels and wheels."""

    removed_formats: Mapping[str, Version] = {}
    """By quantization method: the release that no longer reads it."""

    format_hint: str | None = None
    """The weights to send instead of those it cannot read; None: name engines that can."""

    wheels: tuple[Version, Capability] | None = None
    """The first release known to have wheels for newer GPUs alone, and their least capability."""

    without_flash_attention: str | None = "another attention backend is needed"
    """What to do on a GPU without FlashAttention 2; None where the engine has its own kernels."""

    architectures: ArchitectureList | None = None
    """None: it runs whatever transformers or the repository has code for."""

    served_formats: tuple[str, ...] = ()
    """The formats people serve a 16-bit model in, other than as published."""

    tunable: frozenset[str] = frozenset()
    """Fields that may be changed where a model does not fit, for a little speed or quality."""

    highest_utilization: float = 0.95
    """The largest gpu_memory_utilization to suggest."""

    smaller_weights: tuple[tuple[str, str], ...] = (
        ("quantize the weights to fp8", "fp8"),
        ("take a 4-bit checkpoint (AWQ)", "awq"),
    )
    """How to take smaller weights, in words and as a quantization."""

    log_parser: LogParser | None = None
    """None: it prints no log of its memory."""

    online_formats: Mapping[str, str] = {}
    """Formats it quantizes to while it loads, and the value of the flag; others need a
    checkpoint."""

    cache_dtypes: Mapping[str, str] | None = None
    """What its flag calls a format of the KV cache; it takes no others. None: no such list."""

    unsupported_flags: tuple[tuple[str, str], ...] = ()
    """Settings that its command line has no flag for, and what to do instead."""

    ignored_fields: tuple[str, ...] = ()
    """Request fields that its estimate does not depend on, mostly as it has no such setting."""

    experts_over_all_ranks: bool = False
    """Expert parallelism, where it is on, spreads experts over all tensor x data parallel ranks."""

    embeddings_on_gpu: bool = False
    """Keeps embedding and head on the GPU, whatever it offloads."""

    pipeline_parallel: bool = True
    """Whether it can be split into pipeline stages."""

    splits_layers: bool = False
    """Every GPU holds whole layers: GPUs are pipeline stages."""

    reads_gguf: bool = False
    """Reads GGUF files and has ggml's cache types."""

    preallocates_kv_cache: bool = False
    """Has a pool for the cache, whose size can be given outright."""

    supports_cpu_offload: bool = False
    """Keeps a number of bytes of every rank's layers in host memory."""

    activations_grow_with_context: bool = False
    """Reads every prompt in one pass."""

    @property
    def words(self) -> tuple[str, ...]:
        """Name and aliases, in small letters and digits alone."""
        return self.name.replace(".", "").replace("-", ""), *self.aliases

    @property
    def budget_is_device_share(self) -> bool:
        """Whether its budget is a share of the whole device."""
        return self.terms_outside_budget is not None

    def startup_probability(
        self,
        required: Bytes,
        layers: int,
        spec: ModelSpec,
        profile: EngineProfile,
        workload: Workload,
        accelerator: Accelerator,
    ) -> float:
        """Return the chance that the engine starts: its budget holds what the fullest stage
        requires [bytes], and the device what lies outside the budget. layers: of that stage.

        A pool given outright is no share of the device: then what is required alone decides.
        Source: vllm/v1/worker/utils.py, request_memory."""
        budget = self.budget(accelerator, workload)
        if self.terms_outside_budget is None or workload.cache_pool_bytes is not None:
            return fit_probability(required, budget)
        outside = total(
            self.terms_outside_budget(spec, profile, workload, accelerator, layers=layers)
        )
        return starting_probability(required, budget, outside, accelerator.usable)
