"""Accelerator: what one GPU, slice or unified-memory machine offers to one process."""

import msgspec

from fitgauge.engine.quantity import GB, Basis, Bytes
from fitgauge.errors import InvalidRequestError

MAX_CUSTOM_BYTES = 16_384 * GB

USUAL_NODE = 8
"""Accelerators of a machine, and the widest tensor parallelism, where neither the caller nor the
catalog says: an HGX board's."""


SERVER_GENERATIONS = (9, 10)
"""First number of the compute capability of NVIDIA's server cards since Hopper, which NVLink's
switches join where the catalog does not say otherwise."""


class Source(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the fact `of` an accelerator comes from: `of` is the name of the field."""

    of: str
    text: str


class Accelerator(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """One accelerator as a process sees it. What no tool prints, and what no vendor
    states, is None.

    `marketed_bytes`: what the box says [bytes], its GB taken as 10^9. `total_bytes`: what the
    vendor's tool shows (nvidia-smi's MiB, the profile of a MIG slice) [bytes]. `usable`: what a
    process on Linux sees [bytes]; of a laptop's GPU, mostly run under Windows,
    `expected` is what Windows shows and `low` what Linux does. `usable_basis` is `exact` where
    it was read off such a process, `calibrated` where it follows from cards of the same memory
    and generation (`derived_from`, their ids), `assumed` where the relation is weaker.
    `usable_windows_bytes`: the same on Windows and WSL, where the driver hides less.
    `bandwidth_gbps`: 10^9 bytes a second of its memory. `*_dense`: 10^12 operations a second of
    its matrix units with sums in 32 bits, without sparsity; `bf16_tflops_dense` is of fp16 where
    the hardware has no bf16. `compute_capability`: NVIDIA's (major, minor); `gfx`: AMD's target.
    `unified_memory`: the CPU's memory is the same. `nvlink`: cards of a node are joined by it;
    `interconnect_gbps`: 10^9 bytes a second, one direction, within a node. `node_size`: cards in
    the usual node. `tdp_watts`: power the card is built to draw [W]. `msrp_usd`: about what one
    cost when it came out [USD]."""

    id: str
    name: str
    vendor: str
    marketed_bytes: int
    usable: Bytes
    usable_basis: Basis
    sources: tuple[Source, ...]
    derived_from: tuple[str, ...] = ()
    total_bytes: int | None = None
    usable_windows_bytes: int | None = None
    bandwidth_gbps: float | None = None
    bf16_tflops_dense: float | None = None
    fp8_tflops_dense: float | None = None
    fp4_tflops_dense: float | None = None
    int8_tops_dense: float | None = None
    compute_capability: tuple[int, int] | None = None
    gfx: str | None = None
    unified_memory: bool = False
    nvlink: bool | None = None
    interconnect_gbps: float | None = None
    node_size: int | None = None
    tdp_watts: int | None = None
    msrp_usd: int | None = None
    release_year: int | None = None

    @property
    def formats(self) -> tuple[str, ...] | None:
        """Number formats its matrix units multiply natively, None where that is unknown. See
        `native_formats`."""
        return native_formats(self.compute_capability, self.gfx)

    @property
    def flash_attention(self) -> bool | None:
        """Whether a FlashAttention kernel exists for it, None where that is unknown.

        The original asks for Turing, compute capability 7.5 (Dao-AILab/flash-attention, README
        of v1); the ROCm port for CDNA 2 and newer."""
        if self.compute_capability is not None:
            return self.compute_capability >= (7, 5)
        return True if self.gfx in _FLASH_ATTENTION_GFX else None

    @property
    def flash_attention_2(self) -> bool | None:
        """Whether FlashAttention-2 runs on it, None where that is unknown.

        "Ampere, Ada, or Hopper GPUs"; ROCm: MI200, MI250, MI300, MI355
        (Dao-AILab/flash-attention, README)."""
        if self.compute_capability is not None:
            return self.compute_capability >= (8, 0)
        return True if self.gfx in _FLASH_ATTENTION_GFX else None


_FLASH_ATTENTION_GFX = frozenset({"gfx90a", "gfx942", "gfx950"})

_CUDA_FORMATS = (
    ((5, 3), ("fp16",)),
    ((6, 1), ("fp16", "int8")),
    ((7, 0), ("fp16",)),
    ((7, 2), ("fp16", "int8")),
    ((8, 0), ("fp16", "bf16", "int8")),
    ((8, 9), ("fp16", "bf16", "int8", "fp8")),
    ((10, 0), ("fp16", "bf16", "int8", "fp8", "fp4")),
)  # fmt: skip

_GFX_FORMATS = {
    "gfx900": ("fp16",), "gfx906": ("fp16", "int8"), "gfx908": ("fp16", "bf16", "int8"),
    "gfx90a": ("fp16", "bf16", "int8"),
    "gfx942": ("fp16", "bf16", "int8", "fp8"), "gfx950": ("fp16", "bf16", "int8", "fp8", "fp4"),
    "gfx103": ("fp16", "int8"), "gfx110": ("fp16", "bf16", "int8"),
    "gfx115": ("fp16", "bf16", "int8"),
    "gfx120": ("fp16", "bf16", "int8", "fp8"),
}  # fmt: skip


def native_formats(
    compute_capability: tuple[int, int] | None, gfx: str | None
) -> tuple[str, ...] | None:
    """Return number formats the hardware multiplies natively, in full or packed arithmetic, None
    where neither argument tells.

    NVIDIA: CUDA C++ Programming Guide, "Compute Capabilities" (Tensor Core data types by compute
    capability: fp16 7.0, int8 7.2, bf16 8.0, fp8 8.9, fp4 10.0) and "Arithmetic Instructions"
    (half precision from 5.3, dp4a from 6.1). AMD: ROCm, "Data types and precision support" (MFMA
    of gfx908, gfx90a, gfx942, gfx950; WMMA of gfx11 and gfx12; packed dot products before)."""
    if compute_capability is not None:
        known = [formats for least, formats in _CUDA_FORMATS if least <= compute_capability]
        return known[-1] if known else ()
    if gfx is not None:
        return _GFX_FORMATS.get(gfx) or _GFX_FORMATS.get(gfx[:6])
    return None


def shared(accelerator: Accelerator, taken_bytes: int) -> Accelerator:
    """Return the card as an engine finds it when others hold `taken_bytes` of it."""
    usable = accelerator.usable
    left = Bytes(
        **{
            name: max(0, getattr(usable, name) - taken_bytes)
            for name in ("low", "expected", "high")
        }
    )
    return msgspec.structs.replace(
        accelerator, usable=left, total_bytes=accelerator.total_bytes or usable.expected
    )


def most_cards(accelerator: Accelerator, asked: int) -> int:
    """Return how many of `asked` one deployment can take: one where the GPU is part of a machine
    (laptops, unified memory), or a slice.

    A process sees one MIG slice only: NVIDIA Multi-Instance GPU user guide, "Application
    considerations"."""
    alone = accelerator.unified_memory and accelerator.node_size is None
    return (
        1 if alone or accelerator.id.startswith("mig-") or " Laptop" in accelerator.name else asked
    )


def custom(size_bytes: int, name: str) -> Accelerator:
    """Return a card of which nothing is known but its size [bytes]; all of it is usable.

    `name`: the size as it was written ("80 GB"). Raises InvalidRequestError where the size is
    zero or beyond 16384 GB."""
    if not 0 < size_bytes <= MAX_CUSTOM_BYTES:
        raise InvalidRequestError(
            f"A card of {name} is beyond what is sized here.",
            hint='Send a size such as "24GB" or "80GiB".',
            field="gpu",
        )
    return Accelerator(
        id=f"custom-{name.lower().replace(' ', '')}",
        name=f"{name} card",
        vendor="custom",
        marketed_bytes=size_bytes,
        usable=Bytes(low=size_bytes, expected=size_bytes, high=size_bytes),
        usable_basis="exact",
        sources=(Source(of="usable", text="as asked: a card of this size, all of it usable"),),
    )
