"""Every way to serve a model on the cards at hand, and of those that fit the ones that nothing beats."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine import weights
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.architecture import Attention, Model, ModelSpec, Part
from fitgauge.engine.cache import CACHED_PARTS, request_bytes
from fitgauge.engine.decode import DecodeSpeed, decode_speed, expected_speed, step_bytes
from fitgauge.engine.dtypes import BITS
from fitgauge.engine.platforms import maker
from fitgauge.engine.prefill import activated, peak
from fitgauge.engine.utilization import token_flops
from fitgauge.engine.workload import EngineName
from fitgauge.errors import InvalidQuestion
from fitgauge.questions import words
from fitgauge.questions.fitting import Fitted, Fitting
from fitgauge.questions.front import Criteria, Front, criteria, dominates
from fitgauge.questions.prepared import Prepared
from fitgauge.questions.schemas import FitRequest
from fitgauge.questions.workloads import asked_context, degrees

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


class _Seat(NamedTuple):
    """A card that a plan may run on; `peak`: 10^12 operations a second of the plan's arithmetic, None where it is not known."""

    usable: int
    bandwidth: float | None
    peak: float | None
    card: Owned


class _Rate:
    """Tokens a second of one plan by a card's bandwidth and peak.

    `read`: bytes of a step on one rank, 0 where nothing is generated; `flops`: of one token, over `ranks`.
    """

    def __init__(self, read: int, concurrency: int, flops: float, ranks: int) -> None:
        self._read, self._concurrency, self._flops, self._ranks = read, concurrency, flops, ranks
        self._known: dict[tuple[float | None, float | None], float | None] = {}

    def expected(self, bandwidth: float | None, peak: float | None) -> float | None:
        """The expected speed, worked out once for every bandwidth and peak."""
        key = (bandwidth, peak)
        if key not in self._known:
            self._known[key] = expected_speed(self._read, self._concurrency, bandwidth, self._multiplying(peak))
        return self._known[key]

    def speed(self, bandwidth: float | None, peak: float | None) -> DecodeSpeed | None:
        """The speed as an interval."""
        return decode_speed(self._read, self._concurrency, bandwidth, self._multiplying(peak))

    def _multiplying(self, peak: float | None) -> float:
        return self._flops / (self._ranks * peak * 1e12) if peak else 0.0


