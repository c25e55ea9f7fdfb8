"""How fast requests are answered at a load: a step decodes one token of every request, and reads
its share of the prompts of those that follow."""

from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.decode import (
    EFFICIENCY,
    LAYER_SECONDS,
    SPREAD,
    DecodeSpeed,
    reads_alone,
    step_bytes,
    waiting_seconds,
)
from fitgauge.engine.performance.flops import token_flops
from fitgauge.engine.performance.host import HostPart
from fitgauge.engine.performance.prefill import (
    PCIE_GBPS,
    Seconds,
    compute_efficiency,
    exchanged_bytes,
    peak,
    prefill_seconds,
    prompt_flops,
)
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.weights.sharding import ShardedWeights
from fitgauge.field_docs import doc

SERVER_SECONDS = 0.035
"""What a server takes of its own before a first token [s]: the request, its tokens, the reply.

Calibrated with AT_ONCE: of all 5 ms and tenths the pair with the least mean error (of logarithms,
every source weighing the same) over the published runs at a load, in
catalog/data/load_speeds.jsonl; a test derives them again from the rows."""

AT_ONCE = 0.6
"""Weight of requests that arrive at once, against those that arrive one by one, in the expected
time to a first token."""

_BUSIEST = 0.95
"""Share of the time spent on prompts beyond which the queue is not estimated: it has no end."""


Half: TypeAlias = Literal["prefill", "decode"]


class Load(Struct, frozen=True, kw_only=True):
    """The requests that a deployment answers at once."""

    concurrency: Annotated[int, doc("Requests that decode at once.")]
    prompt_tokens: Annotated[int, doc("Tokens of a prompt.")]
    output_tokens: Annotated[int, doc("Tokens of an answer.")]
    prefix_cache_hit_rate: Annotated[
        float, doc("Share of the prompt's tokens that are read from the cache.")
    ] = 0.0
    half: Annotated[
        Half | None,
        doc(
            "Of disaggregated serving: prefill writes the first token of an answer alone,"
            " decode finds the cache of every prompt."
        ),
    ] = None

    @property
    def computed_tokens(self) -> int:
        """Tokens of a prompt that are computed: at least the last, whose logits are sampled.

        Source: vLLM v1/core/kv_cache_manager.py, get_computed_blocks (num_tokens - 1)."""
        return max(1, round(self.prompt_tokens * (1 - self.prefix_cache_hit_rate)))


class LoadSpeed(NamedTuple):
    """How fast one replica answers a load."""

    tokens_per_second: DecodeSpeed | None
    """Answers of all requests together, the reading of prompts included; None where no source
    states how fast the GPU multiplies."""
    tokens_per_second_per_request: DecodeSpeed
    """One answer while it is written."""
    seconds_to_first_token: Seconds | None
    """From the sending of a request; None likewise."""


class StepSeconds(NamedTuple):
    """What a step of all requests takes [s]."""

    reading: float
    """Weights and cache, at the efficiency that reading gets."""
    multiplying: float
    """At the peak of the GPUs that share it."""
    waiting: float
    """Layers and all-reduces."""
    host: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """What lies in host memory: slow, expected, fast."""


def held_tokens(load: Load) -> int:
    """Return the tokens that a request holds on average: its prompt and half its answer."""
    return load.prompt_tokens + load.output_tokens // 2


def computed_flops(spec: ModelSpec, load: Load) -> float:
    """Return the operations of the part of a prompt that no prefix cache holds: those of the whole
    prompt less those of its beginning."""
    cached = load.prompt_tokens - load.computed_tokens
    whole = prompt_flops(spec, load.prompt_tokens)
    return whole - prompt_flops(spec, cached) if cached > 0 else whole


