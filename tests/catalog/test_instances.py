"""Offers of clouds: the rows are well formed, sourced and dated; what so many cards cost follows
from them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fitgauge.catalog.accelerators import load as load_accelerators
from fitgauge.catalog.instances import Offer, Offers, load

ROWS = load().all()


def offer(cloud="north", instance="n8", count=8, low=None, high=None):
    return Offer(
        cloud=cloud,
        instance=instance,
        accelerator_id="card",
        count=count,
        source="a test",
        usd_per_hour_low=low,
        usd_per_hour_high=high if high is not None else low,
        as_of=None if low is None else "2026-01-02",
    )


def test_there_are_many_machines_of_many_clouds():
    assert len(ROWS) >= 200
    assert {
        "aws",
        "azure",
        "gcp",
        "oci",
        "lambda",
        "runpod",
        "alibaba",
        "coreweave",
        "nebius",
    } <= set(load().clouds())


def test_machines_are_named_once():
    assert len({(row.cloud, row.instance) for row in ROWS}) == len(ROWS)


def test_every_row_is_well_formed():
    for row in ROWS:
        load_accelerators().get(row.accelerator_id)
        assert row.cloud == row.cloud.lower(), row
        assert 1 <= row.count <= 16, row
        assert list(row.sizes) == sorted(set(row.sizes)), row
        assert not row.sizes or row.count == 1, row
        assert row.vcpus is None or row.vcpus >= row.count, row
        assert row.memory_gib is None or row.memory_gib >= 8, row
        assert re.search(r"\S+/\S+@\w{7,}:\S+|https://\S+|@public file \d+", row.source), row


def test_every_price_is_a_range_with_a_date():
    for row in ROWS:
        if row.usd_per_hour_low is not None:
            assert (
                0.05 <= row.usd_per_hour_low / row.count <= row.usd_per_hour_high / row.count <= 60
            ), row
            assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", row.as_of), row


def test_a_row_without_a_price_has_no_date():
    assert all(
        row.as_of is None and row.usd_per_hour_high is None
        for row in ROWS
        if row.usd_per_hour_low is None
    )


def test_most_rows_have_a_price_and_the_big_clouds_have_the_common_cards():
    assert sum(row.usd_per_hour_low is not None for row in ROWS) >= 150
    for cloud, card in (
        ("aws", "h100-sxm-80gb"),
        ("gcp", "l4-24gb"),
        ("azure", "mi300x-192gb"),
        ("oci", "b200-192gb"),
    ):
        assert load().of(card, {cloud})


def test_the_smallest_machine_that_holds_the_cards_is_rented():
    offers = Offers(
        (
            offer(instance="n1", count=1, low=3),
            offer(instance="n4", count=4, low=10),
            offer(instance="n8", count=8, low=19),
        )
    )
    assert [offers.rentals("card", count)[0].offer.instance for count in (1, 2, 4, 5, 8)] == [
        "n1",
        "n4",
        "n4",
        "n8",
        "n8",
    ]


def test_more_cards_than_the_largest_machine_holds_are_rented_as_several_of_it():
    (rental,) = Offers((offer(count=8, low=20, high=30),)).rentals("card", 17)
    assert (rental.nodes, rental.count, rental.usd_per_hour_low, rental.usd_per_hour_high) == (
        3,
        24,
        60,
        90,
    )


def test_of_machines_alike_the_cheapest_is_rented():
    (rental,) = Offers(
        (offer(instance="dear", low=30), offer(instance="cheap", low=20), offer(instance="unknown"))
    ).rentals("card", 8)
    assert rental.offer.instance == "cheap"


def test_clouds_come_cheapest_first_and_those_without_a_price_last():
    offers = Offers((offer("south", low=30), offer("east"), offer("north", low=20)))
    assert [rental.offer.cloud for rental in offers.rentals("card", 8)] == [
        "north",
        "south",
        "east",
    ]
    assert [rental.offer.cloud for rental in offers.rentals("card", 8, {"south"})] == ["south"]


def test_a_price_spans_clouds_and_regions_and_names_its_date():
    price = Offers(
        (offer("south", low=40, high=48), offer("east"), offer("north", low=16, high=24))
    ).price("card", 8)
    assert (price.usd_per_hour_low, price.usd_per_hour_high, price.as_of, price.clouds) == (
        16,
        48,
        "2026-01-02",
        ("north", "south"),
    )


def test_a_price_that_nobody_states_is_none():
    assert Offers((offer(),)).price("card", 8) is None
    assert Offers(()).price("card", 8) is None


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 16), st.integers(1, 9)),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 64),
)
def test_a_rental_holds_what_was_asked_for_and_no_whole_machine_more(rows, asked):
    offers = Offers(
        offer(cloud, f"{cloud}{index}", count, low)
        for index, (cloud, count, low) in enumerate(rows)
    )
    rentals = offers.rentals("card", asked)
    assert {rental.offer.cloud for rental in rentals} == {
        cloud for cloud, count, _ in rows if count >= min(asked, 8)
    }
    for rental in rentals:
        assert rental.count == rental.offer.count * rental.nodes
        assert rental.count - rental.offer.count < asked <= rental.count


def test_machines_smaller_than_a_node_of_the_deployment_are_not_put_together():
    offers = Offers((offer(instance="n1", count=1, low=1), offer(instance="n4", count=4, low=10)))
    assert [offers.rentals("card", count) == () for count in (1, 4, 5, 8)] == [
        False,
        False,
        True,
        True,
    ]
    (rental,) = offers.rentals("card", 6, node=4)
    assert (rental.offer.instance, rental.nodes, rental.count, rental.usd_per_hour_low) == (
        "n4",
        2,
        8,
        20,
    )


def test_of_a_cloud_that_prices_one_card_machines_of_its_sizes_are_paid():
    offers = Offers((structs.replace(offer(count=1, low=2), sizes=(1, 2, 4, 8)),))
    rentals = {count: offers.rentals("card", count)[0] for count in (1, 3, 5, 8, 9, 16)}
    assert {count: (rental.nodes, rental.count, rental.usd_per_hour_low) for count,
        rental in rentals.items()} == {
        1: (1, 1, 2), 3: (1, 4, 8), 5: (1, 8, 16), 8: (1, 8, 16), 9: (2, 16, 32), 16: (2, 16, 32),
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "p5.48xlarge",
        "P5.48XLARGE",
        "aws p5.48xlarge",
        "Amazon EC2 p5.48xlarge instances",
        "ml.p5.48xlarge",
        "p5.48xl",
        "p5 48xlarge",
    ],
)
def test_a_machine_is_found_however_it_is_written(text):
    assert [row.instance for row in load().named(text)] == ["p5.48xlarge"]


def test_a_machine_is_not_found_in_another_cloud():
    assert load().named("azure p5.48xlarge") == ()
    assert load().named("") == load().named("aws") == ()
