"""Which models SGLang has no kernels for on an accelerator."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import CompressedAttention, LatentAttention, ModelSpec
from fitgauge.engine.serving.sglang import hicache
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

_SPARSE_ATTENTION = (9, 0)
"""The first GPU with kernels of DeepSeek's sparse attention. Source: sgl-project/sglang issue
35420; sgl_kernel.flash_mla (SM90a, SM100f)."""


def refusal(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why SGLang does not run the workload on this accelerator; None where it does."""
    return hicache.refusal(workload) or _without_kernels(spec, accelerator)


def _without_kernels(spec: ModelSpec, accelerator: Accelerator) -> UnsupportedError | None:
    capability = accelerator.compute_capability
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    sparse = any(
        isinstance(mixer, CompressedAttention)
        or (isinstance(mixer, LatentAttention) and mixer.indexer is not None)
        for mixer in mixers
    )
    if not sparse or capability is None or capability >= _SPARSE_ATTENTION:
        return None
    return UnsupportedError(
        "gpu",
        f"SGLang has no kernel of sparse attention for compute capability"
        f" {capability[0]}.{capability[1]}; it needs 9.0 or newer.",
    )
