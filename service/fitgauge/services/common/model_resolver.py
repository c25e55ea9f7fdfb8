"""Resolve the name of a model: from the Hub, else from the bundled snapshot."""

import re
import time
from collections.abc import Callable
from functools import cached_property

import msgspec

from fitgauge.catalog.format_names import take_formats
from fitgauge.catalog.model_names import ModelReading
from fitgauge.catalog.name_parts import is_tag
from fitgauge.catalog.scope import closed_size, out_of_scope
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.errors import (
    FitgaugeError,
    GatedModelError,
    HubError,
    InvalidRequestError,
    MalformedModelError,
    ModelWithoutWeightsError,
    UnknownModelError,
)
from fitgauge.hub import Hub
from fitgauge.hub.reference import HINT, MAX_LENGTH, Reference, of_caller, parse_reference
from fitgauge.hub.siblings import ListedNames
from fitgauge.services.common.model_readings import is_fuller, replacement, size_model, with_reading
from fitgauge.spans import span

SECOND_BEST_SECONDS = 5.0
STALE_SECONDS = 300.0
"""How much longer callers have it at once, while the Hub is asked in the background."""

_BETWEEN = re.compile(r"\s*(?:,|/ |&|;| \+ |\bor\b|\band\b|\bvs\.?\s|或|和|还是)\s*", re.IGNORECASE)
"""What stands between the names of several models."""


