"""Published quantizations that the bundled models do not hold: GGUF files, MLX checkpoints and
tags of Ollama's library.

data/checkpoints.tsv: a model, the kind of files, their format, the name to load and the source, a
row a line."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from fitgauge.catalog import tables
from fitgauge.engine.serving.engine_facts import CheckpointKind


class PublishedCheckpoint(NamedTuple):
    """One row of the table."""

    model: str
    """The Hub ID of the model it was made from."""
    kind: str
    """Its format of files: safetensors, GGUF, MLX, ..."""
    form: str
    """The quantization of its weights."""
    name: str
    """The repository or tag."""
    source: str
    """Where the repository is published."""


def checkpoint_name(model_id: str, kind: CheckpointKind, form: str) -> str | None:
    """Return the repository or tag that holds a model in a format (Q4_K_M, MXFP4, int4), in any
    case of letters; None where none is known."""
    return _names().get((model_id.lower(), kind, form.lower()))


def tagged(tag: str) -> PublishedCheckpoint | None:
    """Return what a tag of Ollama's library holds (llama3:8b, library/llama3:8b), in any case of
    letters; None where the tag is not known."""
    return _tags().get(tag.strip().lower().removeprefix("library/"))


@cache
def rows() -> tuple[PublishedCheckpoint, ...]:
    """Return the table."""
    return tuple(PublishedCheckpoint(*row) for row in tables.rows("checkpoints"))


@cache
def _names() -> Mapping[tuple[str, str, str], str]:
    return {(row.model.lower(), row.kind, row.form.lower()): row.name for row in rows()}


@cache
def _tags() -> Mapping[str, PublishedCheckpoint]:
    return {row.name: row for row in rows() if row.kind == "ollama"}
