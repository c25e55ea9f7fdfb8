"""The contract of the catalog: what is known of an accelerator, and where it is rented."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.quantity import Basis, Bytes


class OfferAnswer(Struct, kw_only=True):
    """One machine of a cloud that holds this accelerator; null is unknown. Prices are dated
    facts, not quotes."""

    cloud: str
    instance: str
    count: Annotated[int, Meta(description="Accelerators in the machine.")]
    vcpus: int | None
    memory_gib: Annotated[float | None, Meta(description="The host's memory.")]
    usd_per_hour_low: Annotated[
        float | None, Meta(description="The whole machine on demand in the cheapest region.")
    ]
    usd_per_hour_high: Annotated[float | None, Meta(description="The same in the dearest region.")]
    as_of: Annotated[str | None, Meta(description="Date of the price, YYYY-MM-DD.")]
    regions: Annotated[
        int | None,
        Meta(
            description="Regions the price was taken over; null where it is one price everywhere."
        ),
    ]
    source: str


class CardHour(Struct, kw_only=True):
    """What one card costs an hour on demand, in the machine of each cloud that is the cheapest
    by the card."""

    usd_per_hour_low: float
    usd_per_hour_high: Annotated[
        float, Meta(description="The dearest region of the dearest cloud.")
    ]
    as_of: Annotated[str, Meta(description="The oldest date among the prices, YYYY-MM-DD.")]
    clouds: Annotated[list[str], Meta(description="Those with a price, the cheapest first.")]


class GpuDetail(Struct, kw_only=True):
    """One accelerator of the catalog; null is unknown, never guessed."""

    id: str
    name: str
    vendor: str
    marketed_bytes: int
    usable_bytes: Bytes
    usable_basis: Basis
    bandwidth_gbps: float | None
    bf16_tflops_dense: float | None
    compute_capability: str | None
    formats: list[str]
    sources: list[str]
    fp8_tflops_dense: float | None
    fp4_tflops_dense: float | None
    int8_tops_dense: float | None
    interconnect_gbps: Annotated[
        float | None, Meta(description="10^9 bytes a second, one direction, within a node.")
    ]
    node_size: Annotated[int | None, Meta(description="Accelerators in the usual node.")]
    tdp_watts: Annotated[int | None, Meta(description="Power it is built to draw.")]
    msrp_usd: Annotated[int | None, Meta(description="About what one cost when it came out.")]
    release_year: int | None
    card_hour: Annotated[
        CardHour | None, Meta(description="Price of one card an hour; null where none is known.")
    ]
    total_bytes: Annotated[
        int | UnsetType | None,
        Meta(description="What the vendor's tool shows. This and what follows: of get_gpu alone."),
    ] = UNSET
    usable_windows_bytes: Annotated[
        int | UnsetType | None,
        Meta(description="What a process on Windows and WSL is told it has."),
    ] = UNSET
    unified_memory: Annotated[
        bool | UnsetType, Meta(description="Whether the CPU's memory is the same.")
    ] = UNSET
    nvlink: Annotated[
        bool | UnsetType | None, Meta(description="Whether cards of a node are joined by it.")
    ] = UNSET
    flash_attention: Annotated[
        bool | UnsetType | None, Meta(description="Whether any FlashAttention runs on it.")
    ] = UNSET
    flash_attention_2: Annotated[
        bool | UnsetType | None, Meta(description="Whether FlashAttention-2 does.")
    ] = UNSET
    offers: Annotated[
        list[OfferAnswer] | UnsetType,
        Meta(description="Machines of clouds that hold it, by cloud and count."),
    ] = UNSET


class GpuList(Struct, kw_only=True):
    """A page of the catalog."""

    items: list[GpuDetail]
    total: int
