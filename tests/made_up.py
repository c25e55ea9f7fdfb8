"""Cards, offers and catalogs made up for tests of recommendations, and the models they are asked
about."""

from math import inf

from bundled_models import model_of
from fitgauge.catalog.accelerators import Accelerators
from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.instances import Offer, Offers
from fitgauge.engine.accelerator import Accelerator, Source
from fitgauge.engine.quantity import GB, Bytes
from fitgauge.services.common.weight_cache import WeightCache

ENGINES = load_engines()
PREPARER = WeightCache()
MODELS = (
    "Qwen/Qwen3-32B",
    "google/gemma-2-9b-it",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-30B-A3B",
    "nvidia/Nemotron-H-56B-Base-8K",
)
KNOWN = {name: model_of(name) for name in MODELS}


def card(number, size, bandwidth, capability):
    usable = size * GB
    return Accelerator(
        id=f"card-{number}",
        name=f"Card {number}",
        vendor="NVIDIA" if capability else "AMD",
        marketed_bytes=usable,
        usable=Bytes(low=int(usable * 0.99), expected=usable, high=usable),
        usable_basis="assumed",
        sources=(Source(of="usable", text="made up"),),
        bandwidth_gbps=bandwidth,
        compute_capability=capability,
    )


def offer(accelerator, count, price, cloud="here"):
    dated = {"usd_per_hour_low": price, "usd_per_hour_high": price, "as_of": "2026-01-01"}
    return Offer(
        cloud=cloud,
        instance=f"{accelerator.id}-{count}",
        accelerator_id=accelerator.id,
        count=count,
        source="made up",
        **dated,
    )


def catalog_of(cards, prices=()):
    """Return a catalog of these cards alone; each may be rented alone, two together for half as
    much again."""
    priced = [
        (card, price) for card, price in zip(cards, prices, strict=False) if price is not None
    ]
    offers = [
        offer(card, count, price * share)
        for card, price in priced
        for count, share in ((1, 1.0), (2, 1.5))
    ]
    return Catalog(Accelerators({card.id: card for card in cards}, ()), Offers(offers))


def vector(item):
    """(cards, memory, tokens a second, bits, dollars an hour), each the larger the better."""
    speed = item.decode.tokens_per_second.expected if item.decode else -1.0
    cost = item.cost.usd_per_hour_low if item.cost else inf
    return (-item.gpu.count, -item.total_usable_bytes, speed, item.weight_bits, -cost)