def load_speed(
    spec: ModelSpec,
    sharded: ShardedWeights,
    scheme: Scheme,
    accelerator: Accelerator,
    load: Load,
    *,
    kv_cache_dtype: str,
    tensor_parallel: int = 1,
    host: HostPart | None = None,
    layer_seconds: float = LAYER_SECONDS,
) -> LoadSpeed | None:
    """Return how fast a replica answers; None where no source states how fast the GPU reads or
    multiplies, but for one request on the kinds of GPUs that reading was fitted to.

    A request holds its prompt and, on average, half its answer. host: what of the weights lies in
    host memory, which comes on top of what the GPU reads of its own. layer_seconds: of the
    engine."""
    bandwidth, fastest = accelerator.bandwidth_gbps, peak(scheme, accelerator)
    if bandwidth is None or (fastest is None and not reads_alone(accelerator, load.concurrency)):
        return None
    read = step_bytes(
        spec,
        sharded,
        concurrency=load.concurrency,
        context_length=held_tokens(load),
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel=tensor_parallel,
    ) - (host.read_bytes if host else 0.0)
    flops = token_flops(spec, held_tokens(load)).forward
    step = StepSeconds(
        reading=read / (bandwidth * 1e9 * EFFICIENCY),
        multiplying=load.concurrency * flops / (tensor_parallel * fastest * 1e12) if fastest else 0,
        waiting=waiting_seconds(
            spec, load.concurrency, tensor_parallel, accelerator, layer_seconds
        ),
        host=host.seconds_of_step() if host else (0.0, 0.0, 0.0),
    )
    if fastest is None:
        return LoadSpeed(None, _written_alone(step), None)
    prompt = prefill_seconds(
        computed_flops(spec, load),
        exchanged_bytes(spec, load.computed_tokens, tensor_parallel),
        tensor_parallel=tensor_parallel,
        peak=fastest,
        link_gbps=accelerator.interconnect_gbps or PCIE_GBPS,
        efficiency=compute_efficiency(spec),
    )
    if host is not None:
        slow, expected, fast = host.seconds_of_prompt(load.computed_tokens)
        prompt = Seconds(
            low=prompt.low + fast, expected=prompt.expected + expected, high=prompt.high + slow
        )
    return speed_of(step, prompt, load, compute_efficiency(spec))


def _written_alone(step: StepSeconds) -> DecodeSpeed:
    """Return how fast one request alone is written: one token a step is read, not computed, so
    that multiplying takes no time of its own."""
    slow, expected, fast = (
        1 / ((step.reading + step.waiting) / spread + host)
        for spread, host in zip(SPREAD, step.host, strict=True)
    )
    return DecodeSpeed(low=round(slow, 2), expected=round(expected, 2), high=round(fast, 2))


def speed_of(
    step: StepSeconds, prompt: Seconds, load: Load, efficiency: tuple[float, float, float]
) -> LoadSpeed:
    """Return the speeds of a replica whose steps and prompts take so long.

    Each of C requests needs one prompt in every O tokens, so a token of one waits for
    (C - 1) / O prompts of the others: token = reading + multiplying / efficiency + waiting +
    (C - 1) / O x prompt. Nothing is fitted: reading and multiplying follow each other, as in the
    published runs at a load (catalog/data/load_speeds.jsonl), of which docs/ACCURACY.md has the
    errors.

    First token: what the server takes, the prompt, and what it waits for. Requests that arrive one
    by one wait as in a queue with one server and equal service times, prompt x u / (2 (1 - u)),
    where u is the share of time spent on prompts (Pollaczek-Khinchine), for no more prompts than
    there are others, and half a step; those that arrive at once wait for half of each other.
    expected: between the two, by AT_ONCE; low: alone, on a server that takes nothing; high: all at
    once, on one that takes twice as long.
    """
    times, others = [], load.concurrency - 1
    for spread, share, seconds, host in zip(
        SPREAD, efficiency, (prompt.high, prompt.expected, prompt.low), step.host, strict=True
    ):
        own = step.reading / spread + step.multiplying / share + step.waiting / spread + host
        times.append((own, own + others / load.output_tokens * seconds, seconds))
    arrivals = [
        _arrivals(own, token, seconds + step.waiting, seconds, others)
        for own, token, seconds in times
    ]
    slow, expected, fast = (1 / token for _, token, _ in times)
    one_by_one, at_once = arrivals[1]
    waits = (
        arrivals[0].at_once + 2 * SERVER_SECONDS,
        one_by_one ** (1 - AT_ONCE) * at_once**AT_ONCE + SERVER_SECONDS,
        prompt.low + step.waiting,
    )
    low, middle, high = (
        load.concurrency * load.output_tokens / (load.output_tokens * token + wait)
        for (_, token, _), wait in zip(times, waits, strict=True)
    )
    return LoadSpeed(
        DecodeSpeed(low=round(low, 2), expected=round(middle, 2), high=round(high, 2)),
        DecodeSpeed(low=round(slow, 2), expected=round(expected, 2), high=round(fast, 2)),
        Seconds(low=round(waits[2], 4), expected=round(waits[1], 4), high=round(waits[0], 4)),
    )


class _Arrivals(NamedTuple):
    """Time to a first token by how requests arrive [s]."""

    one_by_one: float
    """Evenly spread over time, at random."""
    at_once: float
    """All together, in the mean."""


def _arrivals(own: float, token: float, alone: float, prompt: float, others: int) -> _Arrivals:
    """Return the time to a first token by how requests arrive [s].

    own, token: a token without and with the prompts of others; alone: a request's own prompt."""
    if not others:
        return _Arrivals(alone, alone)
    busy = min(_BUSIEST, 1 - own / token)
    queued = alone + prompt * min(others, busy / (2 * (1 - busy))) + own / 2
    return _Arrivals(queued, max(queued, alone + prompt * others / 2))
