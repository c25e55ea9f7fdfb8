"""`mem_fraction_static`, the share of the memory free before loading that SGLang gives to weights
and pools where none is asked for.

Three rules in turn, read in sglang 0.4.4.post1, 0.4.6.post5, 0.4.8.post1, 0.5.0rc0, 0.5.3
(srt/server_args.py, and for models that see images srt/model_executor/model_runner.py until
0.4.10) and 0.5.23 (srt/arg_groups/memory_hook.py). A rule holds from the first release it was
read in."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import CompressedAttention, LatentAttention, Recurrent
from fitgauge.engine.model.spec import ModelSpec, VisionSection
from fitgauge.engine.serving.sglang.gpus import total_mib
from fitgauge.engine.serving.sglang.multimodal import (
    CAPTURED_MULTIMODAL,
    has_profile,
    is_multimodal,
)
from fitgauge.engine.serving.sglang.quirks import quirks
from fitgauge.engine.serving.token_pool import held
from fitgauge.engine.serving.workload import Workload

LARGE_GPUS, BY_GPU, BY_WORK = (0, 4, 6), (0, 4, 8), (0, 5, 3)
"""From these releases on: GPUs beyond 80 GiB are distinguished; the reserve goes by the GPU; it
goes by what is run."""

PREFILL_GRAPHS = (0, 5, 10)
"""From here on graphs of prefills are taken to be reserved for: 0.5.3 has none, logs of April
2026 print them."""

GRAPHS_WITHIN_REQUESTS = (0, 5, 23)
"""From here on graphs are taken to be captured for no more than --max-running-requests, and else up
to the default of the GPU; before, the launch sets what they are captured for."""

VISION_BY_TOWER = (0, 5)
_TOWER = (24, 1024)
"""Layers and width of ViT-L/14, which also stand for what a config does not name."""

_PROFILED_REQUESTS = 512
"""Up to so many requests at once, models with settings of their own capture graphs of all."""

_LEAST = 0.001
"""What stands for a share of nothing or less, at which SGLang does not start."""

_WIDE = 4
"""Ranks of tensor parallelism from which on graphs are larger."""

_STEPS = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88))
"""Ranks from which on a share holds."""

_LIMITS = (20, 35, 60, 160)
"""Sizes of a GPU from which on the defaults change [GiB]."""
_BATCHES = ((8, 8, 2048), (48, 160, 4096), (32, 160, 4096), (256, 512, 8192), (512, 512, 16384))
"""Largest batch of the decode graphs on few ranks and on `_WIDE` and more, and
chunked_prefill_size, by `size_class`."""

_RESERVES = ((35, 2.8, 0.1), (90, 9.5, 0.5), (160, 12.0, 0.5))
"""GPUs of less than so many GiB: what is reserved [GiB], and for every rank."""


def default_batch(
    accelerator: Accelerator,
    context_length: int,
    version: tuple[int, ...],
    spec: ModelSpec,
    tensor_parallel: int = 1,
) -> tuple[int, int]:
    """Return (largest batch of the decode graphs, chunked_prefill_size) by the size of the GPU
    and the number of ranks."""
    memory = total_mib(accelerator)
    if version < BY_GPU:
        return (8, 2048) if memory < 25_000 else (160, 8192)
    if version < BY_WORK:
        return (8, 2048) if memory < 35 * 1024 else (160, 8192 if memory < 160 * 1024 else 16384)
    sequences, wide, tokens = _BATCHES[size_class(accelerator)]
    return wide if tensor_parallel >= _WIDE else sequences, tokens


def size_class(accelerator: Accelerator) -> int:
    """Return which of `_BATCHES` a GPU of its memory has."""
    memory = total_mib(accelerator)
    return sum(memory >= limit * 1024 for limit in _LIMITS)


def graph_batch(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> int:
    """Return the largest batch of the decode graphs. Source: memory_hook.py;
    model_overrides/qwen3_vl.py, expand_multimodal_decode_graph_to_running_limit."""
    requests = workload.max_num_seqs
    if workload.engine_version < GRAPHS_WITHIN_REQUESTS:
        return requests
    if requests <= _PROFILED_REQUESTS and has_profile(spec, accelerator):
        return requests
    return min(requests, _default_requests(spec, workload, accelerator))


def running_requests(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> int | None:
    """Return --max-running-requests; None where it is not set, which leaves the default batch."""
    requests = workload.max_num_seqs
    return None if requests == _default_requests(spec, workload, accelerator) else requests


def _default_requests(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> int:
    return default_batch(
        accelerator,
        workload.context_length,
        workload.engine_version,
        spec,
        workload.tensor_parallel,
    )[0]


def mem_fraction_static(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> float:
    """Return the automatic share: by the number of ranks until 0.4.7, then 1 - reserve / memory;
    times a factor for models that see images, if the server computes prompts."""
    memory, version = total_mib(accelerator), workload.engine_version
    if version < BY_GPU:
        share = share_of_ranks(
            memory, workload.tensor_parallel * workload.pipeline_parallel, version
        )
    else:
        if version < BY_WORK:
            reserve = reserved_by_gpu(memory, workload)
        else:
            reserve = reserved_by_work(
                spec, memory, workload, graph_batch(spec, workload, accelerator)
            )
        share = round((memory - reserve) / memory, 3)
    images = workload.disaggregation != "decode"
    return max(_LEAST, share * (vision_factor(spec, version) if images else 1.0))


def share_of_ranks(memory: float, ranks: int, version: tuple[int, ...]) -> float:
    """Return 0.88 on one rank, less on more; from 0.4.6 on 0.88 beyond 80 GiB, and beyond 96 GiB
    as much as leaves what 48 GiB of it would have left, or 18 GiB. memory [MiB]."""
    share = next(share for least, share in _STEPS if ranks >= least)
    if version < LARGE_GPUS or memory <= 80 * 1024:
        return share
    if memory <= 96 * 1024:
        return 0.88
    return min(0.88 + 48 * 1024 * 0.12 / memory, (memory - 18 * 1024) / memory)


def reserved_by_gpu(memory: float, workload: Workload) -> float:
    """Return what is kept back by the size of the GPU and the number of ranks [MiB]."""
    ranks = workload.tensor_parallel * workload.pipeline_parallel
    for limit, once, each in _RESERVES:
        if memory < limit * 1024:
            return (once + ranks * each) * 1024
    return 32 * 1024


def reserved_by_work(spec: ModelSpec, memory: float, workload: Workload, batch: int) -> float:
    """512 + 1.5 x max(tokens, 2048) + 128 x ranks + 2 x largest decode batch + 8 for every
    prefill graph (1536 for MLA), at least 10 GiB on GPUs of more than 60 GiB [MiB].

    One half of disaggregated serving reserves for its own graphs alone; tokens are a chunk of
    prompts, and of a server that only decodes its requests."""
    reserve = (
        512
        + 1.5 * max(step_tokens(workload), 2048)
        + 128 * workload.tensor_parallel * workload.pipeline_parallel
    )
    if not workload.enforce_eager:
        reserve += 2 * batch if captures_decode(workload) else 0
        if captures_prefill(spec, workload):
            latent = quirks(spec).latent_cache or any(
                isinstance(mixer, LatentAttention) for mixer, _ in held(spec, None)
            )
            reserve += 1536 if latent else 8 * prefill_graphs(workload.max_batched_tokens)
    return max(reserve, 10 * 1024) if memory > 60 * 1024 else reserve


def step_tokens(workload: Workload) -> int:
    """Return the tokens of the largest pass: a chunk of prompts; of a server that decodes alone
    one of every request. Source: sglang 0.5.23, arg_groups/memory_hook.py (activation_tokens)."""
    decodes = workload.disaggregation == "decode"
    return workload.max_num_seqs if decodes else workload.max_batched_tokens


def captures_decode(workload: Workload) -> bool:
    """Return whether graphs of decoding are captured: not where prompts alone are computed. Source:
    sglang 0.5.23, cuda_graph_hook.py, apply_cuda_graph_disaggregation_roles; earlier releases
    (0.4.6 on) say "Cuda graph is disabled for prefill server"."""
    return workload.disaggregation != "prefill"


def captures_prefill(spec: ModelSpec, workload: Workload) -> bool:
    """Return whether graphs of prefills are captured: not where answers alone are written, over
    pipeline stages, nor of Kimi delta layers, DeepSeek V4, and models that see images without
    being in a list. Source: cuda_graph_hook.py, disable_breakable_cudagraph_if_incompatible."""
    if workload.engine_version < PREFILL_GRAPHS or workload.pipeline_parallel > 1:
        return False
    if workload.disaggregation == "decode":
        return False
    if is_multimodal(spec) and spec.architecture not in CAPTURED_MULTIMODAL:
        return False
    return not any(
        isinstance(mixer, CompressedAttention)
        or (isinstance(mixer, Recurrent) and mixer.kind == "kimi_delta")
        for mixer, _ in held(spec, None)
    )


def prefill_graphs(largest: int) -> int:
    """Return how many prefill sizes are captured up to `largest` tokens. Source:
    cuda_graph_hook.py, generate_prefill_cuda_graph_batch_sizes."""
    sizes = (
        range(4, 33, 4),
        range(48, 257, 16),
        range(288, 513, 32),
        range(576, 1025, 64),
        range(1280, 4097, 256),
    )
    return sum(
        len(range(steps.start, min(steps.stop, largest + 1), steps.step)) for steps in sizes
    ) + len(range(4608, largest + 1, 512))


def vision_factor(spec: ModelSpec, version: tuple[int, ...]) -> float:
    """1 for models of text alone. 0.95 x (1 - 0.1 x (c - 1)) with c = layers x width^2 of the
    tower over that of ViT-L/14, the last factor in [0.8, 1.05], where the config has a
    `vision_config`; before 0.5 a constant, 0.90 and until 0.4.5 0.95. Source:
    adjust_mem_fraction_for_vlm; model_runner.py, __init__."""
    if not is_multimodal(spec):
        return 1.0
    if version < VISION_BY_TOWER:
        return 0.95 if version < LARGE_GPUS else 0.90
    section = spec.vision_section
    if section is None:
        return 1.0
    if quirks(spec).unread_tower:
        section = VisionSection(None, None)
    layers, width = section.layers or _TOWER[0], section.width or _TOWER[1]
    size = layers * width**2 / (_TOWER[0] * _TOWER[1] ** 2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (size - 1.0)))
