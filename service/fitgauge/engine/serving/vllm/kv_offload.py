"""KV cache that vLLM keeps in host memory (--kv-offloading-size).

Source: vllm 0.33, v1/kv_offload/cpu/spec.py and shared_offload_region.py (one region of every
engine in /dev/shm; before 0.25 pinned memory of every rank); nothing there takes memory of the
GPU but what its driver needs to register the region, which no source states."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.kv_offload import KvOffload
from fitgauge.engine.serving.token_pool import held
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

_VENDORS = frozenset({"NVIDIA", "AMD", "Intel"})
"""Makers of GPUs that run CUDA, HIP or XPU. Source: v1/kv_offload/cpu/spec.py, get_worker."""


def ranks_of_one_copy(spec: ModelSpec, workload: Workload) -> int:
    """Return the tensor ranks whose latents are stored once.

    Source: vllm 0.33, distributed/kv_transfer/kv_connector/v1/offloading/config.py,
    replicated_layout."""
    latent = any(isinstance(mixer, LatentAttention) for mixer, _ in held(spec, None))
    once = workload.engine_version >= releases.LATENTS_OFFLOADED_ONCE
    return workload.tensor_parallel if latent and once and workload.pipeline_parallel == 1 else 1


OFFLOAD = KvOffload(in_shared_memory=True, ranks_of_one_copy=ranks_of_one_copy)


def refusal(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why vLLM offloads no KV cache of this model; None where it does."""
    if not workload.kv_offload_bytes:
        return None
    without = {"kv_offload_gib": (None,)}
    if workload.engine_version < releases.KV_OFFLOADING_SIZE:
        return UnsupportedError(
            "kv_offload_gib",
            "Of the releases of vLLM that were read, 0.19.0 is the first with"
            " --kv-offloading-size.",
            ({"engine_version": ("0.21.0",)}, without),
        )
    if workload.engine_version < releases.HYBRIDS_OFFLOADED and is_hybrid(spec):
        return UnsupportedError(
            "kv_offload_gib",
            "Before 0.21 vLLM turns its hybrid KV cache manager off where KV cache is offloaded:"
            " this model's layers of several kinds are not estimated without it.",
            ({"engine_version": ("0.21.0",)}, without),
        )
    if accelerator.vendor not in _VENDORS or accelerator.id.startswith("gaudi"):
        return UnsupportedError(
            "kv_offload_gib",
            f"vLLM offloads KV cache of CUDA, ROCm and XPU alone, not of {accelerator.name}.",
            (without,),
        )
    return None


def is_hybrid(spec: ModelSpec) -> bool:
    """Return whether layers differ in what they cache of a token."""
    kinds = {
        (type(mixer), mixer.window, mixer.chunk) if isinstance(mixer, Attention) else type(mixer)
        for mixer, _ in held(spec, None)
    }
    return len(kinds) > 1
