"""Warnings of a fit answer: contradictions, side effects of the engine, and ignored fields."""

from collections.abc import Iterator

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import gib
from fitgauge.engine.quantization.requested import canonical_name
from fitgauge.engine.serving import architectures, platforms
from fitgauge.engine.serving.fit import cache_tokens, fit_probability, verdict
from fitgauge.engine.serving.kv_cache import cache_bytes
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import flash_attention_note, wheels_note
from fitgauge.services.common.display_memory import desktop_note, drives_screens
from fitgauge.services.common.gpu_count import count_conflict
from fitgauge.services.common.parsing import version
from fitgauge.services.common.positions import scaling_notes
from fitgauge.services.fit.launch import source_of, unsupported_flags
from fitgauge.services.fit.limits import is_queued
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.speed import half_of, load_of

_EMBEDS = "embed"
"""What the names of embedding models hold; vLLM goes by the repository's modules.json.

Source: vllm/config/model.py, _get_default_runner_type."""

_LINK_BITS = 400e9
"""A port of NDR InfiniBand or 400 GbE [bit/s]."""
_LLM_INT8 = Note(
    "int8-is-llm-int8",
    "quantization",
    "int8 means LLM.int8() of bitsandbytes: outlier columns stay in 16 bit, and it is slower than"
    " fp16, by 15 to 23 % for BLOOM-176B and more for smaller models.",
)
"""Source: Hugging Face's blog, hf-bitsandbytes-integration, and arXiv 2208.07339."""


def notes(checked: FitEstimate) -> Iterator[Note]:
    """Yield all warnings but those of the model, its spec and its quantization."""
    yield from _of_the_question(checked)
    yield from _of_the_engine(checked)
    yield from _of_its_fields(checked)
    yield from _of_the_weights(checked)
    yield from _outgrown(checked)
    yield from _spilled(checked)
    yield from _starts_nevertheless(checked)
    yield from _beside_others(checked)


def _of_the_question(checked: FitEstimate) -> Iterator[Note]:
    """Yield how contradictory or missing fields were resolved."""
    request = checked.query.request
    match = checked.query.match
    workload = checked.workload
    count = checked.count
    yield from match.warnings
    yield from count_conflict(request.gpu_count, match.count)
    if match.quota is not None and count > match.quota:
        yield Note(
            "gpu-quota",
            "gpu_count",
            f"{count} x {match.accelerator.name} exceed the catalog's quota of {match.quota}.",
        )
    if workload.gpus < count:
        yield Note(
            "gpus-idle",
            "gpu_count",
            f"{count - workload.gpus} of {count} GPUs are idle: the parallel degrees use"
            f" {workload.gpus}.",
        )
    yield from scaling_notes(checked.query.spec, workload)


def _of_the_engine(checked: FitEstimate) -> Iterator[Note]:
    """Yield limits of the engine, and that its release is unknown."""
    request, workload = checked.query.request, checked.workload
    engine, newest = workload.engine, checked.query.profile.newest
    row = ENGINES[engine]
    if "max_num_seqs" in row.tunable and workload.requests_per_replica > workload.max_num_seqs:
        yield Note(
            "requests-queued",
            "max_num_seqs",
            f"{engine} runs at most `max_num_seqs` = {workload.max_num_seqs} requests at once: more"
            " are queued.",
        )
    if is_queued(checked) and workload.concurrency > 1:
        yield Note(
            "one-request-at-a-time",
            "concurrency",
            f"{engine} answers one request of {checked.query.spec.model_type} at a time, whatever"
            " is set: the others wait.",
        )
    sent = version(request.engine_version) if request.engine_version else None
    if sent and (sent[:3] > version(newest) or sent != workload.engine_version):
        yield Note(
            "engine-version-unknown",
            "engine_version",
            f"`engine_version` {request.engine_version} of {engine} is unknown: using {newest},"
            " the newest known.",
        )


def _of_its_fields(checked: FitEstimate) -> Iterator[Note]:
    """Yield the fields that the engine ignores, what others of them take, and limits on this
    GPU."""
    request, spec = checked.query.request, checked.query.spec
    workload, accelerator = checked.workload, checked.query.accelerator
    engine, row = workload.engine, ENGINES[workload.engine]
    if (
        row.with_pooling
        and request.pooling is None
        and spec.task == "generate"
        and _EMBEDS in checked.query.model.id.lower()
    ):
        yield Note(
            "pooling-unset",
            "pooling",
            "The name says that it embeds texts: send `pooling` true for what it takes as an"
            " embedding model.",
        )
    if (
        row.language_model
        and request.language_model_only
        and checked.query.model.spec.reads_text_alone
    ):
        yield Note("field-ignored", "language_model_only", "The model reads text alone anyway.")
    if request.cpu_offload_gib and (workload.n_gpu_layers is not None or workload.n_cpu_moe):
        message = "`cpu_offload_gib` is ignored with `n_gpu_layers` or `n_cpu_moe`."
        yield Note("field-ignored", "cpu_offload_gib", message)
    if "lora_rank" not in row.ignored and request.lora_rank and not request.lora_slots:
        yield Note("field-ignored", "lora_rank", "`lora_rank` is ignored without `lora_slots`.")
    for name in row.ignored:
        if getattr(request, name) and name != "disaggregation":  # which is refused
            yield Note("engine-ignores-field", name, f"{engine} ignores `{name}`.")
    yield from unsupported_flags(request, workload)
    if row.kv_offload and row.kv_offload.in_shared_memory and workload.kv_offload_bytes:
        yield Note(
            "kv-offload-in-shared-memory",
            "kv_offload_gib",
            f"{engine} keeps offloaded KV cache in /dev/shm, which must hold"
            f" {gib(workload.kv_offload_bytes * workload.gpus)} of it: in Docker by `--shm-size`.",
        )
    if half_of(workload) is not None and spec.task == "generate":
        yield _transfer(checked)
    if request.quantization is not None and canonical_name(request.quantization) == "int8":
        yield _LLM_INT8
    of_the_gpu = (
        flash_attention_note(engine, accelerator),
        wheels_note(workload, accelerator),
        platforms.note(engine, accelerator),
        architectures.note(workload, spec),
    )
    yield from filter(None, of_the_gpu)


