"""Every way to serve a model on the cards at hand, and of those that fit the ones that nothing beats."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine import weights
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.architecture import Attention, Model, ModelSpec, Part
from fitgauge.engine.cache import CACHED_PARTS, request_bytes
from fitgauge.engine.decode import DecodeSpeed, decode_speed, step_bytes
from fitgauge.engine.dtypes import BITS
from fitgauge.engine.prefill import peak
from fitgauge.engine.utilization import token_flops
from fitgauge.engine.workload import EngineName
from fitgauge.errors import InvalidQuestion
from fitgauge.questions import words
from fitgauge.questions.fitting import Fitted, Fitting
from fitgauge.questions.prepared import Prepared
from fitgauge.questions.schemas import FitRequest
from fitgauge.questions.workloads import DEFAULT_CONTEXT, degrees

MOST_CARDS = 16


class Owned(NamedTuple):
    """A card that may be used, and how many of them at most."""

    accelerator: Accelerator
    most: int


class Plan(NamedTuple):
    """One engine with the weights in one format; `bits` of most weights. quantization: None is as published."""

    engine: EngineName
    quantization: str | None
    bits: float


Criteria = tuple[int, int, float, float, float]


def unpriced(accelerator: Accelerator, count: int) -> float | None:
    """What nobody is told the price of."""
    return None


class Wanted(NamedTuple):
    """What an option must be besides fitting.

    `slowest`: tokens a second below which none is wanted. `cost`: what so many cards cost an hour [USD], None where that is unknown.
    `passes`: whether the deployment is allowed, asked before it is estimated; None allows all.
    """

    slowest: float = 0.0
    cost: Callable[[Accelerator, int], float | None] = unpriced
    passes: Callable[[Accelerator, int, Plan], bool] | None = None


class Option(NamedTuple):
    """One deployment that fits, and its `criteria`."""

    accelerator: Accelerator
    gpus: int
    plan: Plan
    speed: DecodeSpeed | None
    fitted: Fitted
    criteria: Criteria


def criteria(count: int, total_bytes: int, speed: DecodeSpeed | None, bits: float, cost: float | None = None) -> Criteria:
    """(cards, usable memory of all, -tokens a second, -bits of a weight, cost an hour): the smaller the better; what is unknown is
    worse than any."""
    return count, total_bytes, -speed.expected if speed else 1.0, -bits, inf if cost is None else cost


def dominates(one: Criteria, other: Criteria) -> bool:
    """Whether `one` is nowhere worse than `other` and somewhere better."""
    return one[0] <= other[0] and one[1] <= other[1] and one[2] <= other[2] and one[3] <= other[3] and one[4] <= other[4] and one != other


def pareto(options: Iterable[Option]) -> list[Option]:
    """The options that no other dominates, in the order of their criteria: whatever dominates an option stands before it."""
    front: list[Option] = []
    for option in sorted(options, key=lambda option: (option.criteria, identity(option))):
        if not any(dominates(kept.criteria, option.criteria) for kept in front):
            front.append(option)
    return front


def identity(option: Option) -> tuple[str, str, str]:
    """What tells options of the same criteria apart: card, engine, format."""
    return option.accelerator.id, option.plan.engine, option.plan.quantization or ""


def most_cards(accelerator: Accelerator, asked: int) -> int:
    """How many of them one deployment can take: one where the GPU is part of a machine (laptops, unified memory), or a slice.

    A process sees one MIG slice only: NVIDIA Multi-Instance GPU user guide, "Application considerations".
    """
    alone = accelerator.unified_memory and accelerator.node_size is None
    return 1 if alone or accelerator.id.startswith("mig-") or " Laptop" in accelerator.name else asked


def weight_bits(spec: ModelSpec, prepared: Prepared) -> float:
    """Bits of one weight in the format that most weights have, without its scales: a coarse measure of quality."""
    scheme = prepared.scheme
    if scheme.form is not None:
        return round(scheme.form.bits, 2)
    return float(BITS[scheme.dtype or (prepared.laid.layout.wide_dtype if spec.dtype == "F32" else spec.dtype)])


class Search:
    """The options of one question about `model`. `plans`: in the order in which their engines are preferred for a card."""

    def __init__(
        self, model: Model, request: FitRequest, fitting: Fitting, cards: Sequence[Owned], plans: Sequence[Plan], wanted: Wanted = Wanted()
    ) -> None:
        self._spec = model.spec
        self._request = request
        self._fitting = fitting
        self._cards = sorted(cards, key=_by_size)
        self._usable = [card.accelerator.usable.expected for card in self._cards]
        self._plans = plans
        self._wanted = wanted
        self._cache_floor = cache_floor(model.spec, request)
        self._flops = token_flops(model.spec, context_length(model.spec, request)).forward
        self._chosen: dict[object, Plan | None] = {}

    def front(self) -> list[Option]:
        """The Pareto set of all that fits: looked at so that what is dominated or too small for the weights is not estimated."""
        front: list[Option] = []
        best_first = sorted(self._plans, key=lambda plan: -plan.bits)
        for count in range(1, max((card.most for card in self._cards), default=0) + 1):
            for plan in best_first:
                front += self._on(count, plan, front)
        return pareto(front)

    def _on(self, count: int, plan: Plan, front: list[Option]) -> list[Option]:
        """Options of one plan on `count` cards: all but those dominated by one of `front` or by a smaller card.

        Cards come in the order of their memory, so one that is neither faster nor cheaper than a smaller one that fits is dominated by it.
        """
        request = structs.replace(self._request, gpu_count=count, quantization=plan.quantization, engine=plan.engine)
        try:
            tensor, pipeline, _ = degrees(request, self._spec, count, plan.engine)
        except InvalidQuestion:
            return []
        if tensor * pipeline < count:  # cards left idle: fewer do the same
            return []
        prepared = self._fitting.prepared(plan.quantization, plan.engine)
        read = self._step_bytes(request, prepared, plan, tensor)
        found: list[Option] = []
        known = _Known(front, plan.bits)
        large_enough = self._cards[bisect_left(self._usable, self._least_usable(plan, prepared, count)) :]
        for usable, cards in groupby(large_enough, key=lambda card: card.accelerator.usable.expected):
            alike = []
            for card in cards:
                accelerator = card.accelerator
                if card.most < count:
                    continue
                fastest = peak(prepared.scheme, accelerator)
                multiplying = self._flops / (tensor * fastest * 1e12) if fastest else 0.0
                speed = decode_speed(read, self._request.concurrency or 1, accelerator.bandwidth_gbps, multiplying) if read else None
                mark = criteria(count, usable * count, speed, plan.bits, self._wanted.cost(accelerator, count))
                if (
                    known.dominate(mark)
                    or any(dominates(other.criteria, mark) for other in found)
                    or not self._is_wanted(card, count, plan, speed)
                ):
                    continue
                if self._chosen_plan(plan.quantization, accelerator) != plan:
                    continue
                fitted = self._fitting.possible(request, plan.engine, accelerator, count)
                if fitted is not None and fitted.verdict == "fits":
                    alike.append(Option(accelerator, count, plan, speed, fitted, mark))
            found += alike
        return found

    def _is_wanted(self, card: Owned, count: int, plan: Plan, speed: DecodeSpeed | None) -> bool:
        """Whether the deployment, if it fits, is one of those asked for."""
        wanted = self._wanted
        if wanted.slowest and (speed is None or speed.expected < wanted.slowest):
            return False
        return wanted.passes is None or wanted.passes(card.accelerator, count, plan)

    def _chosen_plan(self, quantization: str | None, accelerator: Accelerator) -> Plan | None:
        """The plan of the first engine that runs this format on such a card."""
        key = (quantization, accelerator.vendor, accelerator.compute_capability, accelerator.gfx)
        if key not in self._chosen:
            request = structs.replace(self._request, quantization=quantization)
            able = (plan for plan in self._plans if plan.quantization == quantization)
            self._chosen[key] = next((plan for plan in able if self._fitting.refused(request, plan.engine, accelerator) is None), None)
        return self._chosen[key]

    def _least_usable(self, plan: Plan, prepared: Prepared, count: int) -> int:
        """Usable memory below which a card need not be tried: the fullest of `count` holds no less than the average."""
        share = self._fitting.profile(plan.engine).gpu_memory_utilization if plan.engine == "vllm" else 1.0
        return int((_language_bytes(prepared) + self._cache_floor) / count / share)

    def _step_bytes(self, request: FitRequest, prepared: Prepared, plan: Plan, tensor_parallel: int) -> int:
        """What one rank reads for a token of every request; 0 for a model that generates none."""
        if self._spec.task == "encode":
            return 0
        return step_bytes(
            self._spec,
            prepared.laid,
            concurrency=request.concurrency or 1,
            context_length=context_length(self._spec, request),
            cache_dtype=words.cache_dtype(request.kv_cache_dtype, plan.engine),
            tensor_parallel=tensor_parallel,
        )


class _Known:
    """What is known to fit with as many bits or more and no more cards: whether it dominates, among those with no more memory."""

    def __init__(self, options: Sequence[Option], bits: float) -> None:
        self._marks = sorted((option.criteria for option in options if option.plan.bits >= bits), key=itemgetter(1))
        self._sizes = [mark[1] for mark in self._marks]

    def dominate(self, mark: Criteria) -> bool:
        """Whether one of them dominates `mark`, of more or as many cards."""
        return any(dominates(other, mark) for other in self._marks[: bisect_right(self._sizes, mark[1])])


def _by_size(card: Owned) -> tuple[int, str]:
    return card.accelerator.usable.expected, card.accelerator.id


def context_length(spec: ModelSpec, request: FitRequest) -> int:
    """Tokens of one request: as asked, else the usual default within the model's own limit."""
    return request.context_length or min(DEFAULT_CONTEXT, spec.max_context_length or DEFAULT_CONTEXT)


def cache_floor(spec: ModelSpec, request: FitRequest) -> int:
    """Bytes of cache that no engine does without, over all ranks: ordinary attention alone, in the narrowest format it may take.

    Engines round up to blocks, replicate heads and hold more than a window, never less.
    """
    asked = (request.kv_cache_dtype or "auto").strip().lower()
    narrow = "F4" if asked not in ("auto", "fp8", "bf16", "fp16") else "F16" if asked != "fp8" and spec.quantization is None else "F8_E4M3"
    one = sum(
        len(block.layers) * request_bytes(mixer, context_length(spec, request), narrow, 1, narrow)
        for block in spec.blocks
        if block.part in CACHED_PARTS
        for mixer in block.mixers
        if isinstance(mixer, Attention)
    )
    return one * (request.concurrency or 1)


def _language_bytes(prepared: Prepared) -> int:
    """Bytes of the language model's layers, which every engine keeps on its cards: over all ranks never less than this."""
    return int(weights.rank_weights(prepared.laid).by_part.get(Part.LANGUAGE, 0) * min(1.0, prepared.laid.scale))
