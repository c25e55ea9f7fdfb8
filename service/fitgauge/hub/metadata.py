"""What the Hub said about one repository at one commit, as it is kept, and the Model that
follows from it."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from fitgauge.engine.model.dtypes import dtype
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model, Stored
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import MalformedModelError
from fitgauge.hub.description import no_weights
from fitgauge.hub.json_text import refuse_too_many_values

COUNT_TOLERANCE = 0.01
"""Of the Hub's count for a GGUF file: it includes rotary factors and, in some files, heads for
further tokens."""


class GgufModel(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen GGUF files."""

    name: str
    """Name of the first file."""
    label: str
    """Their quantization, as the file names it."""
    file_bytes: int
    """Their size together [bytes]."""
    parameters: int
    """What the Hub counts in them; 0: unknown."""
    config: dict[str, Any] | None
    """Read from the file's own key-values; None where the repository's config.json serves."""


class RepoMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What the Hub has of a repository. Cached instead of the Model, so that a later version parses
    it again."""

    repo_id: str
    """The repository, as owner/name."""
    sha: str | None
    """Its commit."""
    fetched_at: float
    """When it was fetched [seconds since 1970]."""
    elements: dict[str, int]
    """Numbers stored, by canonical dtype."""
    config: bytes | None
    """config.json as it is; None: there is none."""
    config_etag: str | None
    """Its version."""
    quantization: bytes | None = None
    """hf_quant_config.json as it is; None: there is none."""
    gguf: GgufModel | None = None
    """The chosen GGUF files; None: safetensors."""
    weightless: bool = False
    """Whether it holds a config.json and no weights."""
    warnings: tuple[Note, ...] = ()
    """Warnings of its resolution."""


def read_json(body: bytes, name: str) -> dict[str, Any]:
    """Return a JSON object. Raises MalformedModelError. By the standard library, since config
    files hold Infinity and NaN."""
    refuse_too_many_values(body, name)
    try:
        values = json.loads(body)
    except RecursionError:
        raise MalformedModelError(f"{name} is nested too deeply.") from None
    except ValueError as error:
        raise MalformedModelError(f"{name} is no JSON: {str(error)[:100]}") from None
    if not isinstance(values, dict):
        raise MalformedModelError(f"{name} is not a JSON object.")
    return values


def model_of(facts: RepoMetadata) -> Model:
    """Return the Model. Raises MalformedModelError where its config cannot be read as one."""
    if facts.gguf is not None:
        return _gguf_model(facts, facts.gguf)
    if facts.config is None:
        raise MalformedModelError(
            f"{facts.repo_id} has weights but no config.json.",
            hint="Send a repository in transformers' format.",
        )
    quantization = None
    if facts.quantization is not None:
        quantization = read_json(facts.quantization, "hf_quant_config.json")
    config = read_json(facts.config, "config.json")
    if facts.weightless:
        return _planned_model(facts, config, quantization)
    spec = read_config(config, quantization)
    elements, unknown = _canonical(facts.elements)
    warnings = [
        *facts.warnings,
        *(
            Note(
                "dtype-unknown",
                "model",
                f"The Hub reports parameters of unknown dtype {name}: ignored.",
            )
            for name in unknown
        ),
    ]
    if not elements:
        warnings.append(
            Note(
                "hub-counts-missing",
                "model",
                "The Hub reports no parameter counts: sizes are computed from the architecture.",
            )
        )
    return Model(
        id=facts.repo_id,
        source="hub",
        spec=spec,
        revision=facts.sha,
        stored=Stored(elements=elements),
        warnings=tuple(warnings),
    )


def _planned_model(
    facts: RepoMetadata, config: dict[str, Any], quantization: dict[str, Any] | None
) -> Model:
    """Return a model of which only the plan is there. Raises ModelWithoutWeightsError where the
    config is no plan of a model."""
    try:
        spec = read_config(config, quantization)
    except MalformedModelError:
        raise no_weights(facts.repo_id) from None
    warning = Note(
        "model-without-weights",
        "model",
        "The repository has no weights: sizes are computed from config.json.",
    )
    return Model(
        id=facts.repo_id,
        source="config",
        spec=spec,
        revision=facts.sha,
        warnings=(*facts.warnings, warning),
    )


def _gguf_model(facts: RepoMetadata, gguf: GgufModel) -> Model:
    config = (
        gguf.config if gguf.config is not None else read_json(facts.config or b"{}", "config.json")
    )
    spec, warnings = _as_counted(config, gguf.parameters), facts.warnings
    if (
        gguf.parameters
        and abs(spec.parameters - gguf.parameters) > COUNT_TOLERANCE * gguf.parameters
    ):
        spec = msgspec.structs.replace(spec, basis="assumed")
        warnings += (
            Note(
                "parameter-count-differs",
                "model",
                f"The Hub reports {gguf.parameters:,} parameters, the architecture has"
                f" {spec.parameters:,}.",
            ),
        )
    return Model(
        id=facts.repo_id,
        source="hub",
        spec=spec,
        revision=facts.sha,
        stored=Stored(file_bytes=gguf.file_bytes, file_name=gguf.name),
        warnings=warnings,
    )


def _as_counted(config: Mapping[str, Any], parameters: int) -> ModelSpec:
    """Return the ModelSpec whose head is tied or not, whichever comes nearer to what the Hub
    counts: GGUF's key-values do not say it."""
    if "tie_word_embeddings" in config or not parameters:
        return read_config(config)
    both = [read_config({**config, "tie_word_embeddings": tied}) for tied in (False, True)]
    return min(both, key=lambda spec: abs(spec.parameters - parameters))


def _canonical(elements: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """Return the counts by canonical dtype, and the unknown names."""
    counts: dict[str, int] = {}
    unknown: list[str] = []
    for name, count in elements.items():
        try:
            canonical = dtype(name)
        except UnsupportedError:
            unknown.append(name[:20])
        else:
            counts[canonical] = counts.get(canonical, 0) + count
    return counts, unknown
