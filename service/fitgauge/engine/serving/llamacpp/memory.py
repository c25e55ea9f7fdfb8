"""Serving with llama.cpp (llama-server): layers over the GPUs, a cache allocated whole, one
compute buffer a GPU."""

from collections.abc import Callable
from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import MixedMemo
from fitgauge.engine.model.spec import ModelSpec, count_within
from fitgauge.engine.quantity import MIB, Term, exact_term, exactly
from fitgauge.engine.serving.engine_facts import Offload, SplitEstimate
from fitgauge.engine.serving.estimate import Estimate, StageMemory, stage_estimates
from fitgauge.engine.serving.llamacpp.compute_buffer import compute_term
from fitgauge.engine.serving.llamacpp.kv_cache import LlamaKvCache, Windows
from fitgauge.engine.serving.llamacpp.offload import (
    LayerSplit,
    cpu_layers,
    gpu_bytes,
    largest_bytes,
    layer_split,
    looked_up_bytes,
    offloaded_split,
    projector_bytes,
)
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.runtime import runtime_bytes
from fitgauge.engine.serving.weights import as_sure_as_read
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights

PARALLEL, UBATCH = 4, 512
"""n_parallel where it is left to llama-server, with a unified cache; n_ubatch. Source:
tools/server/server.cpp; common/common.h."""

IMAGE_BYTES = (64 * MIB, 256 * MIB, 1024 * MIB)
"""Compute buffer of a vision projector (low, expected, high): 248 MiB was logged for
Qwen3.6-27B's."""


WindowSizes = Callable[[ModelSpec, Workload], Windows]
"""How an engine sizes the windows of a workload."""
CpuLayers = Callable[[ModelSpec, ShardedWeights, Workload], Offload]
"""What an engine keeps on the host where a workload offloads."""
LeftFree = Callable[[Workload], tuple[Term, ...]]
"""What an engine leaves free on every GPU."""


class _OnHost(NamedTuple):
    """What the first GPU copies of host memory for a large batch: operations on weights there run
    on it, whichever GPU the next layers are on.

    Source: llama.cpp ggml/src/ggml-backend.cpp, ggml_backend_sched_backend_id_from_cur (the first
    backend whose offload_op takes it)."""

    streamed: int
    """Bytes of the largest weight."""
    layer_cache: int
    """Keys and values of a layer."""


def _layer_cache(spec: ModelSpec, workload: Workload, windows: Windows) -> int:
    dtype, context = cache_format(workload), workload.context_length
    cells = LlamaKvCache(spec, range(0), dtype, windows, context)
    return cells.largest_layer_bytes(spec, dtype, workload.requests_per_replica, context)


class LlamaEstimate(NamedTuple):
    """The estimate of an engine that runs llama.cpp, by what differs between them."""

    windows: WindowSizes
    """How it sizes windows."""

    has_tensor_split: bool
    """Whether its command divides layers by the bytes that stay on GPUs."""

    left_free: LeftFree = lambda workload: ()
    """What it leaves free on every GPU."""

    cpu_layers: CpuLayers = cpu_layers
    """What of the weights it keeps on the host."""

    def estimate(
        self,
        spec: ModelSpec,
        sharded: ShardedWeights,
        workload: Workload,
        accelerator: Accelerator,
        profile: EngineProfile,
    ) -> Estimate:
        """Return the Estimate of every GPU."""
        offload = self.cpu_layers(spec, sharded, workload)
        gpus, free = workload.pipeline_parallel, workload.free_bytes
        if self.has_tensor_split:
            split = offloaded_split(spec, sharded, workload, offload)
        else:
            split = layer_split(spec.layers, gpus, offload.layers, free)
        windows = self.windows(spec, workload)
        on_host = _OnHost(
            largest_bytes(sharded) if any(offload) else 0,
            _layer_cache(spec, workload, windows) if offload.layers else 0,
        )
        return Estimate(
            accelerator=accelerator,
            stages=stage_estimates(
                _loaded(spec, sharded, split, offload, accelerator),
                _stage_memories(
                    spec,
                    split,
                    alike_stages(spec, split),
                    workload,
                    profile,
                    windows,
                    on_host,
                    self.left_free(workload),
                ),
            ),
            budget=accelerator.usable,
        )

    @property
    def split(self) -> SplitEstimate:
        """The same in two parts, where no weights stay on the host."""
        return SplitEstimate(loaded_stages, self.stage_memory, supports_offload=False)

    def stage_memory(
        self,
        spec: ModelSpec,
        workload: Workload,
        accelerator: Accelerator,
        profile: EngineProfile,
        memo: MixedMemo,
    ) -> tuple[StageMemory, ...]:
        """Return what every GPU holds in addition to its weights, none of which stay on the
        host."""
        split = layer_split(spec.layers, workload.pipeline_parallel)
        alike = memo.get_or_compute(("alike", split), lambda: alike_stages(spec, split))
        windows = self.windows(spec, workload)
        return _stage_memories(
            spec, split, alike, workload, profile, windows, _OnHost(0, 0), self.left_free(workload)
        )


def llama_windows(spec: ModelSpec, workload: Workload) -> Windows:
    """Return the windows as llama-server sizes them."""
    return Windows(sequences=workload.max_num_seqs, memory=0, ubatch=workload.max_batched_tokens)


LLAMA_CPP = LlamaEstimate(llama_windows, has_tensor_split=True)