class ModelResolver:
    """Turns what people type into a Model. Sizes and names that were resolved lately need no I/O:
    see `peek`.

    The snapshot's answer in the Hub's place holds for SECOND_BEST_SECONDS; then the Hub is asked
    again, in the background within STALE_SECONDS. `monotonic`: seconds that only pass."""

    def __init__(
        self, hub: Hub, snapshot: Snapshot, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._hub = hub
        self._snapshot = snapshot
        self._monotonic = monotonic
        self._instead: Memo[Reference, tuple[Model, float]] = Memo(256)
        self._bundled: Memo[str, Model] = Memo(256)
        self._sizes: Memo[str, Model] = Memo(256)
        self._references: Memo[str, Reference] = Memo(4096)
        self._readings: Memo[str, ModelReading] = Memo(4096)
        self._named: Memo[str, tuple[Model, Model]] = Memo(256)

    @property
    def hub(self) -> Hub:
        """Where the others come from."""
        return self._hub

    @property
    def snapshot(self) -> Snapshot:
        """The bundled models."""
        return self._snapshot

    @cached_property
    def bundled_names(self) -> ListedNames:
        """The names of the bundled repositories with shapes of their own."""
        return ListedNames(self._snapshot.own_ids)

    @cached_property
    def quantized_names(self) -> ListedNames:
        """The names of the bundled repositories that say a format."""
        return ListedNames([one for one in self._snapshot.ids() if take_formats(one.lower())[1]])

    def peek(self, text: str) -> Model | None:
        """Return the Model of a size, or of a name the Hub answered lately; None where somebody
        has to be asked. No I/O."""
        sized = self._sizes.get(text)
        if sized is not None:
            return sized
        reference = self._references.get(text)
        if reference is None:
            return None
        model = self._hub.peek(reference)
        if model is None:
            model = self._peek_second_best(of_caller(reference))
        return model and self._as_read(text, model)

    def _peek_second_best(self, reference: Reference) -> Model | None:
        """Return what the snapshot answered lately; once that is no longer recent, the Hub is
        asked in the background."""
        second_best = self._instead.get(reference)
        if second_best is None:
            return None
        model, until = second_best
        age = self._monotonic() - until
        if age >= (0 if reference.token_id else STALE_SECONDS):
            return None
        if age >= 0:
            self._hub.look_up_behind(reference)
        return model

    def hold(self, text: str, model: Model) -> None:
        """Take `text` for this Model from now on: a checkpoint of the machine that a command runs
        on."""
        self._sizes.put(text, model)

    async def find(self, text: str) -> Model:
        """Return the Model that is meant, at once where it is known. Raises what `resolve` does."""
        return self.peek(text) or await self.resolve(text)

    async def resolve(self, text: str) -> Model:
        """Return the Model of this name, always from the Hub.

        Raises UnknownModelError (with near matches), ModelWithoutWeightsError, and GatedModelError,
        MalformedModelError, HubUnreachableError and HubBusyError where the snapshot cannot
        answer in the Hub's place, InvalidRequestError for an invalid name."""
        if (model := size_model(text)) is not None:
            self._sizes.put(text, model)
            return model
        reference = self._reference(text)
        with span("resolve model"):
            model = await self._resolve(text, reference)
        return self._as_read(text, model)

    async def _resolve(self, text: str, reference: Reference) -> Model:
        """Return the Model of a reference, from the Hub, else from the snapshot. text: what was
        sent."""
        try:
            return await self._hub.resolve(reference)
        except UnknownModelError as error:
            return self._second_best(
                text, reference, "The Hub has no public repository of this name", error
            )
        except ModelWithoutWeightsError as error:
            if out_of_scope(text):
                raise self._unknown(text, error.detail, error.hint) from error
            raise
        except MalformedModelError as error:
            why = "What the Hub says of this repository cannot be read"
            return self._second_best(text, reference, why, error)
        except GatedModelError as error:
            return self._second_best(
                text, reference, "The Hub requires a token with access to this repository", error
            )
        except HubError as error:
            why = "Offline (HF_HUB_OFFLINE)" if self._hub.offline else "The Hub did not answer"
            return self._second_best(text, reference, why, error)

    def _reference(self, text: str) -> Reference:
        """Return the repository that is meant: a Hub ID as it stands, else the one of the
        snapshot that these words name."""
        reading = self._snapshot.read(text) if "/" not in text or is_tag(text) else None
        if reading is not None:
            self._readings.put(text, reading)
        try:
            reference = parse_reference(reading.id if reading else text)
        except InvalidRequestError as error:
            if "/" in text or len(text) > MAX_LENGTH:
                raise self._unknown(text, error.detail, error.hint) from None
            raise self._unknown(text, *_unknown_name(text)) from None
        self._references.put(text, reference)
        return reference

    def _as_read(self, text: str, model: Model) -> Model:
        """Return the Model with what was read of its name besides: a format, other readings."""
        reading = self._readings.get(text)
        if reading is None:
            return model
        if reading.format is None and not reading.others and not is_fuller(text, reading):
            return model
        entry = self._named.get(text)
        if entry is None or entry[0] is not model:
            entry = model, with_reading(text, model, reading)
            self._named.put(text, entry)
        return entry[1]

    def _unknown(self, text: str, detail: str, hint: str) -> UnknownModelError:
        """Return the error of an unknown name, with near matches and the question to send."""
        if kind := out_of_scope(text):
            size = closed_size(text)
            instead = f"{size}, which is its size" if size else "a size such as 7b"
            return UnknownModelError(
                f"{text[:80]!r} {kind}; estimates cover language, vision-language, embedding and"
                " speech recognition models.",
                hint=f"Send the ID of such a model, or {instead}.",
                field="model",
                code="out-of-scope",
                send={"model": size} if size else None,
            )
        if several := self._several(text):
            return UnknownModelError(
                f"{text[:80]!r} names several models. Send one of them; for several on one GPU,"
                " one after the other, with what the others need as `other_memory_gib`.",
                hint="POST /v1/compare takes all, each on GPUs of its own.",
                matches=several,
                field="model",
                send={"model": several[0]},
            )
        matches = self._snapshot.near(text)
        return UnknownModelError(
            detail, hint=hint, matches=matches, field="model", send=replacement(text, matches)
        )

    def _several(self, text: str) -> tuple[str, ...]:
        """Return the models of a text that names more than one, as "qwen3 8b or gemma 3 12b"."""
        parts = _BETWEEN.split(text)
        ids = tuple(dict.fromkeys(filter(None, map(self._snapshot.find, parts))))
        return ids if len(ids) == len(parts) > 1 else ()

    def _second_best(
        self, text: str, reference: Reference, why: str, error: FitgaugeError
    ) -> Model:
        """Return the snapshot's Model, marked so, also one whose name says which model's
        shapes it has; raises `error`, with near matches for an unknown name, where there
        is none. text: what was sent."""
        model = self._known_without_hub(reference, error)
        if model is not None:
            pinned = (
                f" Revision {reference.revision} was not checked." if reference.revision else ""
            )
            shapes = f", with the shapes of {model.base}: {model.rule}" if model.base else ""
            warning = Note(
                "answered-from-snapshot",
                "model",
                f"{why}: answered from the bundled snapshot{shapes}.{pinned}",
            )
            instead = self._instead.get(of_caller(reference))
            if instead is None or instead[0].warnings[0] != warning:
                instead = msgspec.structs.replace(model, warnings=(warning, *model.warnings)), 0.0
            self._instead.put(
                of_caller(reference), (instead[0], self._monotonic() + SECOND_BEST_SECONDS)
            )
            return instead[0]
        if out_of_scope(text):
            raise self._unknown(text, error.detail, error.hint) from error
        if isinstance(error, UnknownModelError | HubError) and not error.matches:
            if "/" not in text and self._readings.get(text) is not None:
                detail = f"{text!r} is {reference.repo_id}, which is not bundled. {why}."
                raise self._unknown(text, detail, error.hint) from error
            if "/" not in text:
                raise self._unknown(text, *_unknown_name(text)) from error
            error.matches = self._snapshot.near(reference.repo_id)[:5]
            error.send = replacement(text, error.matches)
        raise error

    def _known_without_hub(self, reference: Reference, error: FitgaugeError) -> Model | None:
        """Return what the snapshot has of a reference; where the Hub has not said what the
        repository is, also what follows from its name."""
        if reference.file is None and (model := self.bundled(reference.repo_id)) is not None:
            return model
        if isinstance(error, UnknownModelError | MalformedModelError):
            return None
        key = str(Reference(reference.repo_id, file=reference.file))
        model = self._bundled.get(key)
        if model is None:
            model = self._snapshot.derive(reference.repo_id, reference.file)
            if model is not None:
                self._bundled.put(key, model)
        return model

    def bundled(self, name: str) -> Model | None:
        """Return the snapshot's Model of this id, None where it has none."""
        cached = self._bundled.get(name)
        if cached is not None:
            return cached
        model = self._snapshot.model(name)
        if model is not None:
            self._bundled.put(name, model)
        return model


def _unknown_name(text: str) -> tuple[str, str]:
    """Return the detail and the hint for an unknown name."""
    return (
        f"Unknown model {text[:80]!r}: no bundled model has this name.",
        f"{HINT} A size such as 7b is answered too.",
    )
