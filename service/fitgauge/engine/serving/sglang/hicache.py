"""What SGLang's hierarchical cache takes of a GPU.

Source: sglang 0.5.23, srt/mem_cache/pool_host/mha.py (prepare_mha_write_back_staging), pages of
srt/arg_groups/overrides.py; allocated after the pools (srt/environ.py,
SGLANG_ENABLE_POST_CAPTURE_KV_SIZING is off)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Attention, CompressedAttention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term, exact_term
from fitgauge.engine.serving.sglang.pools import SglangPools
from fitgauge.engine.serving.token_pool import held
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

HICACHE = (0, 5, 3)
"""Of the releases read, the first with --hicache-size."""

STAGED = (0, 5, 23)
"""Of the releases read, the first that stages pages on the GPU by default (0.5.3 copies layers)."""

_STAGED_PAGES = 64
_DATACENTER_BLACKWELL = 10
_PAGE, _LARGE_PAGE, _LARGEST_PAGE = 1, 64, 128
"""Tokens of a page: with FlashAttention 3, FlashInfer and Triton; with trtllm_mha, the default of
B200 and B300; with FlashAttention 4, theirs where keys and values differ in width."""
_STAGING_VENDORS = frozenset({"NVIDIA", "AMD"})


def refusal(workload: Workload) -> UnsupportedError | None:
    """Return why a release offloads no KV cache; None where it does."""
    if not workload.kv_offload_bytes or workload.engine_version >= HICACHE:
        return None
    return UnsupportedError(
        "kv_offload_gib",
        "Of the releases of SGLang that were read, 0.5.3 is the first with a hierarchical cache.",
        ({"engine_version": ("0.5.3",)}, {"kv_offload_gib": (None,)}),
    )


def staging_terms(
    spec: ModelSpec, pool: SglangPools, workload: Workload, accelerator: Accelerator
) -> tuple[Term, ...]:
    """Return `workspace`: the pages of keys and values that are gathered before they leave the
    GPU. Latents are not staged."""
    latent = (LatentAttention, CompressedAttention)
    page, token = page_tokens(spec, accelerator), int(pool.full + pool.windowed)
    if (
        not workload.kv_offload_bytes
        or workload.engine_version < STAGED
        or accelerator.vendor not in _STAGING_VENDORS
        or any(isinstance(mixer, latent) for mixer, _ in held(spec, None))
        or not token
    ):
        return ()
    return (
        exact_term(
            "workspace",
            _STAGED_PAGES * page * token,
            "computed",
            f"pages staged for host memory: {_STAGED_PAGES} pages x {page} tokens x {token} B",
            "sglang 0.5.23 sglang/srt/mem_cache/pool_host/mha.py, prepare_mha_write_back_staging",
        ),
    )


def page_tokens(spec: ModelSpec, accelerator: Accelerator) -> int:
    """Return the tokens of a page of the attention backend that SGLang takes by default."""
    capability = accelerator.compute_capability
    if capability is None or capability[0] != _DATACENTER_BLACKWELL:
        return _PAGE
    attention = (mixer for mixer, _ in held(spec, None) if isinstance(mixer, Attention))
    uneven = any(mixer.head_dim != mixer.value_dim for mixer in attention)
    return _LARGEST_PAGE if uneven else _LARGE_PAGE
