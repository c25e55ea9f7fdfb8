"""check_fit: will this model fit on this GPU when it is served?"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor

from msgspec import UNSET, structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.lookup import Found
from fitgauge.engine.accelerator import USUAL_NODE, Accelerator, most_cards, shared
from fitgauge.engine.architecture import Model, ModelSpec
from fitgauge.engine.engines import ENGINES
from fitgauge.engine.estimate import Estimate
from fitgauge.engine.fit import ServingLimits, Verdict, fit_probability, serving_limits, verdict
from fitgauge.engine.platforms import engines_for, maker
from fitgauge.engine.profile import EngineProfile
from fitgauge.engine.quantity import GIB, most, total
from fitgauge.engine.support import refusal
from fitgauge.engine.vllm.serve import outside_terms, starts
from fitgauge.engine.workload import GGUF_ENGINES, GROWING, EngineName, Workload
from fitgauge.errors import InvalidQuestion
from fitgauge.questions import answers, words
from fitgauge.questions.answers import COUNTS, MOST_SUGGESTIONS
from fitgauge.questions.prepared import Prepared, Preparer
from fitgauge.questions.schemas import FitAnswer, FitRequest, Launch, Limits, Suggestion
from fitgauge.questions.serving.launch import launch_command
from fitgauge.questions.serving.notes import beside_others, notes, outgrown, spilled
from fitgauge.questions.serving.siblings import Sibling
from fitgauge.questions.serving.suggestions import (
    Candidate,
    Fields,
    alternatives,
    candidates,
    furthered,
    has_experts,
    in_host_memory,
    needless,
    outdone,
    smaller_elsewhere,
    together,
)
from fitgauge.questions.serving.understood import understood
from fitgauge.questions.serving.usual import USUAL, unnamed
from fitgauge.questions.serving.workloads import gpu_count, serving_workload, tensor_widths

_GGUF_FORMATS = ("q8_0", "q4_k_m")
_HOST_MEMORY_READERS = frozenset({"nvidia", "amd", "intel", "custom"})
"""Makers whose cards read weights that stay on the host. Source: vLLM 0.33 utils/torch_utils.py, get_accelerator_view_from_cpu_tensor."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One question, estimated."""

    prepared: Prepared
    workload: Workload
    estimate: Estimate
    probability: float
    verdict: Verdict
    count: int


