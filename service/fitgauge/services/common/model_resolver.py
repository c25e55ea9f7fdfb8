"""Which model is meant, and where its facts come from: the Hub first, the bundled snapshot where the Hub gives no answer."""

import time
from collections.abc import Callable

import msgspec

from fitgauge.catalog.sizes import nominal_model, parse_size
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.spec import Model
from fitgauge.errors import (
    FitgaugeError,
    GatedModel,
    HubError,
    InvalidQuestion,
    UnknownModel,
)
from fitgauge.hub import Hub
from fitgauge.hub.reference import Reference, parse_reference
from fitgauge.services.common.lru_cache import Recent

SECOND_BEST_SECONDS = 5.0


class Models:
    """Turns what people type into a Model. Sizes and names that were resolved lately need no I/O: see `peek`.

    The snapshot's answer in the Hub's place holds for SECOND_BEST_SECONDS; then the Hub is asked again.
    `monotonic`: seconds that only pass.
    """

    def __init__(self, hub: Hub, snapshot: Snapshot, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._hub = hub
        self._snapshot = snapshot
        self._monotonic = monotonic
        self._instead: Recent[tuple[Model, float]] = Recent(256)
        self._bundled: Recent[Model] = Recent(256)
        self._sizes: Recent[Model] = Recent(256)
        self._references: Recent[Reference] = Recent(4096)

    @property
    def hub(self) -> Hub:
        """Where the others come from."""
        return self._hub

    @property
    def snapshot(self) -> Snapshot:
        """The bundled models."""
        return self._snapshot

    def peek(self, text: str) -> Model | None:
        """The Model of a size, or of a name the Hub answered lately; None where somebody has to be asked. No I/O."""
        known = self._sizes.get(text)
        if known is not None:
            return known
        reference = self._references.get(text)
        if reference is None:
            return None
        model = self._hub.peek(reference)
        if model is None and (second_best := self._instead.get(reference)) is not None and self._monotonic() < second_best[1]:
            return second_best[0]
        return model

    async def find(self, text: str) -> Model:
        """The Model that is meant, at once where it is known. Raises what `resolve` does."""
        return self.peek(text) or await self.resolve(text)

    async def resolve(self, text: str) -> Model:
        """The Model that is meant, asked for anew.

        Raises UnknownModel (with near matches), GatedModel, ModelWithoutWeights, MalformedModel, HubUnreachable and HubBusy where the
        snapshot cannot answer in the Hub's place, InvalidQuestion where the text is no name.
        """
        parameters = parse_size(text)
        if parameters is not None:
            model = nominal_model(text, parameters)
            self._sizes.put(text, model)
            return model
        reference = self._reference(text)
        try:
            return await self._hub.resolve(reference)
        except UnknownModel as error:
            return self._second_best(reference, "The Hub does not show this repository", error)
        except GatedModel as error:
            return self._second_best(reference, "The Hub shows this repository only with a token that was granted access", error)
        except HubError as error:
            why = "The Hub was not asked (HF_HUB_OFFLINE)" if self._hub.offline else "The Hub gave no answer"
            return self._second_best(reference, why, error)

    def _reference(self, text: str) -> Reference:
        """The repository that is meant: a Hub ID as it stands, else the one of the snapshot that these words name."""
        named = self._snapshot.find(text) if "/" not in text else None
        try:
            reference = parse_reference(named or text)
        except InvalidQuestion as error:
            raise UnknownModel(error.detail, hint=error.hint, matches=self._snapshot.near(text), field="model") from None
        self._references.put(text, reference)
        return reference

    def _second_best(self, reference: Reference, why: str, error: FitgaugeError) -> Model:
        """The snapshot's Model, marked so; raises `error`, with near matches for an unknown name, where there is none."""
        model = self.bundled(reference.repo_id)
        if model is not None and reference.file is None:
            pinned = f" Revision {reference.revision} was not looked at." if reference.revision else ""
            warning = f"{why}: answered from the bundled snapshot.{pinned}"
            known = self._instead.get(reference)
            if known is None or known[0].warnings[0] != warning:
                known = msgspec.structs.replace(model, warnings=(warning, *model.warnings)), 0.0
            self._instead.put(reference, (known[0], self._monotonic() + SECOND_BEST_SECONDS))
            return known[0]
        if isinstance(error, UnknownModel | HubError) and not error.matches:
            error.matches = self._snapshot.near(reference.repo_id)[:5]
        raise error

    def bundled(self, name: str) -> Model | None:
        """The snapshot's Model of this id, None where it has none."""
        known = self._bundled.get(name)
        if known is not None:
            return known
        model = self._snapshot.model(name)
        if model is not None:
            self._bundled.put(name, model)
        return model
