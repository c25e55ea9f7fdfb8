"""Warnings of a serving answer: what was assumed, what the engine will do besides, and what of
the question changed nothing."""

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
from fitgauge.services.fit.estimate import FitEstimate
from fitgauge.services.fit.launch import loads_asked_format, unsupported_flags

_LLM_INT8 = (
    "int8 is LLM.int8() of bitsandbytes: outlier columns stay in 16 bit, and it is slower than"
    " fp16: 15 to 23 % for BLOOM-176B, more for smaller models."
)
"""Source: Hugging Face's blog, hf-bitsandbytes-integration, and arXiv 2208.07339."""


def notes(checked: FitEstimate) -> Iterator[str]:
    """Yield what a reader must know beside what model, spec and scheme say of themselves."""
    yield from _of_the_question(checked)
    yield from _of_the_engine(checked)
    yield from _of_the_weights(checked)
    yield from _outgrown(checked)
    yield from _spilled(checked)
    yield from _beside_others(checked)


def _of_the_question(checked: FitEstimate) -> Iterator[str]:
    """Yield what was taken where the question says too much or too little."""
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
            f"gpu names {card.count} cards and gpu_count {request.gpu_count}: {request.gpu_count}"
            " were taken."
        )
    if card.quota is not None and count > card.quota:
        yield (
            f"The catalog's quota of {card.accelerator.name} is {card.quota}: {count} are more than"
            " may be used."
        )
    if request.context_length is None:
        yield (
            f"No context_length was asked for: {workload.context_length} tokens were taken; the"
            f" model's maximum is {maximum}."
        )
    elif maximum and workload.context_length > maximum:
        yield (
            f"context_length {workload.context_length} is beyond the model's maximum of {maximum}."
        )
    if workload.gpus < count:
        yield (
            f"{count - workload.gpus} of {count} GPUs are idle: the degrees make {workload.gpus}"
            " ranks."
        )


def _of_the_engine(checked: FitEstimate) -> Iterator[str]:
    """Yield what the engine does with the question on this card, and what of it changes nothing."""
    request, workload, card = checked.asked.request, checked.workload, checked.asked.accelerator
    engine, newest = workload.engine, checked.asked.profile.newest
    row = ENGINES[engine]
    if "max_num_seqs" in row.tunable and workload.requests_per_replica > workload.max_num_seqs:
        yield (
            f"{engine} runs at most max_num_seqs = {workload.max_num_seqs} requests at once; more wait."
        )
    if request.engine_version and workload.version > version(newest):
        yield (
            f"engine_version {request.engine_version} is newer than what is known of {engine}:"
            f" {newest} was taken."
        )
    if "lora_rank" not in row.ignored_fields and request.lora_rank and not request.lora_slots:
        yield "lora_rank changed nothing: no lora_slots were asked for."
    unused = [name for name in row.ignored_fields if getattr(request, name)]
    if unused:
        yield (
            f"{', '.join(unused)} changed nothing: the estimate for {engine} does not depend on"
            f" {'it' if len(unused) == 1 else 'them'}."
        )
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
    """Yield where the repository does not hold what the engine is to load."""
    model, request, engine = checked.asked.model, checked.asked.request, checked.workload.engine
    if model.source == "size":
        return
    if ENGINES[engine].reads_gguf and not (model.stored and model.stored.file_name):
        put = "pull one of" if engine == "ollama" else "put a repository in the command that holds"
        yield f"{engine} loads GGUF files: {put} {model.id}."
    elif not loads_asked_format(request, engine):
        yield (
            f"{model.id} is not stored in {request.quantization}: put a checkpoint that is in the"
            " command."
        )


def _outgrown(checked: FitEstimate) -> Iterator[str]:
    """Yield where what lies outside vLLM's budget makes the verdict, not what requests need of
    it."""
    workload, estimate = checked.workload, checked.estimate
    row = ENGINES[workload.engine]
    if not row.budget_is_device_share or workload.cache_pool_bytes is not None:
        return
    if checked.verdict == verdict(fit_probability(estimate.fullest.required, estimate.budget)):
        return
    left = estimate.accelerator.usable.expected - estimate.budget.expected
    yield (
        f"gpu_memory_utilization {workload.gpu_memory_utilization:g} leaves {gib(left)} of the"
        f" card, and {'vLLM and others hold' if workload.taken_bytes else 'vLLM holds'} some"
        f" {gib(checked.outside.expected)} outside its share (CUDA's context, CUDA graphs): a lower"
        " share makes room."
    )


_WHOLE_CARD = 0.9
"""Of the memory of a card that is alone, what device_map="auto" fills with weights. Source:
transformers 5.23, integrations/accelerate.py, get_balanced_memory."""


def _spilled(checked: FitEstimate) -> Iterator[str]:
    """Yield where transformers puts weights on the host though the card would hold them."""
    workload, estimate = checked.workload, checked.estimate
    if workload.engine != "transformers" or workload.gpus > 1 or checked.verdict == "does_not_fit":
        return
    weights = sum(term.bytes for term in estimate.fullest.fixed if term.name == "weights")
    most = int(_WHOLE_CARD * estimate.accelerator.usable.expected)
    if weights > most:
        yield (
            f'device_map="auto" fills {_WHOLE_CARD:.0%} of a single card: {gib(weights - most)} of'
            " the weights would go to host memory. Set max_memory."
        )


def _beside_others(checked: FitEstimate) -> Iterator[str]:
    """On a card that may drive a screen: how much others may hold of it before the answer is
    another."""
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
