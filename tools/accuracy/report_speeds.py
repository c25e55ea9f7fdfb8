"""The part of docs/ACCURACY.md on speed: the formula at a load against published runs, and what
scaling to the nearest of them leaves."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from statistics import mean, quantiles
from typing import NamedTuple

from accuracy.table import table
from accuracy.truth import model
from fitgauge.catalog import accelerators
from fitgauge.catalog.speeds import Deployed, SpeedRun, load, text_runs
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.load import Load, LoadSpeed, load_speed
from fitgauge.engine.performance.texts import TextLoad, text_speed
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.kv_cache import cache_bytes
from fitgauge.engine.weights.rank_bytes import rank_weights
from fitgauge.engine.weights.sharding import ShardedWeights, shard_weights
from fitgauge.services.fit.speed import NEAR, distance

_SHARE = 0.9
"""Of a GPU for weights and cache: what engines take by default, roughly."""

PREFACE = """## Speed at a load

{runs} published runs of {sources} sources that print the time between tokens and to a first token
at a number of requests (`catalog/data/load_speeds.jsonl`), of {deployments} deployments:
TensorRT-LLM {tensorrt}, SGLang {sglang}, vLLM {vllm}. {queued} more hold less than their requests
need, so that some wait: not scored. The speed of a request is fitted to none of them, but to runs
of one request and of whole prompts; two constants of the first token are
(`engine/performance/load.py`). *Ratio* is modelled over published. Runs that send equal requests
all at once, as most do, wait longer for a first token than people who come one by one; the
interval spans both."""

NEAREST = """Scaled to the nearest run of the same deployment, engine and format ("measured" in an
answer), each run as if it were the question and left out itself; and published over modelled, 5th
and 95th percentile, every source weighing the same (the interval of "modelled"): {low:.2f} to
{high:.2f}."""


TEXTS = """### Batches of texts

