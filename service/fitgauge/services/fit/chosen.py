"""What `settings: "auto"` chose, in words: each setting with its reason and its cost, and what the
engine's defaults would have done."""

from collections.abc import Iterator

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.model.mixers import LatentAttention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import gib
from fitgauge.engine.serving.ladders import Degrees
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import newer_wheels
from fitgauge.engine.serving.workload import Workload
from fitgauge.services.common.fit_schemas import ChosenSetting, DefaultsAnswer
from fitgauge.services.common.responses import term_in_words
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.limits import is_queued
from fitgauge.services.fit.query import Choice, FitEstimate

_SHARE, _EAGER = "gpu_memory_utilization", "enforce_eager"

_GRAPHS_COST = "decoding is slower, most of all with few requests"
_HIGHER_SHARE_COST = "less of the GPU is left for other processes"
_LOWER_SHARE_COST = "the KV cache is smaller, so fewer requests run at once"


def chosen_settings(checked: FitEstimate) -> list[ChosenSetting]:
    """Return the settings that differ from the engine's defaults, layout first."""
    choice = checked.choice
    if choice is None:
        return []
    default = choice.default.workload
    return [
        ChosenSetting(
            setting=name,
            value=value,
            default=_rounded(getattr(default, name)),
            why=_why(name, checked, choice),
            costs=_costs(name, checked.workload, default),
        )
        for name, value in changes(choice)
    ]


def changes(choice: Choice) -> Iterator[tuple[str, int | float | bool]]:
    """Yield (setting, value) of what differs from the engine's defaults."""
    for name in (*Degrees._fields, *(one for one in choice.changed if one not in Degrees._fields)):
        value = choice.changed.get(name)
        if value is not None and value != getattr(choice.default.workload, name):
            yield name, value


def clause(checked: FitEstimate) -> str:
    """Return what was changed, as it follows the GPUs in a summary; empty where nothing was."""
    choice = checked.choice
    if choice is None or not (texts := list(_changes_in_words(checked, choice))):
        return ""
    *first, last = texts
    joined = f"{', '.join(first)} and {last}" if first else last
    return f"{' even' if checked.verdict == 'does_not_fit' else ''} with {joined}"


def conditions(checked: FitEstimate) -> str:
    """Return what a launch that fits depends on besides memory, in parentheses: ' (vllm before
    0.24)' where the wheels of the release that was judged are for newer GPUs, ' (one request at a
    time: ollama queues the others)'. Empty for nothing, and where it does not fit."""
    workload = checked.workload
    if checked.verdict == "does_not_fit":
        return ""
    texts = []
    wheels = newer_wheels(workload.engine, workload.engine_version, checked.query.accelerator)
    if wheels is not None:
        texts.append(f"{workload.engine} before {'.'.join(map(str, wheels[0]))}")
    if is_queued(checked) and workload.concurrency > 1:
        texts.append(f"one request at a time: {workload.engine} queues the others")
    return f" ({'; '.join(texts)})" if texts else ""


def _changes_in_words(checked: FitEstimate, choice: Choice) -> Iterator[str]:
    changed = dict(changes(choice))
    if changed.keys() & set(Degrees._fields):
        yield f"{_layout(checked.workload)} instead of {_layout(choice.default.workload)}"
    for name, value in changed.items():
        if name == _EAGER:
            yield "no CUDA graphs"
        elif name not in Degrees._fields:
            default = _rounded(getattr(choice.default.workload, name))
            yield f"{name} {value:,} instead of {default:,}"


def defaults_answer(checked: FitEstimate, estimator: Estimator) -> DefaultsAnswer | None:
    """Return how the engine's defaults turn out, where they were not chosen or nothing fits."""
    choice = checked.choice
    if choice is None:
        return None
    default = choice.default
    reason = _reason(default)
    if checked.verdict == "does_not_fit":
        reason = " ".join([reason, *_pinned(checked, estimator)])
    return DefaultsAnswer(verdict=default.verdict, reason=reason, required_bytes=default.required)


