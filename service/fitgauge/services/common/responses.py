"""Convert an Estimate to the response schemas."""

from collections.abc import Sequence

from msgspec import UNSET

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import Bytes, Term, gib
from fitgauge.engine.serving.estimate import Estimate, StageEstimate
from fitgauge.engine.serving.fit import ServingLimits, Verdict
from fitgauge.engine.serving.workload import Workload
from fitgauge.services.common.fit_schemas import LimitedBy, PerGpu
from fitgauge.services.common.host_memory import lacks_host
from fitgauge.services.common.host_schemas import HostMemory
from fitgauge.services.common.schemas import GpuAnswer, ModelAnswer, Suggestion, TermAnswer
from fitgauge.services.common.smallest import change_here, change_to_fit

COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""GPU counts tried when fewer do not suffice."""

MOST_SUGGESTIONS = 5
MOST_WITH_OTHERS = 6
"""Suggestions of an answer, and of one that names smaller models and other GPUs too."""


def model_answer(model: Model) -> ModelAnswer:
    """Return the resolved model."""
    return ModelAnswer(
        id=model.id,
        parameters=parameters(model),
        source=model.source,
        revision=model.revision,
        max_context_length=model.spec.max_context_length,
    )


def parameters(model: Model) -> int:
    """Return the number of parameters: as stored, unless packed formats hold several in one
    element; else as computed."""
    elements = model.stored.elements if model.stored else {}
    packed = elements.keys() & {"U8", "I32", "I8", "U32", "F4", "U4", "I4"}
    return sum(elements.values()) if elements and not packed else model.spec.parameters


def gpu_answer(gpu: Accelerator | GpuMatch, count: int) -> GpuAnswer:
    """Return the resolved accelerator, or those of several kinds."""
    return GpuAnswer(id=gpu.id, name=gpu.name, count=count)


def per_gpu(
    estimate: Estimate, limited_by: LimitedBy, shown: Bytes, other_memory_bytes: int = 0
) -> PerGpu:
    """Return the memory of the fullest GPU.

    shown: what the device will show [bytes].
    other_memory_bytes: memory of other processes [bytes], where the estimate counts the whole GPU.
    """
    fullest = estimate.fullest
    return PerGpu(
        usable_bytes=max(0, estimate.accelerator.usable.expected - other_memory_bytes),
        budget_bytes=estimate.budget.expected,
        required_bytes=fullest.required,
        headroom_bytes=estimate.budget.expected - fullest.required.expected,
        limited_by=limited_by,
        shown_bytes=shown,
        rank=fullest.stage,
    )


def term_answers(terms: tuple[Term, ...], full: bool) -> list[TermAnswer]:
    """Return the terms; `full`: with formula and source."""
    return [
        TermAnswer(
            name=term.name,
            bytes=term.bytes,
            low=term.low,
            high=term.high,
            basis=term.basis,
            formula=term.formula if full else UNSET,
            source=term.source if full else UNSET,
        )
        for term in terms
    ]


def summary(
    model: str,
    gpus: str,
    workload: Workload,
    estimate: Estimate,
    judged: Verdict,
    probability: float,
    limits: ServingLimits,
    *,
    limited_by: LimitedBy,
    outside: Bytes,
    host: HostMemory | None = None,
    machine_gib: float | None = None,
    settings: str = "",
    at_once: int | None = None,
    with_host: str = "",
    changes: Sequence[Suggestion] = (),
) -> str:
    """Return a summary of a few sentences, with the memory that decides.

    model: its name. outside: what is held outside the engine's share of the GPU [bytes].
    host: what is offloaded. machine_gib: what the machine has.
    settings: what was chosen, as it follows the GPUs.
    at_once: requests that the launch runs, where there is a limit.
    with_host: how it runs partly in the memory of the machine, where that is offered.
    changes: those that make it fit.
    """
    fullest, each = estimate.fullest, " per GPU" if workload.gpus > 1 else ""
    if estimate.gpus:
        each = f" on the fullest ({estimate.accelerator.name})"
    requests = load_in_words(workload.concurrency, workload.context_length)
    needs = (
        f"{requests} {'needs' if workload.concurrency == 1 else 'need'}"
        f" {gib(fullest.required.expected)}{each}"
    )
    share = estimate.budget.expected < estimate.accelerator.usable.expected
    who = f"{workload.engine} may use" if share else "a process can use"
    have = f"the {gib(estimate.budget.expected)} that {who}"
    left = ""
    if share and limited_by == "device":
        rest = estimate.accelerator.usable.expected - estimate.budget.expected
        left = f"{gib(outside.expected)} outside that share, of {gib(rest)} left there,"
    end = f" {host_in_words(host, machine_gib)}" if host else ""
    if judged == "fits":
        longest = f"the longest context that fits is {_count(limits.max_context_length, 'token')}."
        holds = f"{longest[0].upper()}{longest[1:]}"
        if limits.max_concurrency is not None:
            own = at_once or limits.max_concurrency
            more = f", {limits.max_concurrency:,} with other settings"
            holds = f"It holds {_count(own, 'such request')} at once"
            holds += f"{more if limits.max_concurrency > own else ''}; {longest}"
        return f"{model} fits on {gpus}{settings}: {needs} of {have}. {holds}{end}"
    deciding = " and ".join(term_in_words(term) for term in deciding_terms(fullest))
    if judged == "tight":
        change = change_here(changes)
        return (
            f"{model} on {gpus}{settings} is tight ({probability:.0%} likely): {needs} of {have};"
            f" {left or deciding} decide.{f' To be sure, {change}.' if change else ''}{end}"
        )
    why, change = _obstacle(estimate, left), change_to_fit(changes, workload.gpus)
    if host is not None and lacks_host(host, machine_gib):
        why = "The machine's memory decides."
    head = f"{model} does not fit on {gpus}{settings}: "
    if with_host:
        head = f"{model} does not fit in the GPU's memory alone; {with_host}. On {gpus}{settings}: "
    elif change:
        after = f"{',' if settings.startswith(' even') else ''}{settings}: " if settings else ", "
        head = f"{model} does not fit on {gpus}; to fit, {change}. As asked{after}"
    return f"{head}{needs}, {who} {gib(estimate.budget.expected)}. {why}{end}"


def host_in_words(host: HostMemory, machine_gib: float | None = None) -> str:
    """Return how much host memory the offloaded part needs, per GPU and in all. machine_gib: what
    the machine has, which is said where it is too little."""
    tokens = host.kv_cache_tokens
    holds = f", for {tokens:,} tokens of offloaded KV cache" if isinstance(tokens, int) else ""
    if lacks_host(host, machine_gib):
        holds += f": the machine has {machine_gib:g} GiB"
    if host.total_bytes == host.per_gpu_bytes:
        return f"It needs {gib(host.total_bytes)} of host memory in addition{holds}."
    return (
        f"It needs {gib(host.per_gpu_bytes)} of host memory per GPU in addition,"
        f" {gib(host.total_bytes)} in all{holds}."
    )


def _obstacle(estimate: Estimate, left: str) -> str:
    """Return why it does not fit: one term that is too large by itself, else how much is missing
    and the largest terms. left: what is held outside the engine's share, where that decides."""
    first, second = estimate.fullest.terms[:2]
    if estimate.fullest.required.expected <= estimate.budget.expected:
        if left:
            return f"It does not start: {left} are too much."
        if estimate.given_pool_bytes is None:
            return "The interval of the estimate reaches too far beyond that."
        return f"The requested KV cache of {gib(estimate.pool_bytes)} is too small for them."
    if first.bytes > estimate.budget.expected:
        words = term_in_words(first)
        return (
            f"{words[0].upper()}{words[1:]} alone {'take' if first.name.endswith('s') else 'takes'}"
            f" {gib(first.bytes)}."
        )
    missing = gib(estimate.fullest.required.expected - estimate.budget.expected)
    return (
        f"{missing} is missing; {term_in_words(first)} ({gib(first.bytes)}) and"
        f" {term_in_words(second)} ({gib(second.bytes)}) take most."
    )


def deciding_terms(stage: StageEstimate) -> list[Term]:
    """Return the two terms with the widest intervals, which decide the uncertainty."""
    return sorted(stage.terms, key=lambda term: term.low - term.high)[:2]


def gpu_count_in_words(accelerator: Accelerator, count: int) -> str:
    """'2 x RTX 4090'."""
    return f"{count} x {accelerator.name}" if count > 1 else f"one {accelerator.name}"


def term_in_words(term: Term) -> str:
    """Return the term as it stands in a sentence."""
    return {"kv_cache": "the KV cache", "cuda_graphs": "CUDA graphs"}.get(
        term.name, term.name.replace("_", " ")
    )


def load_in_words(concurrency: int, context_length: int) -> str:
    """'8 requests of 32,768 tokens'."""
    return f"{_count(concurrency, 'request')} of {_count(context_length, 'token')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"
