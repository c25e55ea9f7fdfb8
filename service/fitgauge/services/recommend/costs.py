"""What a deployment costs: the rent of its GPUs, and of a million tokens at the speed it is
estimated to have."""

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Annotated

from msgspec import Struct

from fitgauge.catalog.instances import CLOUD_NAMES, Offers, Rental, price_range
from fitgauge.engine.accelerator import Accelerator
from fitgauge.errors import InvalidRequestError
from fitgauge.field_docs import doc
from fitgauge.services.common.kubernetes import node_size
from fitgauge.services.common.token_prices import Usd, per_million

_SHOWN = 3
"""Rentals listed for one option."""

_MOST_PRICES = 16384
"""Prices kept between questions: of a whole catalog at every count, twice."""


class RentalAnswer(Struct, kw_only=True):
    """Machines of one cloud that hold the GPUs; a machine is paid whole."""

    cloud: Annotated[str, doc("The cloud, such as aws.")]
    instance: Annotated[str, doc("Its instance type.")]
    machines: Annotated[int, doc("Instances to rent.")]
    gpus: Annotated[int, doc("GPUs paid for: those of the option, or more.")]
    usd_per_hour_low: Annotated[
        float | None, doc("Of all instances on demand in the cheapest region.")
    ]
    usd_per_hour_high: Annotated[float | None, doc("The same in the most expensive region.")]
    as_of: Annotated[str | None, doc("Date of the price, YYYY-MM-DD.")]
    source: Annotated[str, doc("Where the price comes from.")]


def rented(rental: RentalAnswer, gpus: int) -> str:
    """Return the machines in words, with their GPUs where more are paid for than `gpus`."""
    machines = f"{rental.machines} x " if rental.machines > 1 else ""
    paid = f", paid for all {rental.gpus} GPUs" if rental.gpus > gpus else ""
    return f"{rental.cloud} {machines}{rental.instance}{paid}"


class PricedLoad(Struct, kw_only=True):
    """The load at whose speeds tokens are priced."""

    concurrency: Annotated[int, doc("Requests that decode at once.")]
    context_length: Annotated[int, doc("Tokens of each of them.")]
    prompt_tokens: Annotated[int, doc("Length of the prompts in a steady queue.")]


class CostAnswer(Struct, kw_only=True):
    """What it costs to rent, or nothing for GPUs that are owned. Prices are dated facts, not
    quotes."""

    usd_per_hour_low: Annotated[
        float, doc("The cheapest rental, in any cloud and region: options are compared by it.")
    ]
    usd_per_hour_high: Annotated[
        float, doc("The most expensive region of the most expensive cloud with a price.")
    ]
    as_of: Annotated[str | None, doc("The oldest date of these prices; null for owned GPUs.")]
    usd_per_million_output_tokens: Annotated[
        Usd | None,
        doc(
            "Price divided by the decoding speed of all requests of `priced_at` together."
            " expected: at the lowest price; low to high: over prices and speeds."
        ),
    ]
    usd_per_million_input_tokens: Annotated[Usd | None, doc("The same for prefill speed.")]
    rentals: Annotated[list[RentalAnswer], doc("The cheapest clouds, cheapest first.")]
    priced_at: Annotated[
        PricedLoad | None, doc("The load behind the prices of tokens; null without such prices.")
    ] = None


class Costs:
    """Prices over some clouds. GPUs that are owned cost nothing an hour: electricity and rent
    of the room are not known here."""

    def __init__(
        self,
        offers: Offers,
        clouds: frozenset[str] | None,
        *,
        owned: bool,
        gpus_per_node: int | None = None,
    ) -> None:
        """clouds: None for all; gpus_per_node: None for what is usual for the GPU."""
        self._offers = offers
        self._clouds = clouds
        self._owned = owned
        self._gpus_per_node = gpus_per_node
        self._prices: dict[tuple[str, int], float | None] = {}

    def usd_per_hour(self, accelerator: Accelerator, count: int) -> float | None:
        """Return the lowest price of `count` GPUs, None where none is known."""
        if self._owned:
            return 0.0
        key = (accelerator.id, count)
        if key not in self._prices:
            if len(self._prices) >= _MOST_PRICES:  # GPUs of any size can be asked about
                self._prices.clear()
            price = self._offers.price(
                accelerator.id, count, self._clouds, node_size(accelerator, self._gpus_per_node)
            )
            self._prices[key] = price.usd_per_hour_low if price else None
        return self._prices[key]

    def rentable(self, accelerator: Accelerator) -> bool:
        """Return whether one of the clouds rents it out, at whatever price; without a choice of
        clouds every GPU is."""
        return self._clouds is None or bool(self._offers.of(accelerator.id, self._clouds))

    def answer(
        self,
        accelerator: Accelerator,
        count: int,
        decode: Sequence[float] | None,
        prefill: Sequence[float] | None,
    ) -> CostAnswer | None:
        """Return what `count` GPUs cost, None where no price is known. decode, prefill: tokens
        a second (low, expected, high)."""
        if self._owned:
            return CostAnswer(
                usd_per_hour_low=0.0,
                usd_per_hour_high=0.0,
                as_of=None,
                usd_per_million_output_tokens=per_million(0.0, 0.0, decode),
                usd_per_million_input_tokens=per_million(0.0, 0.0, prefill),
                rentals=[],
            )
        node = node_size(accelerator, self._gpus_per_node)
        rentals = self._offers.rentals(accelerator.id, count, self._clouds, node)
        price = price_range(count, rentals)
        if price is None:
            return None
        return CostAnswer(
            usd_per_hour_low=round(price.usd_per_hour_low, 4),
            usd_per_hour_high=round(price.usd_per_hour_high, 4),
            as_of=price.as_of,
            usd_per_million_output_tokens=per_million(
                price.usd_per_hour_low, price.usd_per_hour_high, decode
            ),
            usd_per_million_input_tokens=per_million(
                price.usd_per_hour_low, price.usd_per_hour_high, prefill
            ),
            rentals=[_rental(rental) for rental in rentals[:_SHOWN]],
        )


def clouds(names: Collection[str], offers: Offers) -> frozenset[str] | None:
    """Return the clouds that are meant, None where none is named. Raises InvalidRequestError for
    one that is unknown."""
    if not names:
        return None
    listed, meant = offers.clouds(), set()
    for text in names:
        word = re.sub(r"[^a-z0-9]", "", text.lower())
        name = next(
            (cloud for cloud in listed if re.sub(r"[^a-z0-9]", "", cloud) == word),
            CLOUD_NAMES.get(word),
        )
        if name not in listed:
            message = f"Unknown cloud {text.strip()[:40]!r}."
            near = tuple(get_close_matches(word, listed, n=3)) or listed[:5]
            raise InvalidRequestError(
                message,
                hint=f"Use {', '.join(listed) or 'no `clouds`: the catalog has no offers'}.",
                matches=near,
                field="clouds",
                code="unknown-value",
            )
        meant.add(name)
    return frozenset(meant)


def _rental(rental: Rental) -> RentalAnswer:
    offer = rental.offer
    low, high = rental.usd_per_hour_low, rental.usd_per_hour_high
    return RentalAnswer(
        cloud=offer.cloud,
        instance=offer.instance,
        machines=rental.nodes,
        gpus=rental.count,
        usd_per_hour_low=None if low is None else round(low, 4),
        usd_per_hour_high=None if high is None else round(high, 4),
        as_of=offer.as_of,
        source=offer.source,
    )
