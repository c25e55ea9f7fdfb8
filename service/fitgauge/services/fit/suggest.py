"""Suggestions for a request that does not fit or is unsupported: the smallest changes that help.
Every candidate is re-estimated before it is returned."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import gib
from fitgauge.engine.serving.fit import ServingLimits
from fitgauge.engine.serving.platforms import engines_for, maker
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common import parsing
from fitgauge.services.common.display_memory import drives_screens
from fitgauge.services.common.kubernetes import node_size, nodes
from fitgauge.services.common.responses import COUNTS, MOST_SUGGESTIONS
from fitgauge.services.common.schemas import FitRequest, Suggestion
from fitgauge.services.common.smallest import first_step, host_suffices, is_here
from fitgauge.services.fit.candidates import (
    Candidate,
    Fields,
    Sent,
    candidates,
    combine,
    combined_with,
    dominated,
    gguf_files,
    in_host_memory,
    redundant,
    smaller_elsewhere,
)
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.host_speed import rate_in_words
from fitgauge.services.fit.launch_answer import launch_of
from fitgauge.services.fit.limits import deployable, sure_limits
from fitgauge.services.fit.memory_candidates import lower_share, other_pool
from fitgauge.services.fit.quantized_repos import QuantizedRepo
from fitgauge.services.fit.query import FitEstimate, FitQuery
from fitgauge.services.fit.speed import speed_answer

_FEW_ELSEWHERE = 2
_HOST_MEMORY_READERS = frozenset({"nvidia", "amd", "intel", "custom"})
"""Makers whose GPUs read weights that stay on the host. Source: vLLM 0.33 utils/torch_utils.py,
get_accelerator_view_from_cpu_tensor."""

_LOADS = frozenset({"concurrency", "context_length"})
"""Fields of changes that serve less than was asked."""

_COARSE = frozenset({"q3_k_m", "q2_k"})
"""Files of fewer than four bits, which people take where nothing else runs: behind four bits
partly in host memory, where that is offered and fast enough to read along."""

_MOST_GPUS = max(COUNTS)
"""Where smaller loads stand among changes that take more GPUs."""


class SuggestionSearch:
    """The changes that were tried on one question, and those that help.

    results: changes that fit, or are better than what was asked; failed: those that an engine runs
    and that do not suffice."""

    def __init__(
        self, checked: FitEstimate, estimator: Estimator, siblings: Sequence[QuantizedRepo]
    ) -> None:
        self._checked = checked
        self._estimator = estimator
        self._siblings = {sibling.text: sibling.model for sibling in siblings}
        self._from_host = reads_host_memory(checked.query.accelerator)
        self.results: list[Suggestion] = []
        self.failed: list[tuple[Candidate, FitEstimate]] = []

    def consider(self, tried: Iterable[Candidate]) -> None:
        """Estimate each change, unless there are enough that help or one before it asks for
        less."""
        for candidate in tried:
            self._consider(candidate)

    def _consider(self, candidate: Candidate) -> None:
        change, fields = candidate
        if fields.get("cpu_offload_gib") and not self._from_host:
            return
        if sum(one.verdict == "fits" for one in self.results) == MOST_SUGGESTIONS or any(
            redundant(fields, one) for one in self.results
        ):
            return
        again = self._estimator.attempt(self._changed(fields))
        if again is None or again.refused is not None or self._estimator.exceeds_host(again):
            return
        if again.verdict in ("does_not_fit", self._checked.verdict):
            self.failed.append((candidate, again))
            return
        sent = to_send(fields, self._checked.query, again)
        if not any(
            one.verdict == again.verdict and one.request.items() <= sent.items()
            for one in self.results
        ):
            self.results.append(suggestion_of(change, sent, again, self._estimator))

    def _changed(self, fields: Fields) -> FitQuery:
        count = fields.get("gpu_count")
        model = self._siblings.get(str(fields.get("model")))
        return self._estimator.change(
            self._checked.query,
            fields,
            model=model,
            count=count if isinstance(count, int) else None,
        )


def suggestion_of(
    change: str,
    fields: dict[str, str | int | float | bool],
    again: FitEstimate,
    estimator: Estimator,
) -> Suggestion:
    """Return a change as a suggestion: what was estimated, and how to start it."""
    host, each = estimator.host_memory(again), None
    if host is not None and fields.get("cpu_offload_gib"):
        change = change.replace(f"{fields['cpu_offload_gib']} GiB", gib(host.per_gpu_bytes))
    if host is not None and host.total_bytes > host.per_gpu_bytes:
        change += f" ({gib(host.total_bytes)} of host memory in all)"
    elif host is not None:
        change = change.replace(" per GPU", "")
    if fields.get("cpu_offload_gib"):
        speed = speed_answer(again)
        each = speed.tokens_per_second_per_request if speed else None
        concurrency = again.workload.requests_per_replica
        change += f": {rate_in_words(each, concurrency)}" if each else ", which is slower"
    return Suggestion(
        change=change,
        verdict=again.verdict,
        required_bytes=again.required,
        request=fields,
        launch=launch_of(again),
        host_memory=host,
        tokens_per_second_per_request=each,
    )


def suggestions(
    checked: FitEstimate,
    limits: ServingLimits,
    fewest: int | None,
    estimator: Estimator,
    siblings: Sequence[QuantizedRepo],
) -> list[Suggestion]:
    """Return the smallest changes that make it fit, each re-estimated; two at once where none does
    alone. fewest: the least number of GPUs that it fits on."""
    if checked.verdict == "fits":
        return []
    query, remedies = checked.query, SuggestionSearch(checked, estimator, siblings)
    few = () if fewest is None else (_sold_together(query.accelerator, fewest),)
    most = query.match.quota
    counts = tuple(
        count
        for count in sorted({*deployable(query.accelerator, *COUNTS, *few)})
        if (most is None or count <= most) and not query.match.unlike
    )
    remedies.consider((*other_pool(checked), *lower_share(checked)))
    remedies.consider(
        candidates(
            query.spec,
            checked.workload,
            query.request,
            query.original.quantization is not None,
            limits,
            checked.count,
            counts,
            *lacking(checked),
            siblings,
        )
    )
    if not _any_on_this_gpu(remedies.results):
        for base, again in tuple(remedies.failed):
            remedies.consider(
                combined_with(base, again.workload, sure_limits(again), again.count, counts)
            )
    results = [one for one in remedies.results if not dominated(one, remedies.results)]
    results = _fewest_and_plain(results)
    request = query.request
    from_file: Sequence[Suggestion] = ()
    if query.spec.has_experts or request.host_memory_gib is not None:
        from_file = _from_file(query, estimator)
    results += from_file
    if (
        not from_file
        and not _any_on_this_gpu(results, all_asked=True)
        and not request.engine_version
        and not request.quantization
    ):
        smaller = running(smaller_elsewhere(engines_for(query.accelerator)), query, estimator)
        elsewhere = list(islice((one for one in smaller if one.verdict == "fits"), _FEW_ELSEWHERE))
        if not elsewhere and request.engine is None and drives_screens(query.accelerator):
            elsewhere = [one for one in _from_file(query, estimator) if host_suffices(one)]
        results += elsewhere
    return in_order(results, request)


def in_order(
    results: Sequence[Suggestion],
    request: FitRequest,
    most: int = MOST_SUGGESTIONS,
    others: Sequence[Suggestion] = (),
) -> list[Suggestion]:
    """Return those that fit before tight ones, so many at most. Of each first what serves all that
    is asked on these GPUs; then the host's memory where it is offered, before files of fewer than
    four bits, or as fast as people read with the engine that was asked for; then a smaller load,
    more GPUs, the fewest first, a smaller load with other changes, and `others`: smaller models and
    other GPUs; then what is slower, the fastest first."""
    offers_host = request.host_memory_gib is not None
    elsewhere = set(map(id, others))
    fast = max(filter(host_suffices, results), key=_speed, default=None)
    if fast is not None and request.engine is not None and "engine" in fast.request:
        fast = None

    def place(suggestion: Suggestion) -> tuple[bool, int, float]:
        change = suggestion.request
        if offers_host and fast and change.get("quantization") in _COARSE:
            return suggestion.verdict != "fits", 1, 0.0
        if change.get("cpu_offload_gib"):
            early = offers_host or suggestion is fast
            return suggestion.verdict != "fits", 1 if early else 3, -_speed(suggestion)
        if id(suggestion) in elsewhere:
            return suggestion.verdict != "fits", 2, inf
        if _LOADS & change.keys():
            return suggestion.verdict != "fits", 2, 0 if len(change) == 1 else _MOST_GPUS
        count = change.get("gpu_count", 0)
        return suggestion.verdict != "fits", 2 if count else 0, float(count)

    return sorted((*results, *others), key=place)[:most]


def _speed(suggestion: Suggestion) -> float:
    """Return the expected tokens/s of a request; 0 where none is known."""
    speed = suggestion.tokens_per_second_per_request
    return speed.expected if speed else 0.0


def _fewest_and_plain(results: list[Suggestion]) -> list[Suggestion]:
    """Return the changes without those that take more GPUs and others besides, but for the one
    that takes the fewest, with the least changes."""
    more = [one for one in results if "gpu_count" in one.request and one.verdict == "fits"]
    fewest = min(more, key=lambda one: (one.request["gpu_count"], len(one.request)), default=None)
    return [one for one in results if one not in more or one is fewest or len(one.request) == 1]


def with_host_in_words(request: FitRequest, results: Sequence[Suggestion]) -> str:
    """Return 'with 47.9 GiB in host memory it does, in llama.cpp as Q4_K_M, about 20 tokens/s (11
    to 26)', where host memory is offered and the first step is to use it; else nothing."""
    offers_host = request.host_memory_gib is not None
    step = first_step(results, offers_host=offers_host)
    if not offers_host or step is None or not step.request.get("cpu_offload_gib"):
        return ""
    host = step.host_memory.total_bytes if step.host_memory else 0
    engine, form = step.request.get("engine"), step.request.get("quantization")
    speed = step.tokens_per_second_per_request
    return ", ".join(
        (
            f"with {gib(host)} in host memory it does",
            *([f"in {engine}" + (f" as {str(form).upper()}" if form else "")] if engine else ()),
            *([rate_in_words(speed, request.concurrency or 1)] if speed else ()),
        )
    )


