"""Bundled models of the same shape that read a longer context."""

import re

from fitgauge.engine.model.model import Model
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.fit.quantized_repos import QuantizedRepo

_MOST = 2
_SIZE = re.compile(r"\d+(?:\.\d+)?[bm](?![a-z])")


class LongerModels:
    """Finds models to use where a context is longer than the model reads. No I/O."""

    def __init__(self, models: ModelResolver) -> None:
        """Look them up in the snapshot of `models`."""
        self._models = models

    def find(self, model: Model, context_length: int) -> tuple[QuantizedRepo, ...]:
        """Return bundled models of the same publisher, family and layers that read the context."""
        wanted = _family(model.id)
        alike = (
            self._models.bundled(model_id)
            for model_id in self._models.snapshot.own_ids
            if model_id != model.id and _family(model_id) == wanted
        )
        longer = [one for one in alike if one is not None and _reads(one, model, context_length)]
        longer.sort(key=lambda one: (one.spec.max_context_length, one.id))
        return tuple(QuantizedRepo(one.id, one) for one in longer[:_MOST])


def _family(model_id: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the publisher, the first word of the name and the sizes in it."""
    owner, _, name = model_id.lower().partition("/")
    return owner, name.partition("-")[0], tuple(_SIZE.findall(name))


def _reads(other: Model, model: Model, context_length: int) -> bool:
    """Return whether `other` has the layers and the format of `model`, and reads the context."""
    return (
        (other.spec.layers, other.spec.hidden_size) == (model.spec.layers, model.spec.hidden_size)
        and other.spec.architecture == model.spec.architecture
        and other.is_quantized == model.is_quantized
        and other.spec.max_context_length >= context_length
    )
