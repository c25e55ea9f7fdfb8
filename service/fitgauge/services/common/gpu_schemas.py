"""Schemas of the catalog: accelerators and their cloud offers."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.accelerator import Availability
from fitgauge.engine.quantity import Basis, Bytes
from fitgauge.services.common.answer_facts import AnswerAsOf
from fitgauge.services.common.pages import NextOffset


class OfferAnswer(Struct, kw_only=True):
    """One cloud instance with this accelerator; null is unknown. Prices are dated
    facts, not quotes."""

    cloud: Annotated[str, Meta(description="The cloud, such as aws.")]
    instance: Annotated[str, Meta(description="Its instance type.")]
    count: Annotated[int, Meta(description="Accelerators in the instance.")]
    vcpus: Annotated[int | None, Meta(description="Virtual CPUs of the instance.")]
    memory_gib: Annotated[float | None, Meta(description="The host's memory.")]
    usd_per_hour_low: Annotated[
        float | None, Meta(description="The whole instance on demand in the cheapest region.")
    ]
    usd_per_hour_high: Annotated[
        float | None, Meta(description=("The same in the most expensive region."))
    ]
    as_of: Annotated[str | None, Meta(description="Date of the price, YYYY-MM-DD.")]
    regions: Annotated[
        int | None,
        Meta(description="Regions with a price; null for one global price."),
    ]
    source: Annotated[str, Meta(description="Where the row comes from.")]


class CardHour(Struct, kw_only=True):
    """What one GPU costs an hour on demand, in the machine of each cloud that is the cheapest
    by the GPU."""

    usd_per_hour_low: Annotated[
        float, Meta(description="The cheapest region of the cheapest cloud.")
    ]
    usd_per_hour_high: Annotated[
        float, Meta(description="The most expensive region of the most expensive cloud.")
    ]
    as_of: Annotated[str, Meta(description="The oldest date among the prices, YYYY-MM-DD.")]
    clouds: Annotated[list[str], Meta(description="Clouds with a price, cheapest first.")]


class GpuDetail(Struct, kw_only=True):
    """One accelerator of the catalog; null is unknown, never guessed."""

    id: Annotated[str, Meta(description="The id in the catalog.")]
    name: Annotated[str, Meta(description="The name that people use.")]
    vendor: Annotated[str, Meta(description="Who makes it.")]
    marketed_bytes: Annotated[int, Meta(description="Memory as it is sold.")]
    usable_bytes: Annotated[Bytes, Meta(description="What a process can really take.")]
    usable_basis: Annotated[Basis, Meta(description="How usable_bytes is known.")]
    bandwidth_gbps: Annotated[float | None, Meta(description="Memory bandwidth [GB/s].")]
    bf16_tflops_dense: Annotated[
        float | None, Meta(description="Peak in bf16 without sparsity [TFLOPS].")
    ]
    compute_capability: Annotated[
        str | None, Meta(description="CUDA's compute capability, or the architecture.")
    ]
    formats: Annotated[list[str], Meta(description="Number formats that it multiplies.")]
    sources: Annotated[list[str], Meta(description="Where the row comes from.")]
    fp8_tflops_dense: Annotated[
        float | None, Meta(description="Peak in fp8 without sparsity [TFLOPS].")
    ]
    fp4_tflops_dense: Annotated[
        float | None, Meta(description="Peak in fp4 without sparsity [TFLOPS].")
    ]
    int8_tops_dense: Annotated[
        float | None, Meta(description="Peak in int8 without sparsity [TOPS].")
    ]
    interconnect_gbps: Annotated[
        float | None, Meta(description="GB/s in one direction, within a node.")
    ]
    node_size: Annotated[int | None, Meta(description="Accelerators in the usual node.")]
    tdp_watts: Annotated[int | None, Meta(description="Thermal design power.")]
    msrp_usd: Annotated[int | None, Meta(description="Approximate launch price.")]
    release_year: Annotated[int | None, Meta(description="Year of its release.")]
    card_hour: Annotated[
        CardHour | None, Meta(description="Price of one GPU per hour; null if unknown.")
    ]
    total_bytes: Annotated[
        int | UnsetType | None,
        Meta(
            description=(
                "As the vendor's tool shows it. This and the following fields: get_gpu only."
            )
        ),
    ] = UNSET
    usable_windows_bytes: Annotated[
        int | UnsetType | None,
        Meta(description="Usable bytes on Windows and WSL."),
    ] = UNSET
    availability: Annotated[
        Availability | UnsetType,
        Meta(
            description=(
                "sold or rented today; part of a laptop; integrated with the processor; a slice of"
                " another GPU; modified by resellers; announced; retired."
            )
        ),
    ] = UNSET
    unified_memory: Annotated[
        bool | UnsetType, Meta(description="Whether CPU and GPU share memory.")
    ] = UNSET
    nvlink: Annotated[
        bool | UnsetType | None,
        Meta(description=("Whether the GPUs of a node are linked by NVLink.")),
    ] = UNSET
    flash_attention: Annotated[
        bool | UnsetType | None, Meta(description="Whether any FlashAttention version runs on it.")
    ] = UNSET
    flash_attention_2: Annotated[
        bool | UnsetType | None, Meta(description="Whether FlashAttention-2 runs on it.")
    ] = UNSET
    offers: Annotated[
        list[OfferAnswer] | UnsetType,
        Meta(description="Cloud instances with this accelerator, by cloud and count."),
    ] = UNSET
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""


class GpuList(Struct, kw_only=True):
    """A page of the catalog."""

    items: Annotated[list[GpuDetail], Meta(description="The accelerators of the page.")]
    total: Annotated[int, Meta(description="Accelerators in all.")]
    next_offset: NextOffset = None
    """The `offset` of the next page."""
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
