"""Prices, power, quality and quotas: what they leave out, and what tokens cost."""

import pytest
from msgspec import structs

from fitgauge.catalog.accelerators import load as load_accelerators
from fitgauge.catalog.catalog import Catalog
from fitgauge.errors import InvalidRequestError
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.service import Recommender
from made_up import ENGINES, KNOWN, card, catalog_of, vector


def test_a_budget_that_nobody_meets_names_the_cheapest_that_would(recommend):
    with pytest.raises(InvalidRequestError) as caught:
        recommend(max_usd_per_hour=0.05)
    cheapest = recommend(objective="cheapest", limit=1).items[0]
    assert f"at {cheapest.cost.usd_per_hour_low:.2f} USD an hour" in caught.value.hint
    assert cheapest.gpu.name in caught.value.hint


def test_a_budget_leaves_out_what_is_dearer_or_unpriced_and_nothing_else(recommend):
    every, cheap = recommend(limit=1000), recommend(max_usd_per_hour=5, limit=1000)
    assert all(item.cost.usd_per_hour_low <= 5 for item in cheap.items)
    assert {vector(item) for item in every.items if vector(item)[4] >= -5} <= set(
        map(vector, cheap.items)
    )


def test_only_clouds_that_rent_the_gpus_out_are_told(recommend):
    for item in recommend(clouds="aws", limit=1000).items:
        assert item.cost is None or {rental.cloud for rental in item.cost.rentals} == {"aws"}


def test_clouds_go_by_several_names(recommend):
    assert (
        recommend(clouds="Amazon, Google Cloud", limit=3).items
        == recommend(clouds=["aws", "gcp"], limit=3).items
    )
    with pytest.raises(InvalidRequestError) as caught:
        recommend(clouds="nebiuss")
    assert caught.value.matches == ("nebius",)


def test_a_most_power_leaves_out_what_draws_more_or_is_unknown():
    cards = [
        structs.replace(card(number, 80, 900.0, (9, 0)), tdp_watts=watts)
        for number, watts in enumerate((300, 700, None))
    ]
    asked = KNOWN["Qwen/Qwen3-32B"]
    items = (
        Recommender(ENGINES, catalog_of(cards))
        .answer(RecommendRequest(model=asked.id, max_watts=700, limit=1000), asked)
        .items
    )
    assert {item.gpu.id for item in items} == {"card-0", "card-1"}
    assert {item.watts for item in items} <= {300, 600, 700}


def test_gpus_that_are_owned_cost_nothing(recommend):
    items = recommend(gpus="2x L40S, RTX 4090", owned=True, limit=1000).items
    assert {
        (item.cost.usd_per_hour_low, item.cost.usd_per_million_output_tokens.high) for item in items
    } == {(0.0, 0.0)}


def test_the_cost_of_tokens_is_the_price_over_the_speed(recommend):
    for item in recommend(objective="cheapest", limit=5).items:
        cost, speed = item.cost, item.decode.tokens_per_second
        assert cost.usd_per_million_output_tokens.expected == pytest.approx(
            cost.usd_per_hour_low * 1e6 / 3600 / speed.expected, abs=1e-4
        )
        assert cost.usd_per_million_output_tokens.high == pytest.approx(
            cost.usd_per_hour_high * 1e6 / 3600 / speed.low, abs=1e-4
        )
        paid = cost.rentals[0]
        assert paid.usd_per_hour_low == cost.usd_per_hour_low
        assert paid.gpus >= item.gpu.count


def test_a_least_quality_leaves_formats_that_were_measured_to_keep_it(recommend):
    answer = recommend(min_quality=98, limit=1000)
    assert {item.quantization for item in answer.items} <= {
        "as published",
        "fp8",
        "w8a8",
        "q8_0",
        "q6_k",
        "q5_k_m",
    }
    assert all(item.quality.low >= 98 for item in answer.items)


def test_quotas_of_the_catalog_are_kept():
    catalog = Catalog(load_accelerators(), quotas={"l40s-48gb": 2, "h100-sxm-80gb": 0})
    asked = KNOWN["Qwen/Qwen3-32B"]
    items = (
        Recommender(ENGINES, catalog)
        .answer(RecommendRequest(model=asked.id, gpus="L40S, H100 SXM", limit=1000), asked)
        .items
    )
    assert {item.gpu.name for item in items} == {"L40S"}
    assert max(item.gpu.count for item in items) == 2
    with pytest.raises(InvalidRequestError, match="quotas"):
        Recommender(ENGINES, catalog).answer(
            RecommendRequest(model=asked.id, gpus="H100 SXM"), asked
        )