class Serving:
    """Answers serving questions about models that are at hand. Pure arithmetic: no I/O, no await."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._preparer = Preparer()

    def answer(self, request: FitRequest, model: Model, found: Found, siblings: Sequence[Sibling] = ()) -> FitAnswer:
        """The FitAnswer. siblings: published repositories of the same weights, to suggest.

        Raises InvalidQuestion where the question is impossible, with what to send instead.
        """
        request = structs.replace(request, quantization=words.quantization(request.quantization))
        engine = words.engine(request.engine)
        profile = self._engines.profile(engine, words.version(request.engine_version) if request.engine_version else None)
        count = gpu_count(request, found.count)
        checked = self._check(request, model, found.accelerator, count, profile)
        workload, estimate, spec = checked.workload, checked.estimate, model.spec
        limits = _limits(checked, spec)
        if workload.engine in GROWING:
            limits = self._reached(limits, request, model, found.accelerator, count, profile)
        refused = refusal(workload, checked.prepared.scheme, found.accelerator, spec)
        if refused and (usual := self._usual(request, model, found.accelerator, count)):
            instead = self.answer(structs.replace(request, engine=usual), model, found, siblings)
            return structs.replace(instead, warnings=[unnamed(refused, usual), *instead.warnings])
        cards = answers.cards_in_words(found.accelerator, count)
        said = answers.summary(model, cards, workload, estimate, checked.verdict, checked.probability, limits)
        full = request.detail == "full"
        return FitAnswer(
            verdict="unsupported" if refused else checked.verdict,
            summary=f"{model.id} is unsupported on {cards}: {refused}" if refused else said,
            fit_probability=None if refused else round(checked.probability, 4),
            model=answers.model_answer(model),
            gpu=answers.gpu_answer(found.accelerator, count),
            per_gpu=answers.per_gpu(estimate, workload.taken_bytes),
            terms=answers.term_answers(estimate.fullest.terms, full),
            limits=self._limits(limits, None if refused else self._fewest(request, model, found.accelerator, profile, checked)),
            suggestions=(
                self._instead(request, model, found.accelerator, count)
                if refused
                else self._suggestions(request, model, found, profile, checked, limits, siblings)
            ),
            warnings=[
                *model.warnings,
                *spec.notes,
                *checked.prepared.scheme.warnings,
                *notes(request, model, found, workload, count, profile),
                *outgrown(spec, profile, workload, estimate, found.accelerator, checked.probability),
                *spilled(workload, estimate, checked.verdict),
                *beside_others(spec, profile, workload, estimate, request, checked.verdict),
            ],
            understood_as=understood(workload, found.accelerator, count, model, request),
            launch=Launch(
                command=launch_command(
                    model,
                    self._beyond_defaults(request, model, found.accelerator, checked, profile),
                    workload,
                    pool_tokens=limits.kv_cache_tokens if estimate.given_pool_bytes is not None else None,
                    laid=checked.prepared.laid,
                )
            ),
            ranks=answers.rank_answers(estimate) if full and workload.pipeline_parallel > 1 else UNSET,
        )

    def check(self, request: FitRequest, model: Model, found: Found) -> Checked:
        """The estimate behind `answer`. Raises InvalidQuestion where the question is impossible."""
        request = structs.replace(request, quantization=words.quantization(request.quantization))
        version = words.version(request.engine_version) if request.engine_version else None
        profile = self._engines.profile(words.engine(request.engine), version)
        return self._check(request, model, found.accelerator, gpu_count(request, found.count), profile)

    def _usual(self, request: FitRequest, model: Model, accelerator: Accelerator, count: int) -> EngineName | None:
        """The engine to take where none was named and the first usual one does not run these weights on the card; None for no other."""
        if request.engine is not None or request.engine_version is not None or model.spec.task == "encoder_decoder":
            return None
        for engine in USUAL[1:]:
            tried = self._possible(structs.replace(request, engine=engine), model, accelerator, count, self._engines.profile(engine, None))
            if tried is not None and refusal(tried.workload, tried.prepared.scheme, accelerator, model.spec) is None:
                return engine
        return None

    def _check(self, request: FitRequest, model: Model, accelerator: Accelerator, count: int, profile: EngineProfile) -> Checked:
        """The estimate at the degrees asked for; those left out are the widest that the engine accepts."""
        try:
            return self._estimated(request, model, accelerator, count, profile)
        except InvalidQuestion as refused:
            if request.tensor_parallel is not None or refused.field != "tensor_parallel":
                raise
            for width in reversed(tensor_widths(model.spec, min(count, USUAL_NODE))):
                narrower = structs.replace(request, tensor_parallel=width)
                try:
                    return self._estimated(narrower, model, accelerator, count, profile)
                except InvalidQuestion:
                    continue
            raise

    def _estimated(self, request: FitRequest, model: Model, accelerator: Accelerator, count: int, profile: EngineProfile) -> Checked:
        workload = serving_workload(request, model.spec, accelerator, count, profile)
        if request.other_memory_gib and not workload.taken_bytes:
            accelerator = shared(accelerator, int(request.other_memory_gib * GIB))
        prepared = self._preparer.prepare(model, request.quantization, workload.engine)
        estimate = ENGINES[workload.engine].estimate(model.spec, prepared.laid, workload, accelerator, profile)
        probability = (
            starts(estimate, model.spec, profile, workload, accelerator)
            if workload.engine == "vllm"
            else fit_probability(estimate.fullest.required, estimate.budget)
        )
        given = estimate.given_pool_bytes
        if given is not None and any(
            s.layout.pool_bytes(workload.requests_per_replica, workload.context_length) > given for s in estimate.stages
        ):
            probability = 0.0
        return Checked(prepared, workload, estimate, probability, verdict(probability), count)

    def _possible(self, request: FitRequest, model: Model, accelerator: Accelerator, count: int, profile: EngineProfile) -> Checked | None:
        """The question, estimated; None where the engine refuses it."""
        try:
            return self._check(request, model, accelerator, count, profile)
        except InvalidQuestion:
            return None

    def _limits(self, limits: ServingLimits, fewest: int | None) -> Limits:
        return Limits(
            kv_cache_tokens=limits.kv_cache_tokens,
            max_context_length=limits.max_context_length,
            max_concurrency=limits.max_concurrency,
            min_gpu_count=fewest,
        )

    def _reached(
        self, limits: ServingLimits, request: FitRequest, model: Model, accelerator: Accelerator, count: int, profile: EngineProfile
    ) -> ServingLimits:
        """The limits of an engine whose activations grow with what is held: found by estimating anew, at most what `limits` say."""

        def fits(name: str, value: int) -> bool:
            tried = self._possible(structs.replace(request, **{name: value}), model, accelerator, count, profile)
            return tried is not None and tried.estimate.fullest.required.expected <= tried.estimate.budget.expected

        longest = most(limits.max_context_length, lambda length: fits("context_length", length))
        if limits.max_concurrency is None:
            return structs.replace(limits, max_context_length=longest)
        requests = most(limits.max_concurrency, lambda number: fits("concurrency", number))
        tokens = limits.kv_cache_tokens * requests // max(1, limits.max_concurrency)
        return structs.replace(limits, max_context_length=longest, max_concurrency=requests, kv_cache_tokens=tokens)

    def _fewest(self, request: FitRequest, model: Model, accelerator: Accelerator, profile: EngineProfile, checked: Checked) -> int | None:
        """The least of 1, 2, 4, ... 64 cards, or those asked for, that hold it, however they are split."""
        free = structs.replace(request, tensor_parallel=None, pipeline_parallel=None, data_parallel=None, expert_parallel=None)
        for count in sorted({*_together(accelerator), checked.count}):
            if count == checked.count and checked.verdict == "fits":
                return count
            if checked.prepared.total_bytes > count * checked.estimate.budget.expected:
                continue
            tried = self._possible(free, model, accelerator, count, profile)
            if tried is not None and tried.verdict == "fits":
                return count
        return None

    def _suggestions(
        self,
        request: FitRequest,
        model: Model,
        card: Found,
        profile: EngineProfile,
        checked: Checked,
        limits: ServingLimits,
        siblings: Sequence[Sibling],
    ) -> list[Suggestion]:
        """The smallest changes that make it fit, each estimated anew; two at once where none does alone."""
        if checked.verdict == "fits":
            return []
        found: list[Suggestion] = []
        failed: list[tuple[Candidate, Checked]] = []
        known = {sibling.text: sibling.model for sibling in siblings}
        accelerator, one_more = card.accelerator, _together(card.accelerator, checked.count + 1) if checked.count < USUAL_NODE else ()
        counts = tuple(count for count in sorted({*_together(accelerator), *one_more}) if card.quota is None or count <= card.quota)

        def consider(candidate: Candidate) -> None:
            change, fields = candidate
            if "cpu_offload_gib" in fields and not _has_host_memory(accelerator):
                return
            if sum(one.verdict == "fits" for one in found) == MOST_SUGGESTIONS or any(needless(fields, one) for one in found):
                return
            changed = structs.replace(request, **fields)
            meant = known.get(changed.model, model)
            scheme = self._preparer.prepare(meant, changed.quantization, checked.workload.engine).scheme
            if refusal(checked.workload, scheme, accelerator, meant.spec) is not None:
                return
            again = self._possible(changed, meant, accelerator, changed.gpu_count or checked.count, profile)
            if again is None or again.verdict in ("does_not_fit", checked.verdict):
                failed.extend([(candidate, again)] if again else [])
                return
            needed, sent = again.estimate.fullest.required.expected, _to_send(fields, request, again.workload)
            if not any(one.verdict == again.verdict and one.request.items() <= sent.items() for one in found):
                found.append(Suggestion(change=change, verdict=again.verdict, required_bytes=needed, request=sent))

        for candidate in (*_other_pool(checked), *_lower_share(checked, model.spec, profile)):
            consider(candidate)
        for candidate in candidates(model.spec, checked.workload, request, limits, checked.count, counts, *_lacking(checked), siblings):
            consider(candidate)
        if all(one.verdict != "fits" or {"cpu_offload_gib", "gpu_count"} & one.request.keys() for one in found):
            for base, again in tuple(failed):
                for candidate in furthered(base, again.workload, _limits(again, model.spec), again.count, counts):
                    consider(candidate)
        found = [suggestion for suggestion in found if not outdone(suggestion, found)]
        found += self._with_experts_on_host(request, model, accelerator, checked.count)
        found.sort(key=lambda suggestion: (suggestion.verdict != "fits", "cpu_offload_gib" in suggestion.request))
        return found[:MOST_SUGGESTIONS]

    def _with_experts_on_host(self, request: FitRequest, model: Model, accelerator: Accelerator, count: int) -> list[Suggestion]:
        """A mixture served by llama.cpp, with experts in host memory where it takes that; nothing for other models and questions."""
        if not has_experts(model.spec) or words.engine(request.engine) in GGUF_ENGINES or request.engine_version is not None:
            return []
        profile = self._engines.profile("llama.cpp", None)
        tried: list[Candidate] = [
            (f"serve a {form.upper()} file with llama.cpp", {"engine": "llama.cpp", "quantization": form}) for form in _GGUF_FORMATS
        ]
        while tried:
            change, fields = tried.pop(0)
            again = self._possible(structs.replace(request, **fields), model, accelerator, count, profile)
            if again is None or refusal(again.workload, again.prepared.scheme, accelerator, model.spec) is not None:
                continue
            if again.verdict == "fits":
                needed = again.estimate.fullest.required.expected
                return [Suggestion(change=change, verdict="fits", required_bytes=needed, request=_to_send(fields, request, again.workload))]
            if not tried and _has_host_memory(accelerator):
                tried = [together((change, fields), more) for more in in_host_memory(model.spec, again.workload, *_lacking(again))]
        return []

    def _beyond_defaults(
        self, request: FitRequest, model: Model, accelerator: Accelerator, checked: Checked, profile: EngineProfile
    ) -> FitRequest:
        """The request without settings that only repeat what the engine takes by itself."""
        for name in ("gpu_memory_utilization", "max_num_seqs", "max_batched_tokens"):
            if getattr(request, name) is not None:
                without = structs.replace(request, **{name: None}, tensor_parallel=checked.workload.tensor_parallel)
                default = serving_workload(without, model.spec, accelerator, checked.count, profile)
                if getattr(default, name) == getattr(checked.workload, name):
                    request = structs.replace(request, **{name: None})
        return request

    def _instead(self, request: FitRequest, model: Model, accelerator: Accelerator, count: int) -> list[Suggestion]:
        """Formats and engines that run on this card where what was asked for does not."""
        found = list(self._running(alternatives(request, model.spec), request, model, accelerator, count))
        if not found:
            found = list(self._running(smaller_elsewhere(engines_for(accelerator)), request, model, accelerator, count))
        return found[:MOST_SUGGESTIONS]

    def _running(
        self, changes: Iterable[tuple[str, dict[str, str]]], request: FitRequest, model: Model, accelerator: Accelerator, count: int
    ) -> Iterator[Suggestion]:
        """Those of `changes` that run on the card and are not sure to exceed it."""
        for change, fields in changes:
            changed = structs.replace(request, **fields)
            version = words.version(changed.engine_version) if changed.engine_version else None
            again = self._possible(changed, model, accelerator, count, self._engines.profile(words.engine(changed.engine), version))
            if again is None or again.verdict == "does_not_fit":
                continue
            if refusal(again.workload, again.prepared.scheme, accelerator, model.spec) is None:
                needed = again.estimate.fullest.required.expected
                yield Suggestion(change=change, verdict=again.verdict, required_bytes=needed, request=dict(fields))


def _together(accelerator: Accelerator, *counts: int) -> tuple[int, ...]:
    """Of these counts of cards, or the usual ones, those that one deployment can take."""
    return tuple(count for count in counts or COUNTS if count <= most_cards(accelerator, count))


def _has_host_memory(accelerator: Accelerator) -> bool:
    """Whether there is memory beside the card's own that it can read weights from."""
    return maker(accelerator) in _HOST_MEMORY_READERS and not accelerator.unified_memory