def _any_on_this_gpu(results: Sequence[Suggestion], *, all_asked: bool = False) -> bool:
    """Return whether a change fits that takes neither more GPUs nor the host's memory. all_asked:
    and serves all that is asked."""
    return any(
        one.verdict == "fits" and is_here(one) and not (all_asked and _LOADS & one.request.keys())
        for one in results
    )


def _sold_together(accelerator: Accelerator, count: int) -> int:
    """Return the least number of GPUs from `count` up that people have: whole nodes beyond one."""
    each = node_size(accelerator, None)
    return count if count <= each else nodes(accelerator, count, None) * each


def _from_file(query: FitQuery, estimator: Estimator) -> Sequence[Suggestion]:
    """Return a model served from a GGUF file, with a part that the CPU multiplies where it takes
    that, of mixtures their experts, of other models layers; nothing where that does not fit or the
    engine reads such files already."""
    if (
        ENGINES[parsing.engine(query.request.engine)].reads_gguf
        or query.request.engine_version is not None
    ):
        return ()
    tried: list[Candidate] = [(change, {**fields}) for change, fields in gguf_files(query.spec)]
    can_offload = reads_host_memory(query.accelerator)
    while tried:
        change, fields = tried.pop(0)
        again = estimator.possible(estimator.change(query, fields))
        if again is None or again.refused is not None:
            continue
        if again.verdict == "fits" and not estimator.exceeds_host(again):
            return (suggestion_of(change, to_send(fields, query, again), again, estimator),)
        if not tried and can_offload:
            can_offload = False
            tried = [
                combine((change, fields), more)
                for more in in_host_memory(query.spec, again.workload, *lacking(again))
            ]
    return ()


