"""What vLLM 0.33 builds or refuses otherwise on another NVIDIA GPU: expert widths its kernels ask
for, routers in F32, attention that no kernel runs.

Every rule was read in the source named and is held to vLLM's own answers on fake GPUs of
compute capability 8.0, 8.9, 9.0, 10.0 and 12.0 (tests/engine/vllm/data/oracle_more.jsonl)."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from fitgauge.engine.accelerator import SERVER_GENERATIONS, Accelerator
from fitgauge.engine.model.mixers import CompressedAttention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec, Split
from fitgauge.engine.serving.runtime import captures_graphs, elsewhere
from fitgauge.engine.serving.vllm.kv_cache.dtypes import cuda_major
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import ShardedWeights, TensorGroup, round_up

AMPERE, HOPPER, BLACKWELL, RTX_BLACKWELL = 8, 9, 10, 12
"""First number of the compute capability: A100 (with RTX 30 and 40); H100, H200; B200, B300; RTX 50
and GB10."""

FP8_UNITS = (8, 9)
"""The first GPU whose matrix units multiply FP8."""


class Tiles(NamedTuple):
    """What sizes of an expert are padded to multiples of."""

    width: int
    """Multiple of the expert's width on a rank."""
    hidden: int
    """Multiple of the hidden size."""


def expert_tiles(
    spec: ModelSpec, form: str | None, compute_capability: tuple[int, int] | None
) -> Tiles | None:
    """Return the tiles of routed experts in `form` (None: 16 bit) on this GPU, None where nothing
    is padded beyond vLLM's usual.

    MXFP4 (gpt-oss): Triton on Hopper takes widths of 64 as they are laid out; TRT-LLM on 10.x
    and Marlin elsewhere, where Triton has no kernel and where inputs are in 4 bit too, pad the
    width to 128 and the hidden size to 256. 16 bit: TRT-LLM on 10.x
    pads the width to 128. Sources: fused_moe/oracle/mxfp4.py and unquantized.py, the round_up
    functions and the order of backends."""
    major = cuda_major(compute_capability)
    triton = major == HOPPER and not (
        quirks(spec).experts_without_triton or has_inputs_in_4_bit(spec)
    )
    if form == "mxfp4" and major and not triton:
        return Tiles(128, 256)
    if form is None and major == BLACKWELL and not quirks(spec).experts_not_silu:
        return Tiles(128, 1)
    return None


def has_inputs_in_4_bit(spec: ModelSpec) -> bool:
    """Return whether Quark quantized what goes into the linears to 4 bit, as it did the weights.
    Source: quark/quark_moe.py, QuarkOCP_MX_MoEMethod (w_mxfp4_a_mxfp4)."""
    settings = spec.quantization or {}
    common = settings.get("global_quant_config")
    inputs = common.get("input_tensors") if isinstance(common, Mapping) else None
    return isinstance(inputs, Mapping) and inputs.get("dtype") == "fp4"


def padded_for(
    sharded: ShardedWeights, spec: ModelSpec, compute_capability: tuple[int, int] | None
) -> ShardedWeights:
    """`sharded` as its tensors are made on this GPU; itself where the GPU changes nothing."""
    form = sharded.scheme.form.name if sharded.scheme.form else None
    experts = [share for share in sharded.shares if share.experts]
    stored = form if any(share.form is not None for share in experts) else None
    tiles = expert_tiles(spec, stored, compute_capability) if experts else None
    wide = quirks(spec).router_in_f32_without_kernel and cuda_major(compute_capability) not in (
        0,
        HOPPER,
        BLACKWELL,
    )
    if tiles is None and not wide:
        return sharded
    widths = frozenset(
        block.mlp.intermediate_size for block in spec.blocks if block.mlp and block.mlp.experts
    )
    tiled: dict[TensorGroup, TensorGroup] = {}

    def _padded(share: TensorGroup) -> TensorGroup:
        if share not in tiled:
            tiled[share] = _tiled(share, tiles, widths) if tiles and share.experts else share
        return tiled[share]

    shares = tuple(_padded(share) for share in sharded.shares)
    if wide:
        shares += tuple(_routers(spec))
    return msgspec.structs.replace(
        sharded,
        shares=shares,
        tensors=tuple(tuple(_padded(share) for share in tensor) for tensor in sharded.tensors),
    )


