"""Accelerator: what one GPU, slice or unified-memory machine offers to one process."""

from typing import Literal

import msgspec

from fitgauge.engine.quantity import Basis, Bytes
from fitgauge.engine.unsupported import UnsupportedError

Availability = Literal["sold", "laptop", "integrated", "slice", "modified", "announced", "retired"]
"""How a GPU is had: sold or rented today as a board or in a server; part of a laptop; on one chip
or board with the processor; a part of another GPU (MIG); with memory that resellers changed;
announced and not yet sold; no longer sold."""

USUAL_NODE = 8
"""Accelerators of a machine, and the widest tensor parallelism, where neither the caller nor the
catalog says: an HGX board's."""


SERVER_GENERATIONS = (9, 10)
"""First number of the compute capability of NVIDIA's server GPUs since Hopper, which NVLink's
switches join where the catalog does not say otherwise."""


class Source(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where one fact of an accelerator comes from."""

    of: str
    """The field whose value it supports."""
    text: str
    """The document, with its place in it."""


class Accelerator(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """One accelerator as a process sees it; a value that no log prints and no vendor states is
    None."""

    id: str
    """Stable name in small letters, as requests and answers use it."""
    name: str
    """The name as its vendor writes it."""
    vendor: str
    """The vendor as it writes itself."""
    marketed_bytes: int
    """Size on the box [bytes], its GB taken as 10^9."""
    usable: Bytes
    """What a process on Linux sees [bytes]; of a laptop's GPU, mostly run under Windows, `expected`
    is what Windows shows and `low` what Linux does."""
    usable_basis: Basis
    """`exact`: read off such a process; `calibrated`: follows from GPUs of the same memory and
    generation (`derived_from`); `assumed`: the relation is weaker."""
    sources: tuple[Source, ...]
    """Where each fact comes from."""
    derived_from: tuple[str, ...] = ()
    """Ids of the GPUs that `usable` follows from."""
    total_bytes: int | None = None
    """What the vendor's tool shows [bytes]: nvidia-smi's MiB, the profile of a MIG slice."""
    usable_windows_bytes: int | None = None
    """`usable` on Windows and WSL [bytes], where the driver hides less."""
    bandwidth_gbps: float | None = None
    """Memory bandwidth [10^9 B/s]."""
    bf16_tflops_dense: float | None = None
    """Dense bf16 throughput with sums in 32 bits [10^12 operations/s]; fp16 without bf16."""
    fp8_tflops_dense: float | None = None
    """The same in fp8."""
    fp4_tflops_dense: float | None = None
    """The same in fp4."""
    int8_tops_dense: float | None = None
    """The same in int8."""
    compute_capability: tuple[int, int] | None = None
    """NVIDIA's (major, minor)."""
    gfx: str | None = None
    """AMD's target."""
    unified_memory: bool = False
    """Whether the CPU's memory is the same."""
    nvlink: bool | None = None
    """Whether NVLink joins the GPUs of a node."""
    interconnect_gbps: float | None = None
    """Bandwidth within a node, one direction [10^9 B/s]."""
    host_link_gbps: float | None = None
    """Bandwidth to the memory of its host, one direction [10^9 B/s], where that is no PCIe."""
    node_size: int | None = None
    """GPUs in a common node."""
    tdp_watts: int | None = None
    """Power the GPU is built to draw [W]."""
    msrp_usd: int | None = None
    """Approximate price at release [USD]."""
    release_year: int | None = None
    """Year it came to market."""

    availability: Availability = "sold"
    """How it is had; searches over the catalog take what is sold, and the others by name."""

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
        supported = [formats for least, formats in _CUDA_FORMATS if least <= compute_capability]
        return supported[-1] if supported else ()
    if gfx is not None:
        return _GFX_FORMATS.get(gfx) or _GFX_FORMATS.get(gfx[:6])
    return None


def shared(accelerator: Accelerator, other_memory_bytes: int) -> Accelerator:
    """Return the GPU as an engine finds it when others hold `other_memory_bytes` of it."""
    usable = accelerator.usable
    left = Bytes(
        **{
            name: max(0, getattr(usable, name) - other_memory_bytes)
            for name in ("low", "expected", "high")
        }
    )
    return msgspec.structs.replace(
        accelerator, usable=left, total_bytes=accelerator.total_bytes or usable.expected
    )


def most_gpus(accelerator: Accelerator, count: int) -> int:
    """Return how many of `count` one deployment can take: one where the GPU is part of a machine
    (laptops, unified memory), or a slice.

    A process sees one MIG slice only: NVIDIA Multi-Instance GPU user guide, "Application
    considerations"."""
    alone = accelerator.unified_memory and accelerator.node_size is None
    return 1 if alone or accelerator.availability in ("slice", "laptop") else count


def slices_refusal(accelerator: Accelerator, gpus: int) -> UnsupportedError | None:
    """Return why several slices of a GPU run nothing together; None for any other GPUs."""
    if accelerator.availability != "slice" or most_gpus(accelerator, gpus) == gpus:
        return None
    return UnsupportedError(
        "gpu_count",
        f"A process sees one slice of a GPU only, so {gpus} of them run {gpus} copies, not one over"
        " all.",
        ({"gpu_count": (1,)},),
    )


def custom(
    size_bytes: int, name: str, usable_bytes: int | None = None, derived_from: tuple[str, ...] = ()
) -> Accelerator:
    """Return a GPU of which nothing is known but its size [bytes].

    `name`: the size as it was written ("80 GB"). `usable_bytes`: what `derived_from`, GPUs sold
    with that size, give a process; without it all of the size is usable."""
    usable = size_bytes if usable_bytes is None else usable_bytes
    source = "the median of the cards sold with this size, or of the sizes next to it"
    if usable_bytes is None:
        source = "as asked: a card of this size, all of it usable"
    return Accelerator(
        id=f"custom-{name.lower().replace(' ', '')}",
        name=f"{name} GPU",
        vendor="custom",
        marketed_bytes=size_bytes,
        usable=Bytes(low=usable, expected=usable, high=usable),
        usable_basis="exact" if usable_bytes is None else "calibrated",
        derived_from=derived_from,
        sources=(Source(of="usable", text=source),),
    )