def running(
    changes: Iterable[tuple[str, Mapping[str, Sent]]], query: FitQuery, estimator: Estimator
) -> Iterator[Suggestion]:
    """Yield those of `changes` that run on the GPU and are not sure to exceed it."""
    for change, fields in changes:
        count = fields.get("gpu_count")
        again = estimator.attempt(
            estimator.change(query, fields, count=count if isinstance(count, int) else None)
        )
        if again is not None and again.verdict != "does_not_fit" and again.refused is None:
            yield suggestion_of(change, dict(fields), again, estimator)


def reads_host_memory(accelerator: Accelerator) -> bool:
    """Return whether the GPU can read weights from host memory."""
    return maker(accelerator) in _HOST_MEMORY_READERS and not accelerator.unified_memory


def lacking(checked: FitEstimate) -> tuple[int, int]:
    """Return the weights that have to leave the fullest GPU for what it lacks, and what weights
    take of it [bytes]. A layer that leaves in a GGUF file takes its cache along."""
    terms = checked.estimate.fullest.terms
    weights = sum(term.bytes for term in terms if term.name == "weights")
    short = checked.required - checked.estimate.budget.expected
    spec, row = checked.query.spec, ENGINES[checked.workload.engine]
    if not row.reads_gguf or spec.has_experts or not weights:
        return short, weights
    caches = sum(term.bytes for term in terms if term.name in ("kv_cache", "state_cache"))
    return short * weights // (weights + caches), weights


def to_send(
    fields: Fields, query: FitQuery, again: FitEstimate
) -> dict[str, str | int | float | bool]:
    """Return the fields of a change: degrees that are set free are sent as they turned out where
    the question had set them."""
    freed = {
        name: getattr(again.workload, name)
        for name, value in fields.items()
        if value is None and getattr(query.request, name) is not None
    }
    return {name: value for name, value in fields.items() if value is not None} | freed