def _tiled(share: TensorGroup, tiles: Tiles, widths: frozenset[int]) -> TensorGroup:
    """Return one tensor of an expert, its width padded when it is divided, and its hidden side
    at once."""
    if share.split is Split.NONE:
        elements = share.piece_bytes // 2
        return msgspec.structs.replace(share, piece_bytes=2 * round_up(elements, tiles.hidden))
    size = share.pieces
    fused = max((size // width for width in widths if width and size % width == 0), default=1)
    changed = msgspec.structs.replace(share, multiple=tiles.width * max(1, fused))
    if share.form is None:
        return changed
    if share.split is Split.ROW:
        return msgspec.structs.replace(changed, out=round_up(share.out, tiles.hidden))
    return msgspec.structs.replace(changed, inputs=round_up(share.inputs, tiles.hidden))


def _routers(spec: ModelSpec) -> list[TensorGroup]:
    """Return the second half of every router that is kept in four bytes instead of two."""
    return [
        TensorGroup(block.part, "layers", block.layers, Split.NONE, 0, 1, 1, 2 * tensor.elements)
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.name.endswith("gate.weight") and block.mlp is not None and block.mlp.experts
    ]


class AcceleratorKind(NamedTuple):
    """What vLLM's terms depend on of a GPU, but for its memory: GPUs of one kind hold the same
    bytes.
    Of two kinds some models hold the same; of one kind no model holds anything else."""

    cuda: bool
    """Whether it is NVIDIA's."""
    generation: int
    """The first number of the compute capability, where all before Hopper count as one; 0 without
    CUDA."""
    symmetric: bool
    """See `shares_memory`."""
    unified_memory: bool
    """Whether the CPU's memory is the same."""
    early: bool
    """Before Ampere, where releases until 0.11 serve with their first engine."""
    measured: bool
    """Whether the coefficients are of its maker's GPUs."""
    graphs: bool
    """Whether decode steps are captured as graphs."""
    multiplies_fp8: bool
    """See `multiplies_fp8`."""

    @property
    def alone(self) -> "AcceleratorKind":
        """What the profiling pass and the cache depend on of it: not its links, nor whose GPU
        it is."""
        return self._replace(
            symmetric=False, unified_memory=False, measured=True, graphs=True, multiplies_fp8=True
        )


def accelerator_kind(accelerator: Accelerator) -> AcceleratorKind:
    """Return the AcceleratorKind of an accelerator."""
    return _kind(
        accelerator.vendor,
        accelerator.compute_capability,
        accelerator.nvlink,
        accelerator.unified_memory,
        captures_graphs(accelerator),
    )


@lru_cache(maxsize=256)
def _kind(
    vendor: str,
    capability: tuple[int, int] | None,
    nvlink: bool | None,
    unified_memory: bool,
    graphs: bool,
) -> AcceleratorKind:
    major = cuda_major(capability)
    generation = max(major, HOPPER - 1) if major else 0
    symmetric = _symmetric(vendor, capability, nvlink, unified_memory)
    return AcceleratorKind(
        vendor == "NVIDIA",
        generation,
        symmetric,
        unified_memory,
        0 < major < AMPERE,
        not elsewhere(vendor),
        graphs,
        _multiplies_fp8(capability),
    )


def multiplies_fp8(accelerator: Accelerator) -> bool:
    """Return whether the GPU's matrix units multiply FP8; where NVIDIA's do not, Marlin reads FP8
    weights and multiplies in 16 bit. Source: vllm 0.33 platforms/cuda.py, supports_fp8."""
    return _multiplies_fp8(accelerator.compute_capability)


def _multiplies_fp8(capability: tuple[int, int] | None) -> bool:
    return capability is None or capability >= FP8_UNITS


def shares_memory(accelerator: Accelerator) -> bool:
    """Return whether ranks may map each other's memory as one (symmetric memory), which NVLink's
    switches alone offer; a GPU that is only a size may.

    Source: vllm/distributed/device_communicators/all_reduce_utils.py,
    SYMM_MEM_ALL_REDUCE_MAX_SIZES (capabilities 9.0 and 10.x alone), symm_mem.py (off without
    multicast), flashinfer_all_reduce.py. NCCL opens its channels, each with buffers, by the
    links it finds."""
    return _symmetric(
        accelerator.vendor,
        accelerator.compute_capability,
        accelerator.nvlink,
        accelerator.unified_memory,
    )


def _symmetric(
    vendor: str, capability: tuple[int, int] | None, nvlink: bool | None, unified_memory: bool
) -> bool:
    if capability is None:
        return vendor == "custom"
    return nvlink is not False and not unified_memory and capability[0] in SERVER_GENERATIONS


def refusal(spec: ModelSpec, compute_capability: tuple[int, int] | None) -> UnsupportedError | None:
    """Return why no attention kernel of vLLM runs this model on this NVIDIA GPU, None where one
    does.

    Sparse MLA and DeepSeek V4's compressed attention have kernels from Hopper on. Sources:
    platforms/cuda.py (_get_backend_priorities) and the backends' supports_* methods; of DeepSeek
    V4, vLLM issues 40851 and 57144."""
    if compute_capability is None:
        return None
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    latent = [mixer for mixer in mixers if isinstance(mixer, LatentAttention)]
    shown = f"compute capability {compute_capability[0]}.{compute_capability[1]}"
    if compute_capability < (HOPPER, 0) and any(mixer.indexer for mixer in latent):
        return UnsupportedError(
            "gpu",
            f"vLLM has no kernel of sparse latent attention for {shown}; it needs 9.0 or newer.",
        )
    if compute_capability < (HOPPER, 0) and any(
        isinstance(mixer, CompressedAttention) for mixer in mixers
    ):
        return UnsupportedError(
            "gpu", f"vLLM has no kernel of compressed attention for {shown}; it needs 9.0 or newer."
        )
    return None