def loaded_stages(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[tuple[Term, ...], ...]:
    """Return what every GPU holds of the weights, none of which stay on the host."""
    split = layer_split(spec.layers, workload.pipeline_parallel)
    key = split, maps_file(accelerator)
    return sharded.once(key, lambda: _loaded(spec, sharded, split, Offload(0, 0), accelerator))


def maps_file(accelerator: Accelerator) -> bool:
    """Return whether the GPU maps the whole file, tables of the host included: Metal does, whose
    buffer lies where the file's mapping does.

    Source: llama.cpp src/llama-model.cpp, load_tensors (buffer_from_host_ptr)."""
    return accelerator.vendor == "Apple"


def _loaded(
    spec: ModelSpec,
    sharded: ShardedWeights,
    split: LayerSplit,
    offload: Offload,
    accelerator: Accelerator,
) -> tuple[tuple[Term, ...], ...]:
    mapped = looked_up_bytes(spec, sharded) if maps_file(accelerator) else 0
    return tuple(
        (
            weights_term(
                sharded,
                layers,
                first=number == 0,
                last=number == split.output,
                offload=offload,
                mapped=mapped if number == 0 else 0,
            ),
        )
        for number, layers in enumerate(split.ranges)
    )


def alike_stages(spec: ModelSpec, split: LayerSplit) -> tuple[int, ...]:
    """Return for every GPU the number of the first that holds as many layers of every kind, and
    the same ends of the model."""
    first: dict[tuple[int, ...], int] = {}
    return tuple(
        first.setdefault(
            (
                number == 0,
                number == split.output,
                len(layers),
                *(count_within(block.layers, layers) for block in spec.blocks),
            ),
            number,
        )
        for number, layers in enumerate(split.ranges)
    )


def _stage_memories(
    spec: ModelSpec,
    split: LayerSplit,
    alike: tuple[int, ...],
    workload: Workload,
    profile: EngineProfile,
    windows: Windows,
    on_host: _OnHost,
    left_free: tuple[Term, ...],
) -> tuple[StageMemory, ...]:
    requests, context = workload.requests_per_replica, workload.context_length
    projector = projector_terms(spec)
    stages: list[StageMemory] = []
    for number, layers in enumerate(split.ranges):
        if alike[number] < number:
            stages.append(stages[alike[number]])
            continue
        cells = LlamaKvCache(spec, layers, cache_format(workload), windows, context)
        fixed = (
            *(projector if number == 0 else ()),
            compute_term(
                spec,
                cells,
                ubatch=workload.max_batched_tokens,
                tokens=requests * context,
                concurrency=requests,
                gpu_count=len(split.ranges),
                first=number == 0,
                streamed=on_host.streamed if number == 0 else 0,
                host_cache=on_host.layer_cache if number == 0 else 0,
                logits=profile.logits_copies if number == split.output else None,
                masks_in_float32=profile.masks_in_float32,
            ),
            *runtime_bytes(profile, layers=len(layers), ranks=1, graphs=False),
            *left_free,
        )
        cache = cache_terms(cells, workload)
        stages.append(StageMemory(len(layers), fixed=fixed, cache=cache, layout=cells))
    return tuple(stages)


def cache_format(workload: Workload) -> str:
    """Return the ggml type of keys and values: f16 unless one is asked for."""
    return "F16" if workload.kv_cache_dtype == "auto" else workload.kv_cache_dtype


def weights_term(
    sharded: ShardedWeights,
    layers: range,
    *,
    first: bool,
    last: bool,
    offload: Offload,
    mapped: int = 0,
) -> Term:
    """Return the term `weights` of one GPU. mapped: bytes of the host's tables that it maps with
    them."""
    size = gpu_bytes(sharded, layers, first=first, last=last, offload=offload) + mapped
    output = " and the output" if last else ""
    place = "included, as the file is mapped" if mapped else "on the host"
    formula = (
        f"{sharded.scheme.name} weights of layers {layers.start} to {layers.stop - 1}{output}:"
        f" {exactly(size)}; embeddings {place}"
    )
    if offload.layers:
        formula += f", the first {offload.layers} layers too"
    if offload.experts:
        formula += f", experts of the first {offload.experts} layers too"
    term = exact_term(
        "weights", size, sharded.basis, formula, "llama.cpp b9849 src/llama-model.cpp, load_tensors"
    )
    return as_sure_as_read(term, sharded)


def projector_terms(spec: ModelSpec) -> tuple[Term, ...]:
    """`projector`: the mmproj file and its compute buffer, loaded with -hf where the repository
    has one; its low end is none."""
    size = projector_bytes(spec)
    if not size:
        return ()
    _, expected, high = IMAGE_BYTES
    return (
        Term(
            name="projector",
            bytes=size + expected,
            low=0,
            high=size + high,
            basis="assumed",
            formula=(
                f"tower and projector: {exactly(size)} + {exactly(expected)} to encode an image;"
                " none without --mmproj"
            ),
            source="llama.cpp b9849 tools/mtmd; a start-up log of Qwen3.6-27B: 888 + 248 MiB",
        ),
    )


def cache_terms(cells: LlamaKvCache, workload: Workload) -> tuple[Term, ...]:
    """`kv_cache`, and `state_cache` of recurrent layers."""
    requests, context = workload.requests_per_replica, workload.context_length
    formula = cells.formula(requests, context)
    terms = [
        exact_term(
            "kv_cache",
            cells.kv_bytes(requests, context),
            "computed",
            formula,
            "llama.cpp b9849 src/llama-kv-cache-iswa.cpp",
        )
    ]
    if cells.state:
        states = cells.state_bytes(requests)
        state_formula = f"{max(cells.windows.sequences, requests)} sequences x {cells.state:,} B"
        terms.append(
            exact_term(
                "state_cache",
                states,
                "computed",
                state_formula,
                "llama.cpp b9849 src/llama-memory-recurrent.cpp",
            )
        )
    return tuple(terms)
