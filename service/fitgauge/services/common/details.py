"""What is known of a model or an accelerator by itself."""

import re

from fitgauge.catalog.instances import Offer, Offers, PriceRange
from fitgauge.catalog.variants import file_type
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.mixers import Recurrent
from fitgauge.engine.model.model import Model, Stored
from fitgauge.engine.model.spec import Part
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.kv_cache import state_bytes, token_bytes
from fitgauge.engine.weights.sharding import stored_bytes
from fitgauge.services.common.gpu_schemas import CardHour, GpuDetail, OfferAnswer
from fitgauge.services.common.model_schemas import ModelDetail
from fitgauge.services.common.responses import parameters
from fitgauge.services.common.weight_cache import scheme_of

_HALF = "BF16"
_FORMAT = re.compile(r"(?:nv|mx)?(?:fp|int|nf)\d+")


def model_detail(model: Model) -> ModelDetail:
    """Architecture, counts and bytes; `parameters` and `computed_parameters` check each other."""
    spec, stored = model.spec, model.stored
    scheme = scheme_of(model, None)
    elements = dict(stored.elements) if stored else {}
    if stored and stored.file_bytes:
        weights = stored.file_bytes
    else:
        weights = sum(size_of(count, name) for name, count in elements.items()) or stored_bytes(
            spec, scheme
        )
    language = [block for block in spec.blocks if block.part is Part.LANGUAGE]
    mixers = [(len(block.layers), mixer) for block in language for mixer in block.mixers]
    return ModelDetail(
        id=model.id,
        source=model.source,
        revision=model.revision,
        architecture=spec.architecture,
        model_type=spec.model_type,
        task=spec.task,
        basis=spec.basis,
        parameters=parameters(model),
        computed_parameters=spec.parameters,
        parameters_by_dtype=elements,
        weights_bytes=weights,
        dtype=spec.dtype,
        quantization=_published_as(scheme) or _file_type(stored),
        layers=spec.layers,
        hidden_size=spec.hidden_size,
        vocabulary_size=spec.vocabulary_size,
        max_context_length=spec.max_context_length,
        kv_cache_bytes_per_token=float(
            sum(layers * token_bytes(mixer, _HALF, 1) for layers, mixer in mixers)
        ),
        state_cache_bytes=sum(
            layers * state_bytes(mixer, _HALF, 1)
            for layers, mixer in mixers
            if isinstance(mixer, Recurrent)
        ),
        warnings=[*model.warnings, *spec.notes],
    )


def _published_as(scheme: Scheme) -> str | None:
    """Return the name of a scheme, after its format where the name says none of it: "fp8
    (compressed-tensors)"; None where nothing is quantized."""
    if scheme.form is None:
        return None
    form = _FORMAT.search(scheme.form.name)
    says = any(map(str.isdigit, scheme.name)) or scheme.name in scheme.form.name
    return scheme.name if says or form is None else f"{form[0]} ({scheme.name})"


def _file_type(stored: Stored | None) -> str | None:
    """Return the type of the chosen GGUF file in small letters: q4_k_m."""
    label = file_type(stored.file_name) if stored and stored.file_name else None
    return label.lower() if label else None


def gpu_detail(row: Accelerator, offers: Offers, *, full: bool) -> GpuDetail:
    """Return one accelerator in the words of the contract; `full` adds what a list has no room
    for, the machines of clouds among it."""
    capability = row.compute_capability
    detail = GpuDetail(
        id=row.id,
        name=row.name,
        vendor=row.vendor,
        marketed_bytes=row.marketed_bytes,
        usable_bytes=row.usable,
        usable_basis=row.usable_basis,
        bandwidth_gbps=row.bandwidth_gbps,
        bf16_tflops_dense=row.bf16_tflops_dense,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else row.gfx,
        formats=list(row.formats or ()),
        sources=_sources(row, full=full),
        fp8_tflops_dense=row.fp8_tflops_dense,
        fp4_tflops_dense=row.fp4_tflops_dense,
        int8_tops_dense=row.int8_tops_dense,
        interconnect_gbps=row.interconnect_gbps,
        node_size=row.node_size,
        tdp_watts=row.tdp_watts,
        msrp_usd=row.msrp_usd,
        release_year=row.release_year,
        card_hour=_card_hour(offers.card_hour(row.id)),
    )
    if full:
        detail.total_bytes = row.total_bytes
        detail.usable_windows_bytes = row.usable_windows_bytes
        detail.availability = row.availability
        detail.unified_memory = row.unified_memory
        detail.nvlink = row.nvlink
        detail.flash_attention = row.flash_attention
        detail.flash_attention_2 = row.flash_attention_2
        detail.offers = [offer_answer(offer) for offer in offers.of(row.id)]
    return detail


def _sources(row: Accelerator, *, full: bool) -> list[str]:
    """Return every source once, behind the facts that come from it; in a list without those of
    facts that it leaves out."""
    facts: dict[str, list[str]] = {}
    for source in row.sources:
        if source.of == "availability" and not full:
            continue
        facts.setdefault(source.text, []).append(source.of)
    return [f"{', '.join(named)}: {text}" for text, named in facts.items()]


def _card_hour(price: PriceRange | None) -> CardHour | None:
    """To a hundredth of a cent: prices of machines over their GPUs seldom come out even."""
    if price is None:
        return None
    low, high = round(price.usd_per_hour_low, 4), round(price.usd_per_hour_high, 4)
    return CardHour(
        usd_per_hour_low=low, usd_per_hour_high=high, as_of=price.as_of, clouds=list(price.clouds)
    )


def offer_answer(offer: Offer) -> OfferAnswer:
    """Return one machine of a cloud in the words of the contract."""
    return OfferAnswer(
        cloud=offer.cloud,
        instance=offer.instance,
        count=offer.count,
        vcpus=offer.vcpus,
        memory_gib=offer.memory_gib,
        usd_per_hour_low=offer.usd_per_hour_low,
        usd_per_hour_high=offer.usd_per_hour_high,
        as_of=offer.as_of,
        regions=offer.regions,
        source=offer.source,
    )
