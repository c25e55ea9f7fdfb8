"""Schemas of the catalog: accelerators and their cloud offers."""

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from fitgauge.engine.accelerator import Availability
from fitgauge.engine.quantity import Basis, Bytes
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf
from fitgauge.services.common.pages import NextOffset


class OfferAnswer(Struct, kw_only=True):
    """One cloud instance with this accelerator; null is unknown. Prices are dated
    facts, not quotes."""

    cloud: Annotated[str, doc("The cloud, such as aws.")]
    instance: Annotated[str, doc("Its instance type.")]
    count: Annotated[int, doc("Accelerators in the instance.")]
    vcpus: Annotated[int | None, doc("Virtual CPUs of the instance.")]
    memory_gib: Annotated[float | None, doc("The host's memory.")]
    usd_per_hour_low: Annotated[
        float | None, doc("The whole instance on demand in the cheapest region.")
    ]
    usd_per_hour_high: Annotated[float | None, doc("The same in the most expensive region.")]
    as_of: Annotated[str | None, doc("Date of the price, YYYY-MM-DD.")]
    regions: Annotated[int | None, doc("Regions with a price; null for one global price.")]
    source: Annotated[str, doc("Where the row comes from.")]


class CardHour(Struct, kw_only=True):
    """What one GPU costs an hour on demand, in the machine of each cloud that is the cheapest
    by the GPU."""

    usd_per_hour_low: Annotated[float, doc("The cheapest region of the cheapest cloud.")]
    usd_per_hour_high: Annotated[
        float, doc("The most expensive region of the most expensive cloud.")
    ]
    as_of: Annotated[str, doc("The oldest date among the prices, YYYY-MM-DD.")]
    clouds: Annotated[list[str], doc("Clouds with a price, cheapest first.")]


class GpuDetail(Struct, kw_only=True):
    """One accelerator of the catalog; null is unknown, never guessed."""

    id: Annotated[str, doc("The id in the catalog.")]
    name: Annotated[str, doc("The name that people use.")]
    vendor: Annotated[str, doc("Who makes it.")]
    marketed_bytes: Annotated[int, doc("Memory as it is sold.")]
    usable_bytes: Annotated[Bytes, doc("What a process can really take.")]
    usable_basis: Annotated[Basis, doc("How usable_bytes is known.")]
    bandwidth_gbps: Annotated[float | None, doc("Memory bandwidth [GB/s].")]
    bf16_tflops_dense: Annotated[float | None, doc("Peak in bf16 without sparsity [TFLOPS].")]
    compute_capability: Annotated[
        str | None, doc("CUDA's compute capability, or the architecture.")
    ]
    formats: Annotated[list[str], doc("Number formats that it multiplies.")]
    sources: Annotated[list[str], doc("Where the row comes from.")]
    fp8_tflops_dense: Annotated[float | None, doc("Peak in fp8 without sparsity [TFLOPS].")]
    fp4_tflops_dense: Annotated[float | None, doc("Peak in fp4 without sparsity [TFLOPS].")]
    int8_tops_dense: Annotated[float | None, doc("Peak in int8 without sparsity [TOPS].")]
    interconnect_gbps: Annotated[float | None, doc("GB/s in one direction, within a node.")]
    node_size: Annotated[int | None, doc("Accelerators in the usual node.")]
    tdp_watts: Annotated[int | None, doc("Thermal design power.")]
    msrp_usd: Annotated[int | None, doc("Approximate launch price.")]
    release_year: Annotated[int | None, doc("Year of its release.")]
    card_hour: Annotated[CardHour | None, doc("Price of one GPU per hour; null if unknown.")]
    total_bytes: Annotated[
        int | UnsetType | None,
        doc("As the vendor's tool shows it. This and the following fields: get_gpu only."),
    ] = UNSET
    usable_windows_bytes: Annotated[
        int | UnsetType | None, doc("Usable bytes on Windows and WSL.")
    ] = UNSET
    availability: Annotated[
        Availability | UnsetType,
        doc(
            "sold or rented today; part of a laptop; integrated with the processor; a slice of"
            " another GPU; modified by resellers; announced; retired."
        ),
    ] = UNSET
    unified_memory: Annotated[bool | UnsetType, doc("Whether CPU and GPU share memory.")] = UNSET
    nvlink: Annotated[
        bool | UnsetType | None, doc("Whether the GPUs of a node are linked by NVLink.")
    ] = UNSET
    flash_attention: Annotated[
        bool | UnsetType | None, doc("Whether any FlashAttention version runs on it.")
    ] = UNSET
    flash_attention_2: Annotated[
        bool | UnsetType | None, doc("Whether FlashAttention-2 runs on it.")
    ] = UNSET
    offers: Annotated[
        list[OfferAnswer] | UnsetType,
        doc("Cloud instances with this accelerator, by cloud and count."),
    ] = UNSET
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""


class GpuList(Struct, kw_only=True):
    """A page of the catalog."""

    items: Annotated[list[GpuDetail], doc("The accelerators of the page.")]
    total: Annotated[int, doc("Accelerators in all.")]
    next_offset: NextOffset = None
    """The `offset` of the next page."""
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
