"""What an engine loads of a model in the requested format: a published checkpoint where one is
known, the model itself where the engine quantizes while it loads, else a checkpoint that is only
supposed to exist."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fitgauge.catalog.format_names import take_formats
from fitgauge.catalog.variants import file_type
from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.requested import (
    UNQUANTIZED,
    canonical_name,
    is_gguf_format,
    requested_form,
    requested_scheme,
)
from fitgauge.engine.quantization.same_format import holds_format
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import family
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.fit.quantized_repos import QuantizedRepo, bundled_repos

_CONVERTED = frozenset({"fp8", "compressed-tensors"})
"""Formats that models are trained or released in, which converters to GGUF read. AWQ, GPTQ and
the like were made for other engines. Source: llama.cpp convert_hf_to_gguf.py."""

_SIXTEEN_BIT = frozenset({"F16", "BF16"})


class CheckpointChoice(NamedTuple):
    """What is loaded of a model."""

    model: Model
    """The repository whose weights are loaded."""

    derived: str | None
    """The format its weights are estimated in; None: as they are published."""

    repo: QuantizedRepo | None = None
    """The published repository that holds the requested format, where the model itself does
    not."""


def default_format(model: Model, engine: EngineName) -> str | None:
    """Return the format that is served where none is named; None: as published.

    Encoders stay as published, and so does what was quantized for another engine."""
    row = ENGINES[engine]
    if row.default_quantization is None or (model.stored and model.stored.file_name):
        return None
    scheme = published(model.spec)
    if model.spec.task == "encode" or (scheme and family(scheme) not in _CONVERTED):
        return None
    return row.default_quantization


def loads_while_quantizing(model: Model, quantization: str, engine: EngineName) -> str | None:
    """Return the engine's word for a format it quantizes to while it loads this model; None where
    it does not."""
    if model.is_quantized:
        return None
    return ENGINES[engine].online_formats.get(canonical_name(quantization))


def holds_requested(model: Model, quantization: str) -> bool:
    """Return whether the model itself is published in the requested format. Engines load 16-bit
    weights in either 16-bit format; a repository that is named for the format is in it, though it
    mixes others in. Raises UnsupportedError for an unknown format."""
    if model.source == "size":
        return False
    file = model.stored.file_name if model.stored else None
    if file is not None and is_gguf_format(quantization):
        return canonical_name(file_type(file) or "") == canonical_name(quantization)
    if model.is_quantized and take_formats(model.id.lower())[1] == canonical_name(quantization):
        return True
    dtype = UNQUANTIZED.get(canonical_name(quantization))
    if dtype in _SIXTEEN_BIT and not model.is_quantized:
        return model.spec.dtype in _SIXTEEN_BIT
    return holds_format(model.spec, quantization)


class Checkpoints:
    """Chooses what is loaded, from the bundled models and from what the Hub lists. No I/O."""

    def __init__(self, models: ModelResolver | None) -> None:
        """models: where the bundled repositories come from; None for none."""
        self._models = models
        self._bundled: WeakMemo[Model, str, list[QuantizedRepo]] = WeakMemo()

    def choose(
        self,
        model: Model,
        quantization: str | None,
        engine: EngineName,
        siblings: Sequence[QuantizedRepo] = (),
    ) -> CheckpointChoice:
        """Return what the engine loads of the model in a format (None: as published).

        siblings: repositories found on the Hub. A published repository is taken where it changes
        nothing but the format of the weights, and runs wherever the engine runs the format.
        Raises UnsupportedError for an unknown format."""
        if quantization is None or model.source == "size":
            return CheckpointChoice(model, quantization)
        if holds_requested(model, quantization):
            dtype = UNQUANTIZED.get(canonical_name(quantization))
            as_published = dtype is None or dtype == model.spec.dtype
            return CheckpointChoice(model, None if as_published else quantization)
        requested_form(quantization, model.spec)  # raises where it is unknown
        makes = loads_while_quantizing(model, quantization, engine) is not None
        form = "" if makes else canonical_name(quantization)
        for repo in (*siblings, *self._of_snapshot(model, engine, form)):
            if _holds(repo, quantization):
                scheme = requested_scheme(quantization, model.spec)
                if _runs_as_widely(repo.model, scheme, engine):
                    return CheckpointChoice(repo.model, None, repo)
        return CheckpointChoice(model, quantization)

    def _of_snapshot(self, model: Model, engine: EngineName, form: str) -> Iterator[QuantizedRepo]:
        """Yield the bundled repositories of the same weights: those with shapes of their own, then
        those that are called by this format; empty for a format that the engine makes of the
        model's own weights."""
        if self._models is None or ENGINES[engine].checkpoint_kinds:
            return
        models = self._models
        yield from self._bundled.get_or_compute(model, "", lambda: bundled_repos(models, model))
        if form:
            names = models.quantized_names
            yield from self._bundled.get_or_compute(
                model, form, lambda: bundled_repos(models, model, names, form)
            )


def _holds(repo: QuantizedRepo, quantization: str) -> bool:
    if ":" in repo.text:
        return repo.text.rpartition(":")[2].lower() == canonical_name(quantization)
    return holds_format(repo.model.spec, quantization)


def _runs_as_widely(model: Model, requested: Scheme, engine: EngineName) -> bool:
    """Return whether the engine reads the repository on every accelerator on which it reads the
    requested format, with a cache in the same format."""
    setters = (other.sets_kv_cache_dtype for other in ENGINES.values())
    if any(sets(model.spec) for sets in setters if sets is not None):
        return False
    scheme, row = published(model.spec), ENGINES[engine]
    method = family(scheme) if scheme is not None else None
    wanted = family(requested)
    if method is None or wanted is None or method == wanted:
        return True
    if method not in row.formats or wanted not in row.formats:
        return False
    narrower = any(
        platform.methods and wanted in platform.methods and method not in platform.methods
        for platform in row.platforms.values()
    )
    return row.formats[method] <= row.formats[wanted] and not narrower