class Search:
    """The options of one question about `model`. `plans`: in the order in which their engines are preferred for a card."""

    def __init__(
        self, model: Model, request: FitRequest, fitting: Fitting, cards: Sequence[Owned], plans: Sequence[Plan], wanted: Wanted = Wanted()
    ) -> None:
        self._spec = model.spec
        self._request = request
        self._fitting = fitting
        self._cards = sorted(cards, key=_by_size)
        self._plans = plans
        self._wanted = wanted
        self._cache_floor = cache_floor(model.spec, request)
        self._flops = token_flops(model.spec, asked_context(request, model.spec)).forward
        self._peaks: dict[tuple[str, str], float | None] = {}
        self._costs: dict[str, float | None] = {}
        self._rates: dict[tuple[Plan, int], _Rate] = {}
        self._floors: dict[Plan, int] = {}

    def front(self) -> list[Option]:
        """The Pareto set of all that fits: looked at so that what is dominated or too small for the weights is not estimated.

        Whatever dominates an option has no more cards and no fewer bits, so it was looked at before or is of as many of both.
        """
        found: list[Option] = []
        best_first = sorted(self._plans, key=lambda plan: -plan.bits)
        known = {plan.bits: Front() for plan in best_first}
        seats = self._seats()
        for count in range(1, max((card.most for card in self._cards), default=0) + 1):
            if any(card.most == count - 1 for card in self._cards):
                seats = {plan: _of_more(count, groups) for plan, groups in seats.items()}
            self._costs.clear()
            for plan in best_first:
                found += self._on(count, plan, seats[plan], known)
        return pareto(found)

    def _on(self, count: int, plan: Plan, groups: Sequence[list[_Seat]], known: Mapping[float, Front]) -> Iterator[Option]:
        """Options of one plan on `count` cards that nothing `known` dominates; each of them is known from then on.

        A group is asked what it demands once one of its cards is neither too small for the weights nor dominated.
        """
        if not groups:
            return
        request = structs.replace(self._request, gpu_count=count, quantization=plan.quantization, engine=plan.engine)
        try:
            tensor, pipeline, _ = degrees(request, self._spec, count, plan.engine)
        except InvalidQuestion:
            return
        if tensor * pipeline < count:  # cards left idle: fewer do the same
            return
        rate, front, least = self._rate(request, plan, tensor), known[plan.bits], self._least_usable(plan, count)
        for group in groups:
            demand, place = None, bisect_left(group, (least,))
            while place < len(group):
                usable, bandwidth, peak, card = group[place]
                place += 1
                accelerator = card.accelerator
                mark = criteria(count, usable * count, rate.expected(bandwidth, peak), plan.bits, self._cost(accelerator, count))
                if front.dominates(mark) or not self._is_wanted(accelerator, count, plan, mark):
                    continue
                if demand is None:
                    demand = self._fitting.demanded(request, plan.engine, accelerator, count)
                    if demand is None:
                        break
                    place = max(place - 1, bisect_left(group, (self._fitting.least_usable(demand),)))
                    continue
                fitted = self._fitting.against(demand, accelerator)
                if fitted.verdict == "fits":
                    for bits, marks in known.items():
                        if bits <= plan.bits:
                            marks.add(mark)
                    yield Option(accelerator, count, plan, rate.speed(bandwidth, peak), fitted, mark)

    def _seats(self) -> dict[Plan, list[list[_Seat]]]:
        """The cards of every plan, in groups of a kind, by memory: those on which it is the first plan that runs its format."""
        classes: dict[object, list[Owned]] = {}
        for card in self._cards:
            accelerator = card.accelerator
            classes.setdefault((maker(accelerator), accelerator.compute_capability, accelerator.gfx), []).append(card)
        chosen: dict[Plan, list[Owned]] = {plan: [] for plan in self._plans}
        for quantization in dict.fromkeys(plan.quantization for plan in self._plans):
            request = structs.replace(self._request, quantization=quantization)
            able = [plan for plan in self._plans if plan.quantization == quantization]
            for cards in classes.values():
                first = next((plan for plan in able if self._fitting.refused(request, plan.engine, cards[0].accelerator) is None), None)
                if first is not None:
                    chosen[first] += cards
        return {plan: self._grouped(plan, cards) for plan, cards in chosen.items()}

    def _grouped(self, plan: Plan, cards: Sequence[Owned]) -> list[list[_Seat]]:
        arithmetic = activated(self._fitting.prepared(plan.quantization, plan.engine).scheme)
        groups: dict[Hashable, list[_Seat]] = {}
        for card in sorted(cards, key=_by_size):
            accelerator = card.accelerator
            seat = _Seat(accelerator.usable.expected, accelerator.bandwidth_gbps, self._peak(plan, arithmetic, accelerator), card)
            groups.setdefault(self._fitting.kind(self._request, plan.engine, accelerator), []).append(seat)
        return list(groups.values())

    def _is_wanted(self, accelerator: Accelerator, count: int, plan: Plan, mark: Criteria) -> bool:
        """Whether the deployment, if it fits, is one of those asked for."""
        wanted = self._wanted
        if wanted.slowest and -mark[2] < wanted.slowest:
            return False
        return wanted.passes is None or wanted.passes(accelerator, count, plan)

    def _cost(self, accelerator: Accelerator, count: int) -> float | None:
        """What so many cost an hour, asked once for every count."""
        if accelerator.id not in self._costs:
            self._costs[accelerator.id] = self._wanted.cost(accelerator, count)
        return self._costs[accelerator.id]

    def _peak(self, plan: Plan, arithmetic: str, accelerator: Accelerator) -> float | None:
        """The accelerator's peak under the scheme of a plan, looked up once for every arithmetic."""
        key = (arithmetic, accelerator.id)
        if key not in self._peaks:
            self._peaks[key] = peak(self._fitting.prepared(plan.quantization, plan.engine).scheme, accelerator)
        return self._peaks[key]

    def _rate(self, request: FitRequest, plan: Plan, tensor_parallel: int) -> _Rate:
        """The speeds of a plan whose weights are divided so, worked out once for all counts of cards."""
        key = (plan, tensor_parallel)
        if key not in self._rates:
            read = 0 if self._spec.task == "encode" else self._step_bytes(request, plan, tensor_parallel)
            self._rates[key] = _Rate(read, request.concurrency or 1, self._flops, tensor_parallel)
        return self._rates[key]

    def _step_bytes(self, request: FitRequest, plan: Plan, tensor_parallel: int) -> int:
        """What one rank reads for a token of every request."""
        return step_bytes(
            self._spec,
            self._fitting.prepared(plan.quantization, plan.engine).laid,
            concurrency=request.concurrency or 1,
            context_length=asked_context(request, self._spec),
            cache_dtype=words.cache_dtype(request.kv_cache_dtype, plan.engine),
            tensor_parallel=tensor_parallel,
        )

    def _least_usable(self, plan: Plan, count: int) -> int:
        """Usable memory below which a card need not be tried: the fullest of `count` holds no less than the average."""
        if plan not in self._floors:
            self._floors[plan] = _language_bytes(self._fitting.prepared(plan.quantization, plan.engine)) + self._cache_floor
        share = self._fitting.profile(plan.engine).gpu_memory_utilization if plan.engine == "vllm" else 1.0
        return int(self._floors[plan] / count / share)


def _of_more(count: int, groups: list[list[_Seat]]) -> list[list[_Seat]]:
    """The seats of which `count` or more may be used."""
    left = ([seat for seat in group if seat.card.most >= count] for group in groups)
    return [group for group in left if group]


def _by_size(card: Owned) -> tuple[int, str]:
    return card.accelerator.usable.expected, card.accelerator.id


def cache_floor(spec: ModelSpec, request: FitRequest) -> int:
    """Bytes of cache that no engine does without, over all ranks: ordinary attention alone, in the narrowest format it may take.

    Engines round up to blocks, replicate heads and hold more than a window, never less.
    """
    asked = (request.kv_cache_dtype or "auto").strip().lower()
    narrow = "F4" if asked not in ("auto", "fp8", "bf16", "fp16") else "F16" if asked != "fp8" and spec.quantization is None else "F8_E4M3"
    one = sum(
        len(block.layers) * request_bytes(mixer, asked_context(request, spec), narrow, 1, narrow)
        for block in spec.blocks
        if block.part in CACHED_PARTS
        for mixer in block.mixers
        if isinstance(mixer, Attention)
    )
    return one * (request.concurrency or 1)


def _language_bytes(prepared: Prepared) -> int:
    """Bytes of the language model's layers, which every engine keeps on its cards: over all ranks never less than this."""
    return int(weights.rank_weights(prepared.laid).by_part.get(Part.LANGUAGE, 0) * min(1.0, prepared.laid.scale))
