"""Model: a model as it was resolved from what a caller named: its architecture, and where it comes
from."""

from typing import Literal

import msgspec

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What a repository stores, by its own metadata."""

    elements: dict[str, int] = {}
    """Numbers by canonical dtype; packed formats count their containers."""
    file_bytes: int = 0
    """Size of the chosen GGUF file [bytes]; 0: safetensors."""
    file_name: str | None = None
    """Name of the chosen GGUF file."""
    is_estimated: bool = False
    """Whether `file_bytes` was computed from the type of the file."""


class Model(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A resolved model."""

    id: str
    """Its name, as the answer repeats it."""
    source: Literal["hub", "snapshot", "config", "size"]
    """Where its description comes from."""
    spec: ModelSpec
    """Its architecture."""
    revision: str | None = None
    """The commit of the repository, where it comes from the Hub."""
    stored: Stored | None = None
    """What the repository stores; None where that is unavailable."""
    warnings: tuple[Note, ...] = ()
    """Warnings of its resolution."""
    named_format: str | None = None
    """The number format that the caller's name of it asks for, where it is published in
    another."""
    guessed_from: str | None = None
    """The caller's name of it, where that does not name it for certain."""
    others: tuple[str, ...] = ()
    """Models that this name may mean as well."""
    base: str | None = None
    """The model whose shapes these are, where the repository's own config is not known."""
    rule: str = ""
    """Why they are taken from it."""

    @property
    def is_quantized(self) -> bool:
        """Whether the repository itself is quantized: other formats of it would be no better
        than that."""
        return self.spec.quantization is not None or bool(self.stored and self.stored.file_name)
