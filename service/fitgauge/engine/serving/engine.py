"""What a serving engine is: the one row that carries all its facts.

Every package `serving/NAME/` has such a row, `ENGINE` in its engine.py; registry.py collects
them. To add an engine, write a package with a row, name it in the registry, and measure its
profile (catalog, engines.json). No other module names an engine."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.decode import LAYER_SECONDS
from fitgauge.engine.quantity import NOTHING, Bytes, Term, total
from fitgauge.engine.serving.container import ContainerImage, ContainerStart, HelmChart
from fitgauge.engine.serving.doubt import doubt
from fitgauge.engine.serving.engine_facts import (
    ANY_CAPABILITY,
    ArchitectureList,
    Capability,
    CheckpointKind,
    FileKind,
    LogParser,
    MemoryFlag,
    Offload,
    Platform,
    SingleGpuShare,
    SplitEstimate,
    Version,
)
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.fit import Allowance, rest_probability
from fitgauge.engine.serving.kv_offload import KvOffload
from fitgauge.engine.serving.ladders import Ladders
from fitgauge.engine.serving.launch import Launch, NodeFlags
from fitgauge.engine.serving.options import EngineOptions
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import ShardedWeights


def unchanged(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> Workload:
    """Return the workload as it is: nothing of it depends on the model and the accelerator."""
    return workload


HostTables = Callable[[ModelSpec, ShardedWeights, Workload, Accelerator], Sequence[int]]
"""What a rank of every pipeline stage keeps of a model's tables in host memory [bytes]."""


def all_usable(accelerator: Accelerator, workload: Workload) -> Bytes:
    """Return all of the accelerator that can be used [bytes]."""
    return accelerator.usable


def one_kind(accelerator: Accelerator) -> Hashable:
    """Return the same kind for every accelerator."""
    return None


