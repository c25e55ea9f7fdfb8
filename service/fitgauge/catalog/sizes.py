"""Models that are only a size: so many parameters in the shape of a named model of today."""

import re
from functools import cache
from math import exp, log
from typing import NamedTuple

from fitgauge.catalog import tables
from fitgauge.engine.model.mixers import plain_attention
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Part, Split, Tensor
from fitgauge.engine.note import Note
from fitgauge.errors import InvalidRequestError

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([mbt])\s*(?:model|params|parameters)?\s*", re.IGNORECASE)
_SCALE = {"m": 10**6, "b": 10**9, "t": 10**12}
_SMALLEST, _LARGEST = 10**6, 10**13


_DEPTH_EXPONENT = 1 / 3
"""Layers of models larger or smaller than all that are named grow with this power of the
parameters: depth and both widths of a matrix alike."""


class Shape(NamedTuple):
    """The shape of one named model: a line of data/sizes.tsv."""

    parameters: int
    """The size in its name, not its exact count."""

    model: str
    """The named model."""

    hidden: int
    """Hidden size."""

    layers: int
    """Layers."""

    heads: int
    """Query heads."""

    kv_heads: int
    """Key and value heads."""

    intermediate: int
    """Width of the MLP."""

    vocabulary: int
    """Entries of the vocabulary."""

    context: int
    """Longest context [tokens]."""


@cache
def shapes() -> tuple[Shape, ...]:
    """Return the named models, the smallest first."""
    named = (
        Shape(_parameters(row[0]), row[1], *map(int, row[2:9])) for row in tables.rows("sizes")
    )
    return tuple(sorted(named))


def parse_size(text: str) -> int | None:
    """Return the parameters that a text such as '7b', '0.5B' or '125m' names, None where it is
    no size. Raises InvalidRequestError beyond 1m to 10t."""
    if _SIZE.fullmatch(text) is None:
        return None
    parameters = _parameters(text)
    if not _SMALLEST <= parameters <= _LARGEST:
        raise InvalidRequestError(
            f"A model of {text.strip()} is out of range.",
            hint="Send a size from 1m to 10t.",
            field="model",
            code="invalid-value",
        )
    return parameters


def _parameters(text: str) -> int:
    """Return the parameters of a text that is a size."""
    match = _SIZE.fullmatch(text)
    assert match is not None
    number = min(float(match[1]), _LARGEST)  # three hundred digits are infinite
    return round(number * _SCALE[match[2].lower()])


def nominal_model(text: str, parameters: int) -> Model:
    """Return a model of exactly `parameters` parameters in the shape of the named model of this
    size; between two of them with the width of the nearest (by ratio) and layers between both."""
    shape, whose = _shape(parameters)
    head_dim = shape.hidden // shape.heads
    mixer = plain_attention(shape.heads, head_dim, kv_heads=shape.kv_heads)
    each, rest = divmod(parameters, shape.layers)
    blocks = [
        Block(
            part=Part.LANGUAGE,
            prefix="layers.{}.",
            layers=tuple(range(shape.layers)),
            tensors=(Tensor("nominal.weight", (each, 1), Kind.LINEAR, Split.COLUMN),),
            mixers=(mixer,),
            mlp=Mlp(intermediate_size=shape.intermediate),
        )
    ]
    if rest:
        blocks.append(
            Block(
                part=Part.LANGUAGE,
                prefix="",
                tensors=(Tensor("rest.weight", (rest, 1), Kind.LINEAR),),
            )
        )
    note = Note(
        "model-is-a-size",
        "model",
        f"{text.strip()} is a size, not a model: assuming {parameters:,} parameters in the shape"
        f" of {whose}: {shape.layers} layers, {shape.heads} heads, {shape.kv_heads} KV heads of"
        f" {head_dim}.",
    )
    spec = ModelSpec(
        model_type="nominal",
        architecture=f"nominal ({shape.model})",
        hidden_size=shape.hidden,
        vocabulary_size=shape.vocabulary,
        max_context_length=shape.context,
        tied_embeddings=True,
        blocks=tuple(blocks),
        basis="assumed",
        notes=(note,),
    )
    return Model(id=text.strip().lower(), source="size", spec=spec)


def _shape(parameters: int) -> tuple[Shape, str]:
    """Return the shape of a model of this size and whose it is, in words. Sizes that no row
    names take after models with grouped KV heads, as those of today have."""
    if own := next((one for one in shapes() if one.parameters == parameters), None):
        return own, _short(own)
    named = [one for one in shapes() if one.kv_heads < one.heads]
    nearest = min(named, key=lambda one: abs(log(one.parameters / parameters)))
    smaller = max((one for one in named if one.parameters < parameters), default=None)
    larger = min((one for one in named if one.parameters > parameters), default=None)
    if smaller is None or larger is None:
        scale = (parameters / nearest.parameters) ** _DEPTH_EXPONENT
        layers = max(1, round(nearest.layers * scale))
        return nearest._replace(layers=layers), f"{_short(nearest)} with layers scaled"
    share = log(parameters / smaller.parameters) / log(larger.parameters / smaller.parameters)
    layers = round(exp((1 - share) * log(smaller.layers) + share * log(larger.layers)))
    return nearest._replace(layers=layers), f"{_short(nearest)} with layers scaled"


def _short(shape: Shape) -> str:
    """Return the model's name without its owner."""
    return shape.model.partition("/")[2]
