"""Changes to try where a model does not fit, smallest first. Every candidate is re-estimated before
it is returned."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.fit import ServingLimits
from fitgauge.engine.serving.options import ALL_LAYERS
from fitgauge.engine.serving.registry import ENGINES, preferred
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.services.common.schemas import FitRequest, Suggestion
from fitgauge.services.fit.quantized_repos import QuantizedRepo

Sent = str | int | float | bool
Fields = dict[str, Sent | None]
Candidate = tuple[str, Fields]

GGUF_FORMATS = ("q8_0", "q4_k_m")
"""Formats of GGUF files to suggest, larger first."""
_SHORTEST = 1024
_FEWEST_SEQUENCES = 16
_WIDE_CACHES = ("auto", "F16", "BF16", "F32")


def candidates(
    spec: ModelSpec,
    workload: Workload,
    request: FitRequest,
    format_sent: bool,
    limits: ServingLimits,
    count: int,
    counts: tuple[int, ...],
    short_bytes: int = 0,
    weights_bytes: int = 0,
    siblings: Sequence[QuantizedRepo] = (),
) -> Iterator[Candidate]:
    """Yield (description, fields to send), cheapest first.

    format_sent: whether the caller named the format of the weights, not the engine's default.
    short_bytes: memory missing on the fullest GPU.
    weights_bytes: weights of the fullest GPU.
    siblings: published repositories of the same weights in other formats, larger first.
    """
    alone = _text_alone(spec, workload)
    if alone is not None:
        yield alone
    settings = list(_settings(spec, workload, request))
    yield from settings
    if len(settings) > 1:
        yield combine(*settings)
    yield from _fewer(workload, limits)
    published = {sibling.form for sibling in siblings}
    for weights in (
        *_published(siblings),
        *_supposed(spec, workload, request, format_sent, published),
    ):
        yield weights
        if settings:
            yield combine(weights, *settings)
    yield from _slower(spec, workload, request, short_bytes, weights_bytes)
    yield from _more_gpus(count, counts)


def combined_with(
    base: Candidate, workload: Workload, limits: ServingLimits, count: int, counts: tuple[int, ...]
) -> Iterator[Candidate]:
    """Yield `base`, which does not suffice alone, combined with one more change: a smaller
    workload (`limits`) or more GPUs."""
    for change in (*_fewer(workload, limits), *_more_gpus(count, counts)):
        if not change[1].keys() & base[1].keys():
            yield combine(change, base)


def alternatives(request: FitRequest, spec: ModelSpec) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (description, fields to send): other formats of the weights, then other engines."""
    if request.quantization is not None or spec.quantization is not None:
        for words, scheme in (
            ("use an AWQ checkpoint", "awq"),
            ("use a GPTQ checkpoint", "gptq"),
            ("use 16-bit weights", "fp16"),
        ):
            yield words, {"quantization": scheme}
    if request.engine_version is not None:
        return
    rows = [ENGINES[name] for name in preferred()]
    for row in rows:
        if not row.reads_gguf:
            yield f"serve it with {row.name}", {"engine": row.name}
    yield from gguf_files(spec)


