"""Warnings of a fit answer: assumptions, side effects of the engine, and ignored fields."""

from collections.abc import Iterator

from fitgauge.engine.quantity import gib
from fitgauge.engine.quantization.requested import canonical_name
from fitgauge.engine.serving import architectures as implemented
from fitgauge.engine.serving import platforms
from fitgauge.engine.serving.fit import fit_probability, verdict
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import flash_attention_note, wheels_note
from fitgauge.services.common.display_memory import desktop_note, drives_screens
from fitgauge.services.common.parsing import version
from fitgauge.services.fit.launch import loads_asked_format, unsupported_flags
from fitgauge.services.fit.query import FitEstimate

_LLM_INT8 = (
    "int8 means LLM.int8() of bitsandbytes: outlier columns stay in 16 bit, and it is slower than"
    " fp16, by 15 to 23 % for BLOOM-176B and more for smaller models."
)
"""Source: Hugging Face's blog, hf-bitsandbytes-integration, and arXiv 2208.07339."""


def notes(checked: FitEstimate) -> Iterator[str]:
    """Yield all warnings but those of the model, its spec and its quantization."""
    yield from _of_the_question(checked)
    yield from _of_the_engine(checked)
    yield from _of_the_weights(checked)
    yield from _outgrown(checked)
    yield from _spilled(checked)
    yield from _beside_others(checked)


def _of_the_question(checked: FitEstimate) -> Iterator[str]:
    """Yield how contradictory or missing fields were resolved."""
    request, card, workload, count = (
        checked.asked.request,
        checked.asked.card,
        checked.workload,
        checked.count,
    )
    maximum = checked.asked.spec.max_context_length
    if card.note:
        yield card.note
    if request.gpu_count is not None and card.count not in (1, request.gpu_count):
        yield (
            f"`gpu` says {card.count}, `gpu_count` says {request.gpu_count}: using"
            f" {request.gpu_count}."
        )
    if card.quota is not None and count > card.quota:
        yield (f"{count} x {card.accelerator.name} exceed the catalog's quota of {card.quota}.")
    if request.context_length is None:
        yield (
            f"`context_length` not set: assuming {workload.context_length:,} tokens. The model's"
            f" maximum is {maximum:,}."
        )
    if workload.gpus < count:
        yield (
            f"{count - workload.gpus} of {count} GPUs are idle: the parallel degrees use"
            f" {workload.gpus}."
        )


def _of_the_engine(checked: FitEstimate) -> Iterator[str]:
    """Yield limits of the engine on this GPU, and the fields it ignores."""
    request, workload, card = checked.asked.request, checked.workload, checked.asked.accelerator
    engine, newest = workload.engine, checked.asked.profile.newest
    row = ENGINES[engine]
    if "max_num_seqs" in row.tunable and workload.requests_per_replica > workload.max_num_seqs:
        yield (
            f"{engine} runs at most `max_num_seqs` = {workload.max_num_seqs} requests at once: more"
            " are queued."
        )
    if request.engine_version and workload.version > version(newest):
        yield (
            f"`engine_version` {request.engine_version} of {engine} is unknown: using {newest},"
            " the newest known."
        )
    if "lora_rank" not in row.ignored_fields and request.lora_rank and not request.lora_slots:
        yield "`lora_rank` is ignored without `lora_slots`."
    unused = [name for name in row.ignored_fields if getattr(request, name)]
    if unused:
        yield (f"{engine} ignores {', '.join(f'`{name}`' for name in unused)}.")
    yield from unsupported_flags(request, workload)
    if request.quantization is not None and canonical_name(request.quantization) == "int8":
        yield _LLM_INT8
    lacking = implemented.note(workload, checked.asked.spec)
    said = (
        flash_attention_note(engine, card),
        wheels_note(workload, card),
        platforms.note(engine, card),
        lacking,
    )
    yield from filter(None, said)


def _of_the_weights(checked: FitEstimate) -> Iterator[str]:
    """Yield a warning where the repository lacks files the engine can load."""
    model, request, engine = checked.asked.model, checked.asked.request, checked.workload.engine
    if model.source == "size":
        return
    if ENGINES[engine].reads_gguf and not (model.stored and model.stored.file_name):
        put = "pull one of" if engine == "ollama" else "use a GGUF repository in the command, of"
        yield f"{engine} loads GGUF files: {put} {model.id}."
    elif not loads_asked_format(request, engine):
        yield (
            f"{model.id} is not stored in {request.quantization}: use a checkpoint in that format"
            " in the command."
        )


def _outgrown(checked: FitEstimate) -> Iterator[str]:
    """Yield a warning where memory outside vLLM's budget decides the verdict."""
    workload, estimate = checked.workload, checked.estimate
    row = ENGINES[workload.engine]
    if not row.budget_is_device_share or workload.cache_pool_bytes is not None:
        return
    if checked.verdict == verdict(fit_probability(estimate.fullest.required, estimate.budget)):
        return
    left = estimate.accelerator.usable.expected - estimate.budget.expected
    yield (
        f"`gpu_memory_utilization` {workload.gpu_memory_utilization:g} leaves {gib(left)} of the"
        f" GPU, and {'vLLM and others need' if workload.taken_bytes else 'vLLM needs'} some"
        f" {gib(checked.outside.expected)} outside that share (CUDA context, CUDA graphs): send a"
        " lower share."
    )


_WHOLE_CARD = 0.9
"""The share of a single GPU that device_map="auto" fills with weights. Source:
transformers 5.23, integrations/accelerate.py, get_balanced_memory."""


def _spilled(checked: FitEstimate) -> Iterator[str]:
    """Yield a warning where transformers offloads weights that would fit on the GPU."""
    workload, estimate = checked.workload, checked.estimate
    if workload.engine != "transformers" or workload.gpus > 1 or checked.verdict == "does_not_fit":
        return
    weights = sum(term.bytes for term in estimate.fullest.fixed if term.name == "weights")
    most = int(_WHOLE_CARD * estimate.accelerator.usable.expected)
    if weights > most:
        yield (
            f'device_map="auto" fills {_WHOLE_CARD:.0%} of a single GPU: {gib(weights - most)} of'
            " the weights are offloaded to host memory. Set max_memory."
        )


def _beside_others(checked: FitEstimate) -> Iterator[str]:
    """Yield, for a GPU that may drive a display, how much memory others may use before the verdict
    changes."""
    workload, budget, card = checked.workload, checked.estimate.budget, checked.estimate.accelerator
    if (
        checked.asked.request.other_memory_gib is not None
        or checked.verdict == "does_not_fit"
        or not drives_screens(card)
    ):
        return
    spare = budget.expected - checked.required
    row = ENGINES[workload.engine]
    if row.budget_is_device_share and workload.cache_pool_bytes is None:
        spare = card.usable.expected - budget.expected - checked.outside.expected
    elif row.preallocates_kv_cache and workload.cache_pool_bytes is None:
        spare = int(spare / workload.gpu_memory_utilization)
    note = desktop_note(spare)
    if note is not None:
        yield note
