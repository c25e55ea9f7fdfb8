"""How to start what was estimated: the command with the settings of the answer, flags only where
they differ from the engine's defaults."""

from collections.abc import Iterator
from typing import NamedTuple

from fitgauge.catalog.checkpoints import checkpoint_name
from fitgauge.catalog.name_parts import is_tag
from fitgauge.engine.accelerator import USUAL_NODE, Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.launch import HEAD, machines
from fitgauge.engine.serving.launch import Launch as EngineLaunch
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.weights.sharding import ShardedWeights
from fitgauge.hub.gguf_files import GgufFiles
from fitgauge.services.common.schemas import FitRequest, Launch
from fitgauge.services.common.shell import placeholders
from fitgauge.services.fit.checkpoints import holds_requested, loads_while_quantizing

_FORMAT_WORDS = {"int4": "4-bit", "int8": "8-bit"}
_VOWELS = frozenset("AEFILMNORSX8")
"""First letters and digits of formats that are spoken with a vowel first: an FP8, an 8-bit."""


class Source(NamedTuple):
    """What a command loads."""

    repository: str
    """A repository, a tag of Ollama's library, or a placeholder in angle brackets."""

    quantization: str | None = None
    """The engine's word for a format it quantizes to while it loads."""

    dtype: str | None = None
    """The engine's word for a dtype it converts the weights to while it loads."""

    @property
    def placeholder(self) -> str | None:
        """The repository where it is only a placeholder."""
        return self.repository if self.repository.startswith("<") else None


def launch(
    model: Model,
    request: FitRequest,
    workload: Workload,
    *,
    pool_tokens: int | None = None,
    weights: ShardedWeights | None = None,
    nodes: int = 1,
) -> Launch:
    """Return the command of a workload.

    model: what is loaded; where it is no checkpoint of the request's format, and the engine does
    not quantize to it while it loads, the command holds a placeholder. pool_tokens: of a pool
    given outright, which some engines take in tokens; weights: those, for an engine that takes
    layers in host memory by their number; nodes: the machines it runs on."""
    row = ENGINES[workload.engine]
    source = source_of(model, request.quantization, workload.engine)
    command = row.command(
        EngineLaunch(
            model=model,
            repository=source.repository,
            settings=request,
            workload=workload,
            revision=model.revision if _pins(request, model) else None,
            quantization=source.quantization,
            dtype=source.dtype,
            kv_cache_dtype=(row.cache_dtypes or {}).get(workload.kv_cache_dtype),
            pool_tokens=pool_tokens,
            weights=weights,
            nodes=nodes,
        )
    )
    words = filter(None, (source.placeholder, HEAD))
    return Launch(command=command, placeholder=placeholders(command, words), nodes=nodes)


def nodes_of(workload: Workload, accelerator: Accelerator) -> int:
    """Return the machines that the ranks go to; one of an engine whose command starts one."""
    if ENGINES[workload.engine].over_nodes is None:
        return 1
    return machines(workload, accelerator.node_size or USUAL_NODE)


def source_of(model: Model, quantization: str | None, engine: EngineName) -> Source:
    """Return what the engine's command loads for a model in a format (None: as published)."""
    row = ENGINES[engine]
    if row.reads_gguf:
        return _gguf(model, quantization, row)
    sized = model.source == "size"
    repository = f"<a {model.id} model>" if sized else model.id
    if quantization is None:
        return Source(repository)
    online = loads_while_quantizing(model, quantization, engine)
    if online is not None:
        return Source(repository, quantization=online)
    name = canonical_name(quantization)
    dtype = UNQUANTIZED.get(name)
    if dtype is not None and not model.is_quantized:
        if dtype == model.spec.dtype or sized:
            return Source(repository)
        if dtype in row.dtypes:
            return Source(repository, dtype=row.dtypes[dtype])
    if holds_requested(model, quantization):
        return Source(repository)
    published_name = _published_name(model, row, name)
    if published_name is not None:
        return Source(published_name)
    return Source(_placeholder(model, _FORMAT_WORDS.get(name, name.upper()), row))


def _gguf(model: Model, quantization: str | None, row: Engine) -> Source:
    """Return a GGUF file: of the repository itself, of one that is known, or a placeholder."""
    file = model.stored.file_name if model.stored is not None else None
    if file is not None:
        other = None
        if quantization is not None and not holds_requested(model, quantization):
            other = canonical_name(quantization).upper()
        if model.source == "config":  # a file of this machine, which Ollama has to import first
            imported = "imported" if row.hub_prefix else None
            form = other or imported
            return Source(_placeholder(model, form, row) if form else model.id)
        label = other or GgufFiles(file.removesuffix(".gguf"), ()).label
        return Source(f"{row.hub_prefix}{model.id}:{label}")
    if quantization is not None:
        name = canonical_name(quantization)
        form = UNQUANTIZED.get(name, name.upper())
    else:
        scheme = published(model.spec)
        form = scheme.name.upper() if scheme else model.spec.dtype
    repository = _tag(model, form, row) or _published_name(model, row, form)
    return Source(repository if repository is not None else _placeholder(model, form, row))


def _tag(model: Model, form: str, row: Engine) -> str | None:
    """Return the tag of Ollama's library that the caller named the model by, for its command."""
    name = model.guessed_from
    if name is None or model.named_format is None or not row.runs_tags:
        return None
    is_same = canonical_name(model.named_format) == canonical_name(form)
    return name if is_same and is_tag(name) else None


def _published_name(model: Model, row: Engine, form: str) -> str | None:
    """Return a published checkpoint made for this engine, as its command writes it."""
    for kind in row.checkpoint_kinds:
        name = checkpoint_name(model.id, kind, form)
        if name is not None:
            on_hub = "/" in name
            label = f":{form}" if row.reads_gguf and on_hub and form != "MXFP4" else ""
            return f"{row.hub_prefix if on_hub else ''}{name}{label}"
    return None


def _placeholder(model: Model, form: str, row: Engine) -> str:
    article = "an" if form[0] in _VOWELS else "a"
    named = f"a {model.id} model" if model.source == "size" else model.id
    return f"<{article} {form} {row.checkpoint_word} of {named}>"


def _pins(request: FitRequest, model: Model) -> bool:
    """Return whether the request names a revision of this repository."""
    named, _, revision = request.model.partition("@")
    return bool(revision and model.revision and model.source == "hub" and named.endswith(model.id))


def unsupported_flags(request: FitRequest, workload: Workload) -> Iterator[Note]:
    """Yield what the request sets and the command does not, with what to do instead."""
    row = ENGINES[workload.engine]
    for name, instead in row.unsupported_flags:
        value = getattr(request, name)
        if value and value != "auto" and not (name == "data_parallel" and value == 1):
            message = f"{row.name}'s command has no flag for {name}: {instead}."
            yield Note("command-lacks-flag", name, message)
    dtypes = row.cache_dtypes
    if dtypes is not None and workload.kv_cache_dtype not in ("auto", *dtypes):
        message = (
            f"{row.name}'s command has no flag for a cache in {request.kv_cache_dtype}: it takes"
            f" {', '.join(dict.fromkeys(dtypes.values()))}."
        )
        yield Note("command-lacks-flag", "kv_cache_dtype", message)