def _lacking(checked: Checked) -> tuple[int, int]:
    """What the fullest GPU lacks, and what weights take of it [bytes]."""
    fullest = checked.estimate.fullest
    weights = sum(term.bytes for term in fullest.terms if term.name == "weights")
    return fullest.required.expected - checked.estimate.budget.expected, weights


def _other_pool(checked: Checked) -> Iterator[Candidate]:
    """Instead of a pool given outright, the least that holds the requests, in tenths of a GiB."""
    workload, estimate = checked.workload, checked.estimate
    if estimate.given_pool_bytes is None:
        return
    needed = max(stage.layout.pool_bytes(workload.requests_per_replica, workload.context_length) for stage in estimate.stages)
    size, given = ceil(10 * needed / GIB) / 10, estimate.given_pool_bytes / GIB
    if size and size != given:
        yield f"give the KV cache {size:g} GiB instead of {given:g}", {"kv_cache_memory_gib": size}


def _lower_share(checked: Checked, spec: ModelSpec, profile: EngineProfile) -> Iterator[Candidate]:
    """The largest share of the card that leaves room for what vLLM and others hold beside it, in hundredths."""
    workload, estimate = checked.workload, checked.estimate
    if workload.engine != "vllm" or estimate.given_pool_bytes is not None:
        return
    usable = estimate.accelerator.usable
    outside = total(outside_terms(spec, profile, workload, estimate.accelerator, layers=estimate.fullest.layers))
    share = floor(100 * (usable.low - outside.high) / usable.low) / 100
    if 0 < share < workload.gpu_memory_utilization:
        yield f"lower gpu_memory_utilization to {share:g}", {"gpu_memory_utilization": share}


