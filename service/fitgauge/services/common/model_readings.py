"""What a model's name says besides the model: a size, a number format, other readings."""

from collections.abc import Sequence

from msgspec import structs

from fitgauge.catalog.model_names import ModelReading
from fitgauge.catalog.name_parts import Name, named_size
from fitgauge.catalog.near_names import may_stand_for, named_sizes
from fitgauge.catalog.sizes import nominal_model, parse_size
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.same_format import holds_format

_FOUR_BITS = 5
"""Published in fewer bits a weight than this, a model is not quantized again by a usual format."""


_LINES = frozenset({"distill"})
"""Words of models that are other ones than their names without them."""


def size_model(text: str) -> Model | None:
    """Return the model of a size alone: "7b", "a 13B model", "8", "65B 4-bit"; None where the text
    names more. Raises InvalidRequestError for a size out of range."""
    parameters = parse_size(text)
    if parameters is not None:
        return nominal_model(text, parameters)
    if (named := named_size(text)) is None:
        return None
    size, form = named
    parameters = parse_size(size)
    assert parameters is not None
    return structs.replace(
        nominal_model(size, parameters), named_format=form or None, guessed_from=text
    )


def is_fuller(text: str, reading: ModelReading) -> bool:
    """Return whether the one model that a name means has a size or is a distillation that the
    name does not say: the 14B of "deepseek r1 14b" is distilled, R1 itself has 671B."""
    query, name = Name.of(text), Name.of(reading.id)
    if reading.others or not (query.sizes <= name.sizes and query.versions <= name.versions):
        return False
    return bool((name.sizes - query.sizes) | (name.words & _LINES - query.words))


def with_reading(text: str, model: Model, reading: ModelReading) -> Model:
    """Return the model with the format that its name asks for and the models it may mean."""
    warnings = model.warnings
    if reading.others:
        note = Note(
            "model-read-as",
            "model",
            f"{text!r} is read as {model.id}; it may also mean {', '.join(reading.others)}.",
        )
        warnings = (note, *warnings)
    scheme = published(model.spec)
    is_small = scheme is not None and all(form.bits < _FOUR_BITS for form in scheme.formats)
    form = reading.format
    if form and ((is_small and reading.is_default_format) or holds_format(model.spec, form)):
        form = None
    return structs.replace(
        model, warnings=warnings, named_format=form, guessed_from=text, others=reading.others
    )


def replacement(text: str, matches: Sequence[str]) -> dict[str, str | int | bool | None]:
    """Return the fields to send instead of an unknown name: the nearest one where it may stand for
    it, else its size."""
    if matches and may_stand_for(matches[0], text):
        return {"model": matches[0]}
    sizes = named_sizes(text)
    return {"model": sizes[0]} if sizes and parse_size(sizes[0]) else {}