def _reason(default: FitEstimate) -> str:
    """Return why the engine's defaults do not surely run it."""
    fullest, workload = default.estimate.fullest, default.workload
    need, have = gib(default.required), gib(default.estimate.budget.expected)
    if default.short_bytes < 0 and not default.rest_fits(workload.gpu_memory_utilization):
        return (
            f"gpu_memory_utilization {_rounded(workload.gpu_memory_utilization):g} leaves too"
            f" little for the {gib(default.outside.expected)} that lie outside that share."
        )
    largest = fullest.terms[0]
    if largest.bytes <= default.estimate.budget.expected:
        largest = next((term for term in fullest.terms if term.name != "weights"), largest)
    words = term_in_words(largest)
    if largest.name == "kv_cache" and default.query.spec.keeps_states:
        words = f"{words} with {workload.max_num_seqs:,} state blocks"
    return f"{words[0].upper()}{words[1:]}: {gib(largest.bytes)}; in all {need} of {have}."


def _pinned(checked: FitEstimate, estimator: Estimator) -> Iterator[str]:
    """Yield the settings of the request that alone stop the launch."""
    query = checked.query
    ladders = ENGINES[checked.workload.engine].ladders
    names = [*(ladder.setting for ladder in ladders.batch)]
    names += [_SHARE] if ladders.share else []
    names += [_EAGER] if ladders.without_graphs else []
    names += Degrees._fields if ladders.layouts else ()
    for name in names:
        value = getattr(query.request, name)
        if value is None:
            continue
        freed = estimator.possible(estimator.change(query, {name: None}))
        if freed is not None and freed.verdict == "fits":
            yield f"`{name}` {value}, which was sent, alone stops it."


def _why(name: str, checked: FitEstimate, choice: Choice) -> str:
    """Return what the change is for: the term that it lowers most."""
    default, spec = choice.default, checked.query.spec
    if name in Degrees._fields:
        return _layout_reason(checked.workload, default, checked, spec)
    if name == _SHARE:
        if checked.workload.gpu_memory_utilization < default.workload.gpu_memory_utilization:
            return (
                f"{gib(default.outside.expected)} lie outside the engine's share of the GPU, and"
                " less than that is left"
            )
        return "the engine may use more of the GPU"
    before = choice.without.get(name, default)
    return _largest_fall(before, checked)


def _layout_reason(
    workload: Workload, default: FitEstimate, checked: FitEstimate, spec: ModelSpec
) -> str:
    latent = any(isinstance(mixer, LatentAttention) for b in spec.blocks for mixer in b.mixers)
    copies = latent and default.workload.tensor_parallel > workload.tensor_parallel
    fall = _largest_fall(default, checked)
    why = f"tensor parallel copies the MLA cache on every GPU: {fall}" if copies else fall
    if checked.count > USUAL_NODE:
        why += f"; {USUAL_NODE} GPUs a node are assumed"
    return why


def _largest_fall(before: FitEstimate, after: FitEstimate) -> str:
    """Return the term of the fullest GPU that falls most, in words."""
    now = {term.name: term.bytes for term in after.estimate.fullest.terms}
    term = max(before.estimate.fullest.terms, key=lambda term: term.bytes - now.get(term.name, 0))
    size = now.get(term.name, 0)
    if size >= term.bytes:
        return f"{gib(after.required)} in all instead of {gib(before.required)}"
    return f"{term_in_words(term)}: {gib(size) if size else 'none'} instead of {gib(term.bytes)}"


def _costs(name: str, workload: Workload, default: Workload) -> str:
    """Return what a caller gives up."""
    if name == _EAGER:
        return _GRAPHS_COST
    if name == _SHARE:
        lower = workload.gpu_memory_utilization < default.gpu_memory_utilization
        return _LOWER_SHARE_COST if lower else _HIGHER_SHARE_COST
    if name in Degrees._fields:
        if workload.data_parallel > default.data_parallel:
            return "a single request has the speed of one replica"
        return "a request passes the stages one after another"
    ladders = ENGINES[workload.engine].ladders.batch
    return next(ladder.costs for ladder in ladders if ladder.setting == name)


def _layout(workload: Workload) -> str:
    """Return a layout in words."""
    parts = []
    if workload.data_parallel > 1:
        kind = "attention replicas" if workload.expert_parallel > 1 else "replicas"
        parts.append(f"{workload.data_parallel} {kind}")
    if workload.tensor_parallel > 1 or not parts:
        parts.append(f"tensor parallel {workload.tensor_parallel}")
    if workload.pipeline_parallel > 1:
        parts.append(f"pipeline parallel {workload.pipeline_parallel}")
    if workload.expert_parallel > 1:
        parts.append(f"expert parallel {workload.expert_parallel}")
    if parts[0] == "tensor parallel 1" and len(parts) > 1:
        parts = parts[1:]
    return " x ".join(parts)


def _rounded(value: float) -> float:
    return round(value, 3) if isinstance(value, float) else value
