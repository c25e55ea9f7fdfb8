"""recommend_gpus: no option is beaten and none that fits is missing, held against brute force."""

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from fitgauge.engine.accelerator import most_gpus
from fitgauge.engine.performance.decode import (
    decode_speed,
    reads_alone,
    step_bytes,
    waiting_seconds,
)
from fitgauge.engine.performance.flops import token_flops
from fitgauge.engine.performance.prefill import peak
from fitgauge.engine.serving import registry
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing as words
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.batch_settings import best_estimate
from fitgauge.services.fit.workload import degrees
from fitgauge.services.recommend.candidates import plans
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.search import weight_bits
from fitgauge.services.recommend.service import Recommender
from made_up import ENGINES, KNOWN, PREPARER, card, catalog_of, vector

CARDS = st.lists(
    st.tuples(
        st.sampled_from([8, 12, 24, 24, 48, 80, 81, 141, 192]),
        st.sampled_from([None, 300.0, 900.0, 900.0, 2000.0]),
        st.sampled_from([None, (6, 1), (7, 5), (8, 6), (9, 0), (10, 0)]),
    ),
    min_size=1,
    max_size=4,
).map(lambda rows: [card(number, *row) for number, row in enumerate(rows)])
PRICES = st.lists(st.sampled_from([None, 1.0, 2.0, 2.0, 7.0]), min_size=4, max_size=4)


def beats(one, other):
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def everything_that_fits(request, asked, cards):
    """(card, count, engine, format) of all that fits, each asked by itself, without any
    shortcut."""
    found = set()
    offered = plans(request, asked, BatchEstimator(asked, ENGINES, PREPARER))
    for accelerator in cards:
        for number, plan in enumerate(offered):
            question = FitRequest(
                model=asked.id,
                gpu="any",
                context_length=request.context_length,
                concurrency=request.concurrency,
                quantization=plan.quantization,
                settings=request.settings,
            )
            fitting = BatchEstimator(asked, ENGINES, PREPARER)
            earlier = [
                other for other in offered[:number] if other.quantization == plan.quantization
            ]
            if any(
                fitting.refused(question, other.engine, accelerator) is None for other in earlier
            ):
                continue
            if fitting.refused(question, plan.engine, accelerator) is not None:
                continue
            for count in range(1, most_gpus(accelerator, request.max_gpu_count) + 1):
                fitting = BatchEstimator(asked, ENGINES, PREPARER)
                try:
                    fresh = best_estimate(fitting, question, plan.engine, accelerator, count)
                except IMPOSSIBLE:
                    continue
                if fresh.workload.gpus == count and fresh.verdict == "fits":
                    found.add(
                        (accelerator.id, count, plan.engine, plan.quantization or "as published")
                    )
    return found


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    cards=CARDS,
    prices=PRICES,
    name=st.sampled_from(sorted(KNOWN)),
    context=st.sampled_from([1024, 8192, 32768]),
    concurrency=st.sampled_from([1, 16, 64]),
    engine=st.sampled_from([None, "vllm", "sglang", "llama.cpp"]),
    budget=st.sampled_from([None, None, 2.5]),
    slowest=st.sampled_from([None, None, 100.0]),
    nodes=st.sampled_from([None, None, 1]),
    chosen=st.sampled_from(["auto", "defaults"]),
)
def test_no_option_is_beaten_and_none_that_fits_is_missing(
    cards, prices, name, context, concurrency, engine, budget, slowest, nodes, chosen
):
    longest = KNOWN[name].spec.max_context_length
    request = RecommendRequest(
        model=name,
        context_length=min(context, longest or context),
        concurrency=concurrency,
        engine=engine,
        max_gpu_count=3,
        limit=1000,
        max_usd_per_hour=budget,
        min_tokens_per_second=slowest,
        max_nodes=nodes,
        gpus_per_node=2,
        settings=chosen,
    )
    by_id = {card.id: (card, price) for card, price in zip(cards, prices, strict=False)}
    every = {
        found: vector_of(request, KNOWN[name], *by_id[found[0]], found)
        for found in everything_that_fits(request, KNOWN[name], cards)
    }
    allowed = {
        found: mark
        for found, mark in every.items()
        if -mark[4] <= (budget or inf)
        and mark[2] >= (slowest or -1.0)
        and found[1] <= 2 * (nodes or inf)
    }
    try:
        answer = Recommender(ENGINES, catalog_of(cards, prices)).answer(request, KNOWN[name])
    except InvalidRequestError:
        assert not allowed
        return
    vectors = {
        (item.gpu.id, item.gpu.count, item.engine, item.quantization): vector(item)
        for item in answer.items
    }
    assert len(vectors) == len(answer.items) == answer.total
    assert vectors.items() <= allowed.items()
    assert not any(beats(one, other) for one in vectors.values() for other in vectors.values())
    for missing in allowed.keys() - vectors.keys():
        assert any(beats(known, allowed[missing]) for known in vectors.values())


def rent(price, count):
    """Return what `catalog_of` asks for so many cards."""
    return inf if price is None else price if count == 1 else 1.5 * price * -(-count // 2)


def vector_of(request, asked, accelerator, price, key):
    """Return the criteria of one combination, from its own numbers."""
    _, count, engine, quantization = key
    prepared = PREPARER.prepare(
        asked, None if quantization == "as published" else quantization, engine
    )
    tensor, _, _ = degrees(FitRequest(model="x", gpu="x"), asked.spec, count, engine)
    read = step_bytes(
        asked.spec,
        prepared.sharded,
        concurrency=request.concurrency,
        context_length=request.context_length,
        kv_cache_dtype=words.kv_cache_dtype(None, engine),
        tensor_parallel=tensor,
    )
    fastest = peak(prepared.scheme, accelerator)
    multiplying = (
        token_flops(asked.spec, request.context_length).forward / (tensor * fastest * 1e12)
        if fastest
        else 0.0
    )
    waiting = waiting_seconds(
        asked.spec, request.concurrency, tensor, accelerator, registry.ENGINES[engine].layer_seconds
    )
    known = fastest or reads_alone(accelerator, request.concurrency)
    bandwidth = accelerator.bandwidth_gbps if known else None
    speed = decode_speed(read, request.concurrency, bandwidth, multiplying, waiting)
    return (
        -count,
        -count * accelerator.usable.expected,
        speed.expected if speed else -1.0,
        weight_bits(asked.spec, prepared),
        -rent(price, count),
    )
