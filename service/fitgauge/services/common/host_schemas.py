"""Memory of the machine that holds what leaves its GPUs."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.field_docs import doc

HostGib = Annotated[
    Annotated[float, Meta(ge=1, le=65_536)] | None,
    doc(
        "GiB of the machine's memory: suggestions offload no more than it holds besides its"
        " system and the engine (6 GiB, assumed). Default: not bounded.",
        examples=[128],
    ),
]


class HostMemory(Struct, kw_only=True):
    """Host memory that is needed in addition [bytes]."""

    per_gpu_bytes: Annotated[int, doc("Of the GPU that offloads most.")]
    total_bytes: Annotated[int, doc("Of all GPUs together.")]
    kv_cache_tokens: Annotated[
        int | UnsetType, doc("Tokens of KV cache of one replica that `kv_offload_gib` holds.")
    ] = UNSET