{runs} published batches of an encoder (`catalog/data/text_speeds.jsonl`: TensorRT, BERT's shapes,
which are bge's) against the formula for embedding and reranking models, to which nothing is fitted
beyond prompts and layers of other runs. Engines that pad, or start each kernel alone, are
slower."""


class Scored(NamedTuple):
    """A published run and what the formula says of it."""

    run: SpeedRun
    """The run."""
    modelled: LoadSpeed
    """The formula alone."""
    holds: bool
    """Whether the GPUs hold all its requests at once."""

    @property
    def speed_ratio(self) -> float:
        """Tokens a second and request, modelled over published."""
        return self.modelled.tokens_per_second_per_request.expected / self.run.speed

    @property
    def first_ratio(self) -> float:
        """Time to a first token, modelled over published."""
        return self.modelled.seconds_to_first_token.expected / _first(self.run)


def _first(run: SpeedRun) -> float:
    return run.seconds_to_first_token or 0.0


@cache
def scored() -> tuple[Scored, ...]:
    """Return every published run at a load, scored."""
    runs = chain.from_iterable(load().values())
    return tuple(_scored(run) for run in runs if run.seconds_to_first_token is not None)


def held() -> list[Scored]:
    """Return those whose requests are all held at once."""
    return [one for one in scored() if one.holds]


def modelled_run(run: SpeedRun) -> LoadSpeed:
    """Return what the formula says of a published run. Raises LookupError for a model that is not
    bundled, and for a GPU of unknown speed."""
    spec, scheme, sharded = _weights(run)
    modelled = load_speed(
        spec,
        sharded,
        scheme,
        accelerators.load().get(run.accelerator),
        run.load,
        kv_cache_dtype="auto",
        tensor_parallel=run.tensor_parallel,
    )
    if modelled is None:
        raise LookupError(run.accelerator)
    return modelled


def _weights(run: SpeedRun) -> tuple[ModelSpec, Scheme, ShardedWeights]:
    return _sharded(run.model, run.format)


@cache
def _sharded(name: str, form: str) -> tuple[ModelSpec, Scheme, ShardedWeights]:
    bundled = model(name)
    if bundled is None:
        raise LookupError(name)
    scheme = requested_scheme(form, bundled.spec)
    return bundled.spec, scheme, shard_weights(bundled.spec, scheme)


def _scored(run: SpeedRun) -> Scored:
    spec, _, sharded = _weights(run)
    cache_of_all = cache_bytes(
        spec,
        run.prompt_tokens + run.output_tokens,
        run.concurrency,
        dtype=spec.dtype,
        tensor_parallel=run.tensor_parallel,
    )
    weights = rank_weights(sharded, tensor_parallel=run.tensor_parallel).bytes
    usable = accelerators.load().get(run.accelerator).usable.expected
    return Scored(run, modelled_run(run), weights + cache_of_all <= _SHARE * usable)


def left_out() -> tuple[list[float], list[float]]:
    """Return published over scaled, of each run by the nearest other run of its deployment, engine
    and format: tokens a second and request, time to a first token."""
    by_deployment: dict[tuple[Deployed, str, str], list[Scored]] = {}
    for one in held():
        run = one.run
        deployed = Deployed(run.parameters, run.accelerator, run.tensor_parallel)
        by_deployment.setdefault((deployed, run.engine, run.format), []).append(one)
    speeds, firsts = [], []
    for members in by_deployment.values():
        for one in members:
            others = [other for other in members if other is not one]
            nearest = min(others, key=_distance_to(one.run.load), default=None)
            if nearest is not None and distance(nearest.run, one.run.load) <= NEAR:
                speeds.append(nearest.speed_ratio / one.speed_ratio)
                firsts.append(nearest.first_ratio / one.first_ratio)
    return speeds, firsts


def _distance_to(question: Load) -> Callable[[Scored], float]:
    return lambda other: distance(other.run, question)


def tenths(values: Sequence[float]) -> tuple[float, float, float]:
    """Return 10th percentile, median and 90th percentile."""
    cuts = quantiles(values, n=10, method="inclusive")
    return cuts[0], cuts[4], cuts[8]


def by_source(share: float) -> float:
    """Return the published speed over the modelled one below which this share of the runs lies,
    every source weighing the same."""
    runs = held()
    sizes = Counter(one.run.source for one in runs)
    seen = 0.0
    for one in sorted(runs, key=lambda one: -one.speed_ratio):
        seen += 1 / (sizes[one.run.source] * len(sizes))
        if seen >= share:
            return 1 / one.speed_ratio
    raise ValueError(share)


@cache
def text_ratios() -> Mapping[str, Sequence[float]]:
    """Return published over modelled texts a second, by GPU."""
    ratios: dict[str, list[float]] = {}
    for run in text_runs():
        spec, scheme, sharded = _sharded(run.model, run.format)
        modelled = text_speed(
            spec,
            scheme,
            accelerators.load().get(run.accelerator),
            TextLoad(texts=run.texts, tokens=run.tokens),
            weight_bytes=rank_weights(sharded).bytes,
            max_batched_tokens=run.texts * run.tokens,
        )
        if modelled is None:
            raise LookupError(run.accelerator)
        published = run.texts / run.seconds
        rate = modelled.texts_per_second.expected
        ratios.setdefault(run.accelerator, []).append(published / rate)
    return ratios


def _of_texts() -> str:
    ratios = text_ratios()
    rows: list[tuple[object, ...]] = [
        (name, len(values), *(round(tenth, 2) for tenth in tenths(values)))
        for name, values in ratios.items()
    ]
    text = TEXTS.format(runs=sum(map(len, ratios.values())))
    return (
        text + "\n\n" + table(("published over modelled", "runs", "10th", "median", "90th"), rows)
    )


def coverage(runs: Sequence[Scored]) -> tuple[float, float]:
    """Return the share of runs within the interval of the speed, and of the first token."""
    return (
        mean(
            one.modelled.tokens_per_second_per_request.low
            <= one.run.speed
            <= one.modelled.tokens_per_second_per_request.high
            for one in runs
        ),
        mean(
            one.modelled.seconds_to_first_token.low
            <= _first(one.run)
            <= one.modelled.seconds_to_first_token.high
            for one in runs
        ),
    )


def document() -> str:
    """Return the section."""
    runs = held()
    sources = list(dict.fromkeys(one.run.source for one in runs))
    groups = [("all", runs)] + [
        (source, [one for one in runs if one.run.source == source]) for source in sources
    ]
    rows = [_row(name, members) for name, members in groups]
    head = (
        "runs of", "runs", "speed: ratio", "10th", "90th", "within, %", "first token: ratio",
        "10th", "90th", "within, %",
    )  # fmt: skip
    counts = {name: sum(one.run.engine == name for one in runs) for name in _ENGINES}
    deployments = {
        (one.run.parameters, one.run.accelerator, one.run.tensor_parallel, one.run.format)
        for one in runs
    }
    preface = PREFACE.format(
        runs=len(runs),
        sources=len(sources),
        deployments=len(deployments),
        queued=len(scored()) - len(runs),
        tensorrt=counts["tensorrt-llm"],
        sglang=counts["sglang"],
        vllm=counts["vllm"],
    )
    speeds, firsts = left_out()
    low, high = by_source(0.05), by_source(0.95)
    scaled: list[tuple[object, ...]] = [
        (name, len(ratios), *(round(tenth, 2) for tenth in tenths(ratios)))
        for name, ratios in (("speed of a request", speeds), ("first token", firsts))
    ]
    return "\n\n".join(
        (
            preface,
            table(head, rows),
            NEAREST.format(low=low, high=high),
            table(("published over scaled", "runs", "10th", "median", "90th"), scaled),
            _of_texts(),
        )
    ) + "\n"  # fmt: skip


_ENGINES = ("tensorrt-llm", "sglang", "vllm")


def _row(name: str, runs: Sequence[Scored]) -> tuple[object, ...]:
    low, middle, high = tenths([one.speed_ratio for one in runs])
    low_first, middle_first, high_first = tenths([one.first_ratio for one in runs])
    speed, first = coverage(runs)
    return (
        name.partition(",")[0],
        len(runs),
        *(round(figure, 2) for figure in (middle, low, high)),
        round(100 * speed),
        *(round(figure, 2) for figure in (middle_first, low_first, high_first)),
        round(100 * first),
    )
