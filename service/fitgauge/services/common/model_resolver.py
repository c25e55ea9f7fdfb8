"""Resolve the name of a model: from the Hub, else from the bundled snapshot."""

import time
from collections.abc import Callable

import msgspec

from fitgauge.catalog.sizes import nominal_model, parse_size
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.spec import Model
from fitgauge.engine.note import Note
from fitgauge.errors import (
    FitgaugeError,
    GatedModelError,
    HubError,
    InvalidRequestError,
    UnknownModelError,
)
from fitgauge.hub import Hub
from fitgauge.hub.reference import Reference, parse_reference

SECOND_BEST_SECONDS = 5.0


class ModelResolver:
    """Turns what people type into a Model. Sizes and names that were resolved lately need no I/O:
    see `peek`.

    The snapshot's answer in the Hub's place holds for SECOND_BEST_SECONDS; then the Hub is asked
    again. `monotonic`: seconds that only pass."""

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

    @property
    def hub(self) -> Hub:
        """Where the others come from."""
        return self._hub

    @property
    def snapshot(self) -> Snapshot:
        """The bundled models."""
        return self._snapshot

    def peek(self, text: str) -> Model | None:
        """Return the Model of a size, or of a name the Hub answered lately; None where somebody
        has to be asked. No I/O."""
        known = self._sizes.get(text)
        if known is not None:
            return known
        reference = self._references.get(text)
        if reference is None:
            return None
        model = self._hub.peek(reference)
        if (
            model is None
            and (second_best := self._instead.get(reference)) is not None
            and self._monotonic() < second_best[1]
        ):
            return second_best[0]
        return model

    async def find(self, text: str) -> Model:
        """Return the Model that is meant, at once where it is known. Raises what `resolve` does."""
        return self.peek(text) or await self.resolve(text)

    async def resolve(self, text: str) -> Model:
        """Return the Model of this name, always from the Hub.

        Raises UnknownModelError (with near matches), GatedModelError, ModelWithoutWeightsError,
        MalformedModelError, HubUnreachableError and HubBusyError where the snapshot cannot
        answer in the Hub's place, InvalidRequestError for an invalid name."""
        parameters = parse_size(text)
        if parameters is not None:
            model = nominal_model(text, parameters)
            self._sizes.put(text, model)
            return model
        reference = self._reference(text)
        try:
            return await self._hub.resolve(reference)
        except UnknownModelError as error:
            return self._second_best(
                reference, ("The Hub has no public repository of this name"), error
            )
        except GatedModelError as error:
            return self._second_best(
                reference,
                "The Hub requires a token with access to this repository",
                error,
            )
        except HubError as error:
            why = "Offline (HF_HUB_OFFLINE)" if self._hub.offline else "The Hub did not answer"
            return self._second_best(reference, why, error)

    def _reference(self, text: str) -> Reference:
        """Return the repository that is meant: a Hub ID as it stands, else the one of the
        snapshot that these words name."""
        named = self._snapshot.find(text) if "/" not in text else None
        try:
            reference = parse_reference(named or text)
        except InvalidRequestError as error:
            raise UnknownModelError(
                error.detail, hint=error.hint, matches=self._snapshot.near(text), field="model"
            ) from None
        self._references.put(text, reference)
        return reference

    def _second_best(self, reference: Reference, why: str, error: FitgaugeError) -> Model:
        """Return the snapshot's Model, marked so; raises `error`, with near matches for an
        unknown name, where there is none."""
        model = self.bundled(reference.repo_id)
        if model is not None and reference.file is None:
            pinned = (
                f" Revision {reference.revision} was not checked." if reference.revision else ""
            )
            warning = Note(
                "answered-from-snapshot",
                "model",
                f"{why}: answered from the bundled snapshot.{pinned}",
            )
            known = self._instead.get(reference)
            if known is None or known[0].warnings[0] != warning:
                known = msgspec.structs.replace(model, warnings=(warning, *model.warnings)), 0.0
            self._instead.put(reference, (known[0], self._monotonic() + SECOND_BEST_SECONDS))
            return known[0]
        if isinstance(error, UnknownModelError | HubError) and not error.matches:
            error.matches = self._snapshot.near(reference.repo_id)[:5]
        raise error

    def bundled(self, name: str) -> Model | None:
        """Return the snapshot's Model of this id, None where it has none."""
        known = self._bundled.get(name)
        if known is not None:
            return known
        model = self._snapshot.model(name)
        if model is not None:
            self._bundled.put(name, model)
        return model