def _transfer(checked: FitEstimate) -> Note:
    """Return the KV cache of one prompt, as all ranks hold it together without copies."""
    workload, request = checked.workload, checked.query.request
    tokens = load_of(request, workload.context_length, workload.concurrency).prompt_tokens
    dtype = workload.kv_cache_dtype
    size = cache_bytes(
        checked.query.spec,
        tokens,
        1,
        dtype=dtype if dtype in BITS else checked.query.spec.dtype,
        tensor_parallel=1,
    )
    does = "is handed over" if workload.disaggregation == "prefill" else "arrives"
    return Note(
        "kv-transfer",
        "disaggregation",
        f"The KV cache of a prompt of {tokens:,} tokens {does} before its answer begins:"
        f" {gib(size)}, {size * 8 / _LINK_BITS:.2g} s over a link of 400 Gbit/s.",
    )


def _of_the_weights(checked: FitEstimate) -> Iterator[Note]:
    """Yield what is loaded where it is not the model itself."""
    query, engine = checked.query, checked.workload.engine
    row, quantization = ENGINES[engine], query.request.quantization
    if query.checkpoint.repo is not None:
        repository = query.checkpoint.repo.text
        message = f"Estimated and launched: {repository}, which holds {quantization}."
        yield Note("checkpoint-loaded", "quantization", message)
    elif query.model.source != "size":
        source = source_of(query.loaded, quantization, engine)
        if source.placeholder is not None:
            form = quantization or "its own format"
            yield Note(
                "checkpoint-needed",
                "quantization",
                f"No published {row.checkpoint_word} of {query.model.id} in {form} is known here:"
                " put one in the command.",
            )
    if row.reads_server_variables:
        yield Note(
            "server-settings",
            None,
            f"{engine}'s variables are read by its server: set them where `{engine} serve` runs.",
        )


def _outgrown(checked: FitEstimate) -> Iterator[Note]:
    """Yield a warning where memory outside vLLM's budget decides the verdict."""
    workload, estimate = checked.workload, checked.estimate
    row = ENGINES[workload.engine]
    if not row.budget_is_device_share or workload.kv_cache_memory_bytes is not None:
        return
    if checked.verdict == verdict(fit_probability(estimate.fullest.required, estimate.budget)):
        return
    left = estimate.accelerator.usable.expected - estimate.budget.expected
    need = f"{row.title}{' and others need' if workload.other_memory_bytes else ' needs'}"
    unified = "what the system holds, " if estimate.accelerator.unified_memory else ""
    yield Note(
        "memory-outside-share",
        "gpu_memory_utilization",
        f"`gpu_memory_utilization` {workload.gpu_memory_utilization:g} leaves {gib(left)} of the"
        f" GPU, and {need} some"
        f" {gib(checked.outside.expected)} outside that share ({unified}CUDA context, CUDA graphs):"
        " send a lower share.",
    )


def _starts_nevertheless(checked: FitEstimate) -> Iterator[Note]:
    """Yield a warning where the engine starts with less cache than the workload takes."""
    workload, row = checked.workload, ENGINES[checked.workload.engine]
    if not row.starts_below_context or checked.verdict not in ("tight", "does_not_fit"):
        return
    tokens = cache_tokens(checked.estimate)
    wanted = workload.requests_per_replica * workload.context_length
    if 0 < tokens < wanted:
        yield Note(
            "starts-with-less",
            "context_length",
            f"{row.title} starts nevertheless, with room for {tokens:,} tokens of the"
            f" {wanted:,} asked for: longer requests fail, others wait.",
        )


def _spilled(checked: FitEstimate) -> Iterator[Note]:
    """Yield a warning where the engine offloads weights that would fit on the GPU."""
    workload, estimate = checked.workload, checked.estimate
    single = ENGINES[workload.engine].single_gpu_share
    if single is None or workload.gpus > 1 or checked.verdict == "does_not_fit":
        return
    weights = sum(term.bytes for term in estimate.fullest.fixed if term.name == "weights")
    most = int(single.share * estimate.accelerator.usable.expected)
    if weights > most:
        yield Note(
            "weights-offloaded",
            None,
            f"{single.setting} fills {single.share:.0%} of a single GPU: {gib(weights - most)} of"
            f" the weights are offloaded to host memory. {single.remedy}.",
        )


def _beside_others(checked: FitEstimate) -> Iterator[Note]:
    """Yield, for a GPU that may drive a display, how much memory others may use before the verdict
    changes."""
    workload = checked.workload
    budget = checked.estimate.budget
    accelerator = checked.estimate.accelerator
    if (
        checked.query.request.other_memory_gib is not None
        or checked.verdict == "does_not_fit"
        or not drives_screens(accelerator)
    ):
        return
    spare = budget.expected - checked.required
    row = ENGINES[workload.engine]
    if row.budget_is_device_share and workload.kv_cache_memory_bytes is None:
        spare = accelerator.usable.expected - budget.expected - checked.outside.expected
    elif row.preallocates_kv_cache and workload.kv_cache_memory_bytes is None:
        spare = int(spare / workload.gpu_memory_utilization)
    note = desktop_note(spare)
    if note is not None:
        yield note
