"""How fast texts are embedded or pairs scored: every text is read in one pass, and nothing is
generated."""

from typing import Annotated, NamedTuple

from msgspec import Struct

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.decode import EFFICIENCY, LAYER_SECONDS
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
from fitgauge.field_docs import doc


class TextLoad(Struct, frozen=True, kw_only=True):
    """A batch of texts, or of pairs of a query and a document."""

    texts: Annotated[int, doc("Texts, or pairs, of the batch.")]
    tokens: Annotated[int, doc("Tokens of each; of a pair, of both together.")]


class TextRate(Struct, frozen=True, kw_only=True):
    """Texts a second as an interval."""

    low: Annotated[float, doc("Lower end of the interval [texts/s].")]
    expected: Annotated[float, doc("Expected [texts/s].")]
    high: Annotated[float, doc("Upper end of the interval [texts/s].")]


class TextSpeed(NamedTuple):
    """How fast one replica reads a batch."""

    texts_per_second: TextRate
    """Of batches that follow each other."""
    seconds_per_batch: Seconds
    """Of one alone."""


def text_speed(
    spec: ModelSpec,
    scheme: Scheme,
    accelerator: Accelerator,
    load: TextLoad,
    *,
    weight_bytes: int,
    max_batched_tokens: int,
    tensor_parallel: int = 1,
) -> TextSpeed | None:
    """Return how fast a replica reads a batch; None where no source states how fast the GPU
    multiplies.

    Seconds of a batch = passes x (layers x LAYER_SECONDS) + operations / (ranks x peak x
    efficiency) + exchanged / link, a pass at least as long as reading the weights. A pass holds
    whole texts up to `max_batched_tokens`. The efficiency is that of prompts
    (engine/performance/prefill.py): published batches of BERT lie at 0.30 to 0.62 of the peak
    (catalog/data/text_speeds.jsonl)."""
    fastest = peak(scheme, accelerator)
    if fastest is None:
        return None
    in_a_pass = max(1, min(load.texts, max_batched_tokens // load.tokens))
    passes = -(-load.texts // in_a_pass)
    bandwidth = accelerator.bandwidth_gbps
    reading = weight_bytes / tensor_parallel / (bandwidth * 1e9 * EFFICIENCY) if bandwidth else 0.0
    batch = prefill_seconds(
        load.texts * prompt_flops(spec, load.tokens),
        exchanged_bytes(spec, load.texts * load.tokens, tensor_parallel),
        tensor_parallel=tensor_parallel,
        peak=fastest,
        link_gbps=accelerator.interconnect_gbps or PCIE_GBPS,
        read_seconds=passes * reading,
        efficiency=compute_efficiency(spec),
    )
    waiting = passes * spec.layers * LAYER_SECONDS
    low, expected, high = (
        round(seconds + waiting, 5) for seconds in (batch.low, batch.expected, batch.high)
    )
    return TextSpeed(
        TextRate(
            low=round(load.texts / high, 2),
            expected=round(load.texts / expected, 2),
            high=round(load.texts / low, 2),
        ),
        Seconds(low=low, expected=expected, high=high),
    )