def _limits(checked: Checked, spec: ModelSpec) -> ServingLimits:
    """What the cards would hold beside the weights. Nothing, where the engine does not start for what is held outside its share. A pool
    given outright that has no room beside the weights holds no request; its tokens are told as long as a card could hold it alone."""
    workload, estimate = checked.workload, checked.estimate
    limits = serving_limits(
        estimate,
        concurrency=workload.requests_per_replica,
        context_length=workload.context_length,
        data_parallel=workload.data_parallel,
        max_context_length=spec.max_context_length or workload.context_length,
    )
    given, within = estimate.given_pool_bytes, estimate.fullest.required.expected <= estimate.budget.expected
    starts_not = given is None and within and checked.verdict == "does_not_fit"
    if limits.max_concurrency is None or not (starts_not or (given is not None and not within)):
        return limits
    tokens = limits.kv_cache_tokens if given is not None and given <= estimate.accelerator.usable.high else 0
    return ServingLimits(kv_cache_tokens=tokens, max_context_length=0, max_concurrency=0)


def _to_send(fields: Fields, request: FitRequest, workload: Workload) -> dict[str, str | int | float | bool]:
    """The fields of a change: degrees that are set free are sent as they turned out where the question had set them."""
    freed = {name: getattr(workload, name) for name, value in fields.items() if value is None and getattr(request, name) is not None}
    return {name: value for name, value in fields.items() if value is not None} | freed
