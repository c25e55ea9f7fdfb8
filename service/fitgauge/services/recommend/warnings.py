"""What to know about a search and its figures."""

from collections.abc import Sequence
from math import inf

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.performance.decode import EFFICIENCY, SPREAD, seconds_of_layer
from fitgauge.engine.performance.prefill import compute_efficiency
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common import parsing
from fitgauge.services.common.positions import scaling_notes
from fitgauge.services.recommend.gpu_options import GpuLimit
from fitgauge.services.recommend.option_schemas import Recommendation
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.search import Option


def serving_warnings(
    request: RecommendRequest,
    model: Model,
    front: Sequence[Option],
    shown: Sequence[Recommendation],
) -> list[Note]:
    """Return the warnings about the options shown."""
    notes = [*model.warnings, *model.spec.notes]
    notes += scaling_notes(model.spec, front[0].fitted.workload)
    if request.context_length is None:
        notes.append(
            Note(
                "context-length-assumed",
                "context_length",
                "`context_length` not set: assuming"
                f" {front[0].fitted.workload.context_length:,} tokens.",
            )
        )
    if any(option.tokens_per_second is not None for option in front):
        multiplying = _range(compute_efficiency(model.spec))
        layers = sorted({_of_a_layer(option, request.concurrency or 1) for option in front})
        of_layers = " to ".join(f"{seconds * 1e6:.0f}" for seconds in layers)
        notes.append(
            Note(
                "speeds-estimated",
                None,
                f"Speeds are roofline estimates: decoding at {EFFICIENCY:.0%} of memory"
                f" bandwidth plus {of_layers} us per layer and the all-reduces of"
                f" tensor parallelism, of which published runs reached {SPREAD[0]:.0%} to"
                f" {SPREAD[2]:.0%}; prefill at {multiplying} of peak arithmetic.",
            )
        )
    if any(option.plan.quantization for option in front):
        notes.append(
            Note(
                "checkpoint-needed",
                "quantization",
                "Formats other than as published need a checkpoint in that format, or an"
                " engine that quantizes while loading.",
            )
        )
    if request.owned:
        notes.append(
            Note(
                "owned-gpus-free",
                "owned",
                "Owned GPUs cost nothing here: purchase and electricity are not counted.",
            )
        )
    elif dates := [item.cost.as_of for item in shown if item.cost and item.cost.as_of]:
        notes.append(
            Note(
                "prices-dated",
                None,
                f"Prices are on demand, of {min(dates)} or later, without storage and traffic:"
                " check them with the cloud.",
            )
        )
    unpriced = sum(option.criteria[4] == inf for option in front)
    if unpriced:
        notes.append(
            Note(
                "prices-unknown",
                None,
                f"{unpriced} of {len(front)} options have no known price: they rank as the"
                " most expensive.",
            )
        )
    return notes


def training_warnings(
    request: RecommendRequest, model: Model, limits: Sequence[GpuLimit]
) -> list[Note]:
    """Return what a reader must know about the search and its figures."""
    most = max(limit.most for limit in limits)
    notes = [
        *model.warnings,
        *model.spec.notes,
        Note(
            "gpus-searched",
            "gpus",
            f"{len(limits)} GPUs were searched, each in powers of two up to {most} or what there"
            " is.",
        ),
    ]
    if not parsing.split_list(request.gpus) and not parsing.split_list(request.vendors):
        notes.append(
            Note(
                "gpus-searched",
                "vendors",
                "GPUs of NVIDIA and AMD were searched: name vendors or gpus for others.",
            )
        )
    notes.append(
        Note(
            "speeds-at-peak",
            None,
            "Tokens a second are those at the GPUs' full peak: real runs reach a part of it, which"
            " POST /v1/utilization explains.",
        )
    )
    return notes


def _of_a_layer(option: Option, concurrency: int) -> float:
    own = ENGINES[option.plan.engine].layer_seconds
    return seconds_of_layer(option.accelerator, concurrency, own)


def _range(shares: tuple[float, float, float]) -> str:
    low, expected, high = shares
    return f"{expected:.0%} ({low:.0%} to {high:.0%})"