def gguf_files(spec: ModelSpec) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (description, fields to send): an engine that reads GGUF files, with each format of
    them, larger first; with the published format alone where files keep it (gpt-oss's MXFP4)."""
    published = (spec.quantization or {}).get("quant_method")
    for row in (ENGINES[name] for name in preferred()):
        if not row.reads_gguf:
            continue
        if published in row.formats:
            yield f"serve it with {row.name}", {"engine": row.name}
            continue
        for scheme in GGUF_FORMATS:
            yield (
                f"serve a {scheme.upper()} file with {row.name}",
                {"engine": row.name, "quantization": scheme},
            )


def smaller_elsewhere(engines: Sequence[EngineName]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (description, fields to send): an engine that runs on the GPU, with weights in fewer
    bits."""
    for engine in engines:
        for scheme in GGUF_FORMATS if ENGINES[engine].reads_gguf else ("fp8", "awq", "gptq"):
            yield f"serve it with {engine} in {scheme}", {"engine": engine, "quantization": scheme}


def redundant(fields: Fields, suggestion: Suggestion) -> bool:
    """Return whether a change goes further than one that fits: more changes, a larger amount, or an
    assumed format where a published repository fits. Fewer GPUs in another format are less."""
    if suggestion.verdict != "fits":
        return False
    sent = {name: value for name, value in fields.items() if value is not None}
    if "quantization" in sent and "model" in suggestion.request:
        return True
    if not suggestion.request.keys() <= sent.keys():
        return False
    if _FORMATS & sent.keys() and _takes_fewer(sent, suggestion.request):
        return False
    differing = [name for name, value in suggestion.request.items() if sent[name] != value]
    return not differing or (len(differing) == 1 and differing[0] in _AMOUNTS)


def _takes_fewer(fields: Mapping[str, Sent], than: Mapping[str, Sent]) -> bool:
    """Return whether a change takes fewer GPUs than another, where both take more."""
    count, other = fields.get("gpu_count"), than.get("gpu_count")
    return isinstance(count, int) and isinstance(other, int) and count < other


def dominated(suggestion: Suggestion, others: list[Suggestion]) -> bool:
    """Return whether a tight suggestion is a part of one that fits, or changes the same fields as
    one that fits or comes before it."""
    if suggestion.verdict == "fits":
        return False
    if any(
        one.verdict == "fits" and suggestion.request.items() < one.request.items() for one in others
    ):
        return True
    alike = [one for one in others if one.request.keys() == suggestion.request.keys()]
    return alike[0] is not suggestion or any(one.verdict == "fits" for one in alike)


_FORMATS = {"model", "quantization"}
_AMOUNTS = {"gpu_count", "cpu_offload_gib", "concurrency", "context_length", "model"}


def _published(siblings: Sequence[QuantizedRepo]) -> Iterator[Candidate]:
    for sibling in siblings:
        yield (f"use {sibling.text} (the same weights in {sibling.form})", {"model": sibling.text})


def _supposed(
    spec: ModelSpec,
    workload: Workload,
    request: FitRequest,
    format_sent: bool,
    published: Collection[str],
) -> Iterator[Candidate]:
    """Yield formats of which no repository is `published`, from the one that is served down;
    none where the publisher's own quantization is served."""
    row = ENGINES[workload.engine]
    if format_sent or (spec.quantization is not None and request.quantization is None):
        return
    formats = (*row.smaller_weights, *row.smallest_weights)
    schemes = [scheme for _, scheme in formats]
    below = schemes.index(request.quantization) + 1 if request.quantization in schemes else 0
    for words, scheme in formats[below:]:
        if scheme not in published:
            yield words, {"quantization": scheme}


def is_searched(name: str, request: FitRequest) -> bool:
    """Return whether `settings: "auto"` chooses this setting, so that a change of it alone helps
    nothing."""
    return request.settings != "defaults" and getattr(request, name) is None


def _slower(
    spec: ModelSpec, workload: Workload, request: FitRequest, short_bytes: int, weights_bytes: int
) -> Iterator[Candidate]:
    """Yield what costs speed: no CUDA graphs, weights in host memory."""
    if (
        "enforce_eager" in ENGINES[workload.engine].tunable
        and not workload.enforce_eager
        and not is_searched("enforce_eager", request)
    ):
        yield "disable CUDA graphs (enforce_eager), which is slower", {"enforce_eager": True}
    yield from in_host_memory(spec, workload, short_bytes, weights_bytes)


_MARGINS = ((1.1, 0.5), (1.5, 0.5), (1.5, 1.0), (1.5, 2.0))
"""Of what is lacking, by how much to multiply it and how many GiB to add: where little is lacking,
whole layers and doubt about the rest are more than a share of it."""


def in_host_memory(
    spec: ModelSpec, workload: Workload, short_bytes: int, weights_bytes: int
) -> Iterator[Candidate]:
    """As many weights as the fullest GPU lacks room for, and somewhat more; no more than it
    holds, of a mixture in a GGUF file at most all experts. Where nothing is lacking and it is yet
    not sure to fit, some of a GGUF file."""
    row = ENGINES[workload.engine]
    if not row.reads_gguf and (not row.supports_cpu_offload or short_bytes <= 0):
        return
    short_bytes = max(1, short_bytes)
    if workload.offloads:
        yield from _other_layers(spec, workload, short_bytes, weights_bytes)
        return
    by_experts = row.reads_gguf and spec.has_experts
    what = "experts" if by_experts else "weights"
    sizes = [
        round(short_bytes * margin / GIB + more, 1)
        for margin, more in _MARGINS
        if short_bytes * margin < weights_bytes
    ]
    if by_experts and len(sizes) < len(_MARGINS) and short_bytes < weights_bytes:
        sizes.append(round(weights_bytes / GIB, 1))
    for size in sizes:
        yield (f"offload {size} GiB of {what} per GPU to host memory", {"cpu_offload_gib": size})


def _other_layers(
    spec: ModelSpec, workload: Workload, short_bytes: int, weights_bytes: int
) -> Iterator[Candidate]:
    """Yield other numbers of layers where a number is stated: as many fewer on the GPUs as hold
    what is lacking, the experts of all in host memory."""
    if 0 < workload.n_cpu_moe < spec.layers:
        yield "keep the experts of all layers in host memory", {"n_cpu_moe": ALL_LAYERS}
    for margin, _ in _MARGINS[:2]:
        stays = 1 - short_bytes * margin / max(1, weights_bytes)
        layers = int((workload.n_gpu_layers or 0) * stays)
        if layers > 0:
            yield f"leave {layers} layers on the GPUs", {"n_gpu_layers": layers}


def _text_alone(spec: ModelSpec, workload: Workload) -> Candidate | None:
    """Return the language model alone, of a model that is not made for its other inputs; None where
    the engine loads all of it whatever is sent."""
    if (
        ENGINES[workload.engine].language_model is None
        or spec.reads_text_alone
        or any(word in spec.architecture.lower() for word in _MADE_FOR_OTHERS)
    ):
        return None
    return "serve text alone, without the image encoder", {"language_model_only": True}


_MADE_FOR_OTHERS = ("vl", "llava", "4v", "mllama", "audio", "voxtral", "omni", "ocr")
"""In the names of architectures whose models are loaded to read images or sound."""


def _settings(spec: ModelSpec, workload: Workload, request: FitRequest) -> Iterator[Candidate]:
    """Yield what costs a little speed and no quality."""
    row = ENGINES[workload.engine]
    fewer = max(_FEWEST_SEQUENCES, workload.requests_per_replica)
    if (
        "max_num_seqs" in row.tunable
        and fewer < workload.max_num_seqs
        and not is_searched("max_num_seqs", request)
    ):
        if spec.keeps_states:
            why = f": each of {workload.max_num_seqs} takes a state block"
        else:
            why = f" instead of {workload.max_num_seqs}"
        yield f"start with max_num_seqs {fewer}{why}", {"max_num_seqs": fewer}
    if "gpu_memory_utilization" in row.tunable and not is_searched(
        "gpu_memory_utilization", request
    ):
        yield from _share(workload)
    if "kv_cache_dtype" in row.tunable:
        yield from _smaller_cache(workload)


def _smaller_cache(workload: Workload) -> Iterator[Candidate]:
    """Yield a KV cache of 8 bits, where it is wider."""
    if workload.kv_cache_dtype in _WIDE_CACHES:
        name = "q8_0" if ENGINES[workload.engine].reads_gguf else "fp8"
        yield f"keep the KV cache in {name}", {"kv_cache_dtype": name}


def _share(workload: Workload) -> Iterator[Candidate]:
    highest = ENGINES[workload.engine].highest_utilization
    if workload.kv_cache_memory_bytes is None and workload.gpu_memory_utilization < highest:
        yield f"raise gpu_memory_utilization to {highest}", {"gpu_memory_utilization": highest}


def _fewer(workload: Workload, limits: ServingLimits) -> Iterator[Candidate]:
    """Yield smaller workloads: what fits, and less where other memory grows as well."""
    for share in (1.0, 0.9):
        requests = int((limits.max_concurrency or 0) * share)
        if 0 < requests < workload.concurrency:
            words = "1 request" if requests == 1 else f"{requests:,} requests"
            yield (
                f"lower concurrency to {words} instead of {workload.concurrency:,}",
                {"concurrency": requests},
            )
    for share in (1.0, 0.9):
        shorter = int(limits.max_context_length * share) // 256 * 256
        if _SHORTEST <= shorter < workload.context_length:
            yield (
                f"lower context_length to {shorter:,} tokens instead of"
                f" {workload.context_length:,}",
                {"context_length": shorter},
            )


def _more_gpus(count: int, counts: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield more GPUs: up to a node, or to four times the count."""
    free: Fields = dict.fromkeys(
        ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
    )
    for more in counts:
        if count < more <= max(USUAL_NODE, 4 * count):
            yield f"take {more} GPUs", {**free, "gpu_count": more}


def combine(*several: Candidate) -> Candidate:
    """Return several changes as one: the first in words, the others as what comes with it."""
    fields: Fields = {}
    for _, change in several:
        fields |= change
    own = several[0][0].partition(": ")[0].partition(" instead of ")[0]
    shown = [
        text
        for _, change in several[1:]
        for name, value in change.items()
        if value is not None and (text := _in_short(name, value)) not in own
    ]
    if not shown:
        return own, fields
    return f"{own}, with {', '.join(shown[:-1])}{' and ' if shown[1:] else ''}{shown[-1]}", fields


def _in_short(name: str, value: str | float) -> str:
    """Return a changed field as what comes with another change."""
    return {
        "model": f"{value}",
        "engine": f"{value}",
        "quantization": f"{value} weights",
        "kv_cache_dtype": f"the KV cache in {value}",
        "cpu_offload_gib": f"{value} GiB of weights per GPU in host memory",
        "n_gpu_layers": f"{value} layers on the GPUs",
        "n_cpu_moe": "all experts in host memory",
        "concurrency": f"{value} requests at once",
        "context_length": f"{value} tokens",
        "gpu_count": f"{value} GPUs",
        "enforce_eager": "CUDA graphs disabled",
    }.get(name, f"{name} {value}")