def always_runs(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return None: the engine refuses nothing by rules of its own."""
    return None


def fixed_batch(
    max_num_seqs: int, max_batched_tokens: int
) -> Callable[[Accelerator, int, Version, ModelSpec, int], tuple[int, int]]:
    """Return a `default_batch` that is the same on every GPU."""
    return lambda accelerator, context_length, version, spec, ranks: (
        max_num_seqs,
        max_batched_tokens,
    )


class Engine(NamedTuple):
    """All facts of one serving engine."""

    name: EngineName
    """The name as requests use it."""

    title: str
    """The name as its project writes it."""

    aliases: tuple[str, ...]
    """Other spellings that people send, in small letters and digits alone."""

    estimate: Callable[[ModelSpec, ShardedWeights, Workload, Accelerator, EngineProfile], Estimate]
    """Estimate the memory of every pipeline stage."""

    shard_weights: Callable[..., ShardedWeights]
    """Prepare a model's weights in a quantization scheme as the engine shards them."""

    default_batch: Callable[[Accelerator, int, Version, ModelSpec, int], tuple[int, int]]
    """(max_num_seqs, max_batched_tokens) on an accelerator, for a context, a version, a model, a
    degree of tensor parallelism."""

    command: Callable[[Launch], str]
    """Return the command line that starts the engine."""

    platforms: Mapping[str, Platform]
    """By vendor in small letters; what is not named has no kernels."""

    formats: Mapping[str, Capability]
    """Quantization methods it reads, each with its least compute capability."""

    ladders: Ladders = Ladders()
    """What its settings may be changed to where its defaults do not run a workload."""

    default: bool = False
    """Whether it is tried where a request names no engine, in the order of `preference`."""

    preference: int | None = None
    """Rank among the engines that answers name where another does not run, 1 first; None: never
    named."""

    suggested_vendors: frozenset[str] = frozenset()
    """Vendors in small letters on whose accelerators answers name it, whatever the model."""

    split: SplitEstimate | None = None
    """The estimate in two parts, where it comes apart."""

    with_defaults: Callable[[Workload, ModelSpec, Accelerator], Workload] = unchanged
    """Fill in what the engine derives from model and accelerator."""

    budget: Callable[[Accelerator, Workload], Bytes] = all_usable
    """What the engine may use of an accelerator, however many requests it answers."""

    terms_outside_budget: Callable[..., tuple[Term, ...]] | None = None
    """What it holds outside that share of the whole device, however many requests it answers; None
    where the budget is all."""

    accelerator_kind: Callable[[Accelerator], Hashable] = one_kind
    """Accelerators of one kind hold the same, but for what `split.for_accelerator` changes."""

    workload_kind: Callable[[ModelSpec, Accelerator, Workload], Hashable] | None = None
    """The same of one model's workload alone, without what is loaded, of which more accelerators
    hold the same; None where they do not."""

    refusal: Callable[[ModelSpec, Workload, Accelerator], UnsupportedError | None] = always_runs
    """Why the engine refuses a model by rules of its own."""

    queued: frozenset[str] = frozenset()
    """Model types of which it answers one request at a time, whatever is set."""

    min_compute_capability: Capability = ANY_CAPABILITY
    """The least NVIDIA compute capability of its kernels and wheels."""

    removed_formats: Mapping[str, Version] = {}
    """By quantization method: the release that no longer reads it."""

    own_format: tuple[str, str] | None = None
    """The only files it reads, in words, and the usual quantization of theirs; None where other
    engines read what it does not."""

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

    smallest_weights: tuple[tuple[str, str], ...] = ()
    """The same at a loss that only large models bear: what people take where nothing else fits."""

    log_parser: LogParser | None = None
    """None: it prints no log of its memory."""

    container_start: ContainerStart | None = None
    """How containers start it; None: no manifest is searched for it."""

    default_context_is_maximum: bool = False
    """Whether it makes room for the model's maximum context where its command sets none."""

    starts_below_context: bool = False
    """Whether it starts where its KV cache holds less than one request of the longest context."""

    memory_flags: tuple[MemoryFlag, ...] = ()
    """What lowers its memory, in the order to try it."""

    reads_plain_errors: bool = False
    """Whether PyTorch's out-of-memory message without an engine's log is taken for its own."""

    splits_cache_budget: bool = False
    """Divides the budget of its cache between a pool for tokens and one for recurrent states."""

    phrases: tuple[str, ...] = ()
    """Several words that mean it in a sentence, in small letters: "llama server"."""

    rollout_aliases: tuple[str, ...] | None = None
    """Other words for it as the engine that samples in RL training; None: no tool samples with
    it."""

    with_draft: Callable[[ModelSpec, ModelSpec, str], ModelSpec] | None = None
    """Attach a draft model, which has a repository's name, to a model; None: it drafts with
    none."""

    with_pooling: Callable[[ModelSpec], ModelSpec] | None = None
    """What is loaded of a generating model that embeds; None: all of it."""

    language_model: Callable[[ModelSpec], ModelSpec] | None = None
    """What is loaded of a model that also reads images or sound, for text alone; None: all of
    it."""

    host_tables: HostTables | None = None
    """What stays in host memory whatever is offloaded; None: nothing."""

    prefill_measured: bool = False
    """Whether the efficiency of reading prompts was measured on engines of its kind: servers with
    fused kernels."""

    decode_measured: bool = False
    """Whether the efficiency of decoding was measured on engines of its kind."""

    own_quantizers: bool = False
    """Its formats are made by other quantizers than those whose quality was measured."""

    default_quantization: str | None = None
    """The format people serve a 16-bit model in without naming one; None: as published."""

    checkpoint_kinds: tuple[CheckpointKind, ...] = ()
    """The kinds of published checkpoints made for it, the one to prefer first."""

    checkpoint_word: str = "checkpoint"
    """What such a checkpoint is called."""

    hub_prefix: str = ""
    """What its command writes before a repository of the Hub."""

    sets_kv_cache_dtype: Callable[[ModelSpec], bool] | None = None
    """Whether a checkpoint's quantization sets the format of the KV cache too; None: never."""

    online_formats: Mapping[str, str] = {}
    """Formats it quantizes to while it loads, and the value of the flag; others need a
    checkpoint."""

    dtypes: Mapping[str, str] = {}
    """What its flag calls a dtype that weights are converted to while they load."""

    cache_dtypes: Mapping[str, str] | None = None
    """What its flag calls a format of the KV cache; it takes no others. None: no such list."""

    reads_server_variables: bool = False
    """Takes its settings from environment variables of a server that the command may not start."""

    unsupported_flags: tuple[tuple[str, str], ...] = ()
    """Settings that its command line has no flag for, and what to do instead."""

    options: frozenset[str] = frozenset()
    """The `EngineOptions` that its formulas read."""

    ignored_fields: tuple[str, ...] = ()
    """Other request fields that its estimate does not depend on, mostly as it has no such
    setting."""

    experts_over_all_ranks: bool = False
    """Expert parallelism, where it is on, spreads experts over all tensor x data parallel ranks."""

    experts_over_some_ranks: bool = False
    """Expert parallelism may spread experts over fewer ranks than divide the attention."""

    embeddings_on_gpu: bool = False
    """Keeps embedding and head on the GPU, whatever it offloads."""

    over_nodes: Callable[[Workload, int], NodeFlags] | None = None
    """How a workload runs over a number of machines; None: the command starts one machine's."""

    image: ContainerImage | None = None
    """The container image of its server; None where its project publishes none that the command
    runs in."""

    chart: HelmChart | None = None
    """The Helm chart of its project; None: no such chart."""

    pipeline_parallel: bool = True
    """Whether it can be split into pipeline stages."""

    splits_layers: bool = False
    """Every GPU holds whole layers: GPUs are pipeline stages."""

    most_gpus: int | None = None
    """The GPUs that one launch divides a model over at most; None: no such limit."""

    line_up: Callable[[Sequence[Accelerator]], tuple[Accelerator, ...]] | None = None
    """The order in which it divides layers over GPUs of several kinds; None: it takes GPUs of one
    kind."""

    tensor_parallel_on_request: bool = False
    """Where it splits layers: shards every layer all the same if a request sends
    `tensor_parallel`, which means pipeline stages otherwise."""

    single_gpu_share: SingleGpuShare | None = None
    """None: it fills a single GPU with weights as far as they fit."""

    file_kind: FileKind = "safetensors"
    """The files it loads."""

    preallocates_kv_cache: bool = False
    """Has a pool for the cache, whose size can be given outright."""

    supports_cpu_offload: bool = False
    """Keeps a number of bytes of every rank's layers in host memory."""

    fixed_chunks: bool = False
    """Whether a chunk of prompts is as large however few requests fill it, and what is reserved for
    it too."""

    offloads_whole_gib: bool = False
    """Whether it takes that amount in whole GiB alone: a part of one counts as a whole."""

    cpu_layers: Callable[[ModelSpec, ShardedWeights, Workload], Offload] | None = None
    """What the CPU multiplies, of the weights that a workload keeps in host memory; None: GPUs
    read those over their link."""

    layer_seconds: float = LAYER_SECONDS
    """What a layer of a step takes on top of reading [s], for one request alone on desktops'
    chips."""

    activations_grow_with_context: bool = False
    """Reads every prompt in one pass."""

    kv_offload: KvOffload | None = None
    """How it keeps KV cache in host memory; None: it keeps none there."""

    @property
    def words(self) -> tuple[str, ...]:
        """Name and aliases, in small letters and digits alone."""
        return self.name.replace(".", "").replace("-", ""), *self.aliases

    @property
    def ignored(self) -> tuple[str, ...]:
        """Request fields that its estimate does not depend on."""
        options = (name for name in EngineOptions.__struct_fields__ if name not in self.options)
        draft = () if self.with_draft else ("draft_model",)
        return (*self.ignored_fields, *options, *draft)

    @property
    def runs_tags(self) -> bool:
        """Whether its command names a model by a tag of Ollama's library."""
        return "ollama" in self.checkpoint_kinds

    @property
    def reads_gguf(self) -> bool:
        """Whether it reads GGUF files and has ggml's cache types."""
        return self.file_kind == "gguf"

    @property
    def budget_is_device_share(self) -> bool:
        """Whether its budget is a share of the whole device."""
        return self.terms_outside_budget is not None

    def bytes_outside_budget(
        self,
        spec: ModelSpec,
        profile: EngineProfile,
        workload: Workload,
        accelerator: Accelerator,
        *,
        layers: int,
    ) -> Bytes:
        """Return the sum of `terms_outside_budget` [bytes], the same for every share of the device.
        layers: of the fullest stage."""
        if self.terms_outside_budget is None:
            return NOTHING
        return total(self.terms_outside_budget(spec, profile, workload, accelerator, layers=layers))

    def allowance(
        self, outside: Bytes, profile: EngineProfile, workload: Workload, accelerator: Accelerator
    ) -> Allowance:
        """Return what an accelerator has for a launch, the same for any number of requests.
        outside: what is held of it outside the engine's share [bytes].

        A pool given outright is no share of the device: then what is required alone decides.
        Source: vllm/v1/worker/utils.py, request_memory."""
        budget, rest = self.budget(accelerator, workload), 1.0
        if self.budget_is_device_share and workload.kv_cache_memory_bytes is None:
            rest = rest_probability(outside, budget, accelerator.usable)
        return Allowance(budget, outside, rest, doubt(profile, accelerator))
