"""Suggestions for a request that does not fit or is unsupported: the smallest changes that help.
Every candidate is re-estimated before it is returned."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor

from fitgauge.engine.accelerator import USUAL_NODE, Accelerator
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.fit import ServingLimits
from fitgauge.engine.serving.platforms import engines_for, maker
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import refusal
from fitgauge.services.common import parsing as words
from fitgauge.services.common.responses import COUNTS, MOST_SUGGESTIONS
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.fit.candidates import (
    Candidate,
    Fields,
    alternatives,
    candidates,
    combine,
    combined_with,
    dominated,
    gguf_files,
    in_host_memory,
    redundant,
    smaller_elsewhere,
)
from fitgauge.services.fit.estimate import Estimator, FitEstimate, FitQuery, needed_pool_bytes
from fitgauge.services.fit.limits import deployable, held_limits
from fitgauge.services.fit.quantized_repos import QuantizedRepo

_HOST_MEMORY_READERS = frozenset({"nvidia", "amd", "intel", "custom"})
"""Makers whose cards read weights that stay on the host. Source: vLLM 0.33 utils/torch_utils.py,
get_accelerator_view_from_cpu_tensor."""


class SuggestionSearch:
    """The changes that were tried on one question, and those that help.

    found: changes that fit, or are better than what was asked; failed: those that an engine runs
    and that do not suffice."""

    def __init__(
        self, checked: FitEstimate, estimator: Estimator, siblings: Sequence[QuantizedRepo]
    ) -> None:
        self._checked = checked
        self._estimator = estimator
        self._siblings = {sibling.text: sibling.model for sibling in siblings}
        self._from_host = reads_host_memory(checked.asked.accelerator)
        self.found: list[Suggestion] = []
        self.failed: list[tuple[Candidate, FitEstimate]] = []

    def consider(self, tried: Iterable[Candidate]) -> None:
        """Estimate each change, unless there are enough that help or one before it asks for
        less."""
        for candidate in tried:
            self._consider(candidate)

    def _consider(self, candidate: Candidate) -> None:
        change, fields = candidate
        if "cpu_offload_gib" in fields and not self._from_host:
            return
        if sum(one.verdict == "fits" for one in self.found) == MOST_SUGGESTIONS or any(
            redundant(fields, one) for one in self.found
        ):
            return
        asked, workload = self._changed(fields), self._checked.workload
        if (
            refusal(workload, self._estimator.prepared(asked).scheme, asked.accelerator, asked.spec)
            is not None
        ):
            return
        again = self._estimator.possible(asked)
        if again is not None and again.refused is not None:
            return
        if again is None or again.verdict in ("does_not_fit", self._checked.verdict):
            self.failed.extend([(candidate, again)] if again else [])
            return
        sent = to_send(fields, self._checked.asked, again)
        if not any(
            one.verdict == again.verdict and one.request.items() <= sent.items()
            for one in self.found
        ):
            self.found.append(
                Suggestion(
                    change=change,
                    verdict=again.verdict,
                    required_bytes=again.required,
                    request=sent,
                )
            )

    def _changed(self, fields: Fields) -> FitQuery:
        count = fields.get("gpu_count")
        model = self._siblings.get(str(fields.get("model")))
        return self._estimator.change(
            self._checked.asked,
            fields,
            model=model,
            count=count if isinstance(count, int) else None,
        )


def suggestions(
    checked: FitEstimate,
    limits: ServingLimits,
    estimator: Estimator,
    siblings: Sequence[QuantizedRepo],
) -> list[Suggestion]:
    """Return the smallest changes that make it fit, each re-estimated; two at once where none does
    alone."""
    if checked.verdict == "fits":
        return []
    asked, remedies = checked.asked, SuggestionSearch(checked, estimator, siblings)
    one_more = (checked.count + 1,) if checked.count < USUAL_NODE else ()
    most = asked.card.quota
    counts = tuple(
        count
        for count in sorted({*deployable(asked.accelerator, *COUNTS, *one_more)})
        if most is None or count <= most
    )
    remedies.consider((*_other_pool(checked), *_lower_share(checked)))
    remedies.consider(
        candidates(
            asked.spec,
            checked.workload,
            asked.request,
            limits,
            checked.count,
            counts,
            *lacking(checked),
            siblings,
        )
    )
    if all(
        one.verdict != "fits" or {"cpu_offload_gib", "gpu_count"} & one.request.keys()
        for one in remedies.found
    ):
        for base, again in tuple(remedies.failed):
            remedies.consider(
                combined_with(base, again.workload, held_limits(again), again.count, counts)
            )
    found = [
        suggestion for suggestion in remedies.found if not dominated(suggestion, remedies.found)
    ]
    found += _with_experts_on_host(asked, estimator)
    found.sort(
        key=lambda suggestion: (
            suggestion.verdict != "fits",
            "cpu_offload_gib" in suggestion.request,
        )
    )
    return found[:MOST_SUGGESTIONS]


def _with_experts_on_host(asked: FitQuery, estimator: Estimator) -> list[Suggestion]:
    """Return a mixture served from a GGUF file, with experts in host memory where it takes that;
    nothing for other models and questions."""
    if (
        not asked.spec.has_experts
        or ENGINES[words.engine(asked.request.engine)].reads_gguf
        or asked.request.engine_version is not None
    ):
        return []
    tried: list[Candidate] = [(change, {**fields}) for change, fields in gguf_files()]
    while tried:
        change, fields = tried.pop(0)
        again = estimator.possible(estimator.change(asked, fields))
        if again is None or again.refused is not None:
            continue
        if again.verdict == "fits":
            return [
                Suggestion(
                    change=change,
                    verdict="fits",
                    required_bytes=again.required,
                    request=to_send(fields, asked, again),
                )
            ]
        if not tried and reads_host_memory(asked.accelerator):
            tried = [
                combine((change, fields), more)
                for more in in_host_memory(asked.spec, again.workload, *lacking(again))
            ]
    return []


def suggest(asked: FitQuery, estimator: Estimator) -> list[Suggestion]:
    """Format and engines that run on this card where what was asked for does not."""
    found = list(_running(alternatives(asked.request, asked.spec), asked, estimator))
    if not found:
        found = list(_running(smaller_elsewhere(engines_for(asked.accelerator)), asked, estimator))
    return found[:MOST_SUGGESTIONS]


def _running(
    changes: Iterable[tuple[str, dict[str, str]]], asked: FitQuery, estimator: Estimator
) -> Iterator[Suggestion]:
    """Yield those of `changes` that run on the card and are not sure to exceed it."""
    for change, fields in changes:
        again = estimator.possible(estimator.change(asked, fields))
        if again is not None and again.verdict != "does_not_fit" and again.refused is None:
            yield Suggestion(
                change=change,
                verdict=again.verdict,
                required_bytes=again.required,
                request=dict(fields),
            )


def reads_host_memory(accelerator: Accelerator) -> bool:
    """Return whether the GPU can read weights from host memory."""
    return maker(accelerator) in _HOST_MEMORY_READERS and not accelerator.unified_memory


def lacking(checked: FitEstimate) -> tuple[int, int]:
    """Return what the fullest GPU lacks, and what weights take of it [bytes]."""
    weights = sum(term.bytes for term in checked.estimate.fullest.terms if term.name == "weights")
    return checked.required - checked.estimate.budget.expected, weights


def _other_pool(checked: FitEstimate) -> Iterator[Candidate]:
    """Instead of a pool given outright, the least that holds the requests, in tenths of a GiB."""
    given = checked.estimate.given_pool_bytes
    if given is None:
        return
    size = ceil(10 * needed_pool_bytes(checked.workload, checked.estimate) / GIB) / 10
    if size and size != given / GIB:
        yield (
            f"set the KV cache to {size:g} GiB instead of {given / GIB:g}",
            {"kv_cache_memory_gib": size},
        )


def _lower_share(checked: FitEstimate) -> Iterator[Candidate]:
    """Yield the largest share of the card that leaves room for memory of vLLM and others outside
    it, in hundredths."""
    workload, estimate = checked.workload, checked.estimate
    row = ENGINES[workload.engine]
    if not row.budget_is_device_share or estimate.given_pool_bytes is not None:
        return
    usable = estimate.accelerator.usable
    share = floor(100 * (usable.low - checked.outside.high) / usable.low) / 100
    if 0 < share < workload.gpu_memory_utilization:
        yield f"lower gpu_memory_utilization to {share:g}", {"gpu_memory_utilization": share}


def to_send(
    fields: Fields, asked: FitQuery, again: FitEstimate
) -> dict[str, str | int | float | bool]:
    """Return the fields of a change: degrees that are set free are sent as they turned out where
    the question had set them."""
    freed = {
        name: getattr(again.workload, name)
        for name, value in fields.items()
        if value is None and getattr(asked.request, name) is not None
    }
    return {name: value for name, value in fields.items() if value is not None} | freed
