"""Read values as agents write them: numbers with units, booleans as words, lists as text."""

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from msgspec import Struct, inspect

from fitgauge.errors import InvalidRequestError
from fitgauge.services.tools.aliases import FIELDS, GPU_MEMORY, NOT_SET, VALUES, Value, plain

Kind = Literal["integer", "integers", "number", "boolean", "choice", "counts", "text", "texts"]

_NUMBER = re.compile(
    r"(?<![a-z0-9.])(?P<digits>\d{1,3}(?:[, _]\d{3})+(?![0-9])(?:\.\d+)?"
    r"|\d+(?:\.\d+)?(?:e\+?\d{1,2})?|\.\d+)\s?(?P<unit>%|ms(?![a-z])|(?:[kmgt]i?b?|bn?|thousand|million|billion)(?![a-z]))?|"
    r"(?P<word>[a-z]+[- ]?)(?P<after>\d+(?:\.\d+)?)(?![a-z0-9.])",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s*[;|\n]\s*|\s+(?:vs\.?|versus|or|and)\s+", re.IGNORECASE)
"""What else than commas stands between the names of a list: "RTX 4090 vs RTX 5090"."""

_NEGATIVE = re.compile(r"\s*[-−]\s*[.\d]")
_PRODUCT = re.compile(r"\s*(\d{1,4})\s*[x×*]\s*(\d{1,4})\s*", re.IGNORECASE)
_WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16, "single": 1, "dual": 2,
    "couple": 2, "quad": 4,
}  # fmt: skip
_TRUE = frozenset(("true", "yes", "on", "1", "y", "enabled", "enable", "1.0"))
_FALSE = frozenset(("false", "no", "off", "0", "n", "disabled", "disable", "0.0", "none", "never"))
_LONGEST = 60
"""Characters of a text that holds a number."""

_SHARES = ("_utilization", "_fraction", "_rate")
_GIB = {"m": 1 / 1024, "g": 1.0, "t": 1024.0}
_POWERS = {"k": 1, "thousand": 1, "m": 2, "million": 2, "g": 3, "b": 3, "billion": 3, "t": 4}


Read = Value | list[Value] | dict[str, int]


class Field(NamedTuple):
    """A field of a request, as a value is read for it."""

    name: str
    """The name."""
    kind: Kind
    """How a value is read."""
    choices: tuple[str, ...] = ()
    """Values it can take; empty for any."""
    description: str = ""
    """What it is, as the contract documents it."""


@cache
def fields_of(request: type[Struct]) -> Mapping[str, Field]:
    """Return the fields of a request by name."""
    info = inspect.type_info(request)
    if not isinstance(info, inspect.StructType):
        raise TypeError(request)
    return {field.name: _field(field) for field in info.fields}


def _field(field: inspect.Field) -> Field:
    options = _options(field.type)
    kinds = {type(option) for option in options}
    choices = tuple(
        str(value)
        for option in options
        if isinstance(option, inspect.LiteralType)
        for value in option.values
    )
    several = inspect.ListType in kinds
    kind: Kind = "texts" if several else "text"
    if inspect.BoolType in kinds:
        kind = "boolean"
    elif inspect.IntType in kinds:
        kind = "integers" if several else "integer"
    elif inspect.FloatType in kinds:
        kind = "number"
    elif choices:
        kind = "choice"
    elif inspect.DictType in kinds:
        kind = "counts"
    return Field(field.name, kind, choices, _description(field.type))


def _options(info: inspect.Type) -> list[inspect.Type]:
    if isinstance(info, inspect.Metadata):
        return _options(info.type)
    if isinstance(info, inspect.UnionType):
        return [option for one in info.types for option in _options(one)]
    return [info]


def _description(info: inspect.Type) -> str:
    schema = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))


def is_not_set(field: Field, value: object) -> bool:
    """Return whether a value leaves a field at its default: null, "", "none", "auto" and such, and
    fillers such as 0 where a number must be positive."""
    if value is None or value == [] or value == {}:
        return True
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("0", "1", "-1"):
            return is_not_set(field, int(word))
        if word == "none" and ("none" in field.description or "none" in VALUES.get(field.name, ())):
            return False
        return word in NOT_SET and plain(word) not in map(plain, field.choices)
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        filler = value == 0 and field.name in _NEVER_ZERO
        return value == -1 or filler or (value == 1 and field.name in _NEVER_ONE)
    return False


_NEVER_ZERO = frozenset((
    "gpu", "gpu_count", "context_length", "concurrency", "sequence_length", "micro_batch_size",
    "global_batch_size", "max_usd_per_hour", "tensor_parallel", "pipeline_parallel",
    "data_parallel", "lora_rank", "max_num_seqs", "max_batched_tokens", "gpu_memory_utilization",
    "kv_cache_memory_gib", "max_gpu_count", "prompt_tokens", "output_tokens",
    "min_tokens_per_second_per_request", "max_seconds_to_first_token",
))  # fmt: skip
"""Fields that hosts which must send every argument fill with 0."""

_NEVER_ONE = ("context_length", "sequence_length")
"""Fields that such hosts fill with their minimum, which no caller means."""


def read(field: Field, value: object) -> dict[str, Read]:
    """Return the fields that a value sets: mostly the field alone. Raises InvalidRequestError for a
    number that cannot be read."""
    if isinstance(value, list):
        if field.kind == "integers":
            return {field.name: [whole_number(field, one) for one in value]}
        if field.kind == "integer" and not re.search(r"\d", _text(value)):
            return {field.name: len(value)}  # what is counted, by name
        # Those of one machine, where no list of them is asked for.
        value = (" + " if field.name == "gpu" else ", ").join(map(_text, value))
    elif isinstance(value, dict) and field.kind == "counts":
        return {field.name: {_text(key): whole_number(field, one) for key, one in value.items()}}
    word = plain(_text(value))
    if field.kind != "boolean" and word in VALUES.get(field.name, ()):
        return dict(VALUES[field.name][word])
    match field.kind:
        case "boolean":
            return {field.name: _boolean(field, value)}
        case "integer":
            return {field.name: whole_number(field, value)}
        case "number":
            return {field.name: _number(field, value)}
        case "integers":
            numbers = _numbers(field, _text(value))
            return {field.name: [_whole(field, value, number) for number in numbers]}
        case "choice":
            return _choice(field, word, _text(value))
    if field.kind == "texts":
        return {field.name: _BETWEEN.sub(", ", _text(value))}
    return {field.name: _name(field, value)}


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(_of_object(key, one) for key, one in value.items() if one is not None)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _of_object(key: str, value: object) -> str:
    """Return a part of a name that is sent as an object: of a GPU its count and memory too."""
    meant, text = FIELDS.get(plain(key), ()), _text(value)
    if isinstance(value, int):
        text = f"x{text}" if "gpu_count" in meant else f"{text}GB" if GPU_MEMORY in meant else text
    return text


def _name(field: Field, value: object) -> str:
    """Return a text. A bare number is a GPU's memory, as in `vram: 24`."""
    text = _text(value)
    if field.name == "gpu" and re.fullmatch(r"\d{1,2}", text):
        return f"{text}GB"
    return text


def _boolean(field: Field, value: object) -> bool:
    word = _text(value).lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise InvalidRequestError(
        f"`{field.name}` is {word[:40]!r}.",
        hint="Send true or false.",
        field=field.name,
        code="invalid-value",
        send={field.name: True},
    )


def _choice(field: Field, word: str, text: str) -> dict[str, Read]:
    """Return the choice that a word means, or the one that the words of a text do; else the text,
    which the service refuses."""
    meant: dict[str, Mapping[str, Value]] = {
        plain(choice): {field.name: choice} for choice in field.choices
    } | dict(VALUES.get(field.name, {}))
    words = [word, *map(plain, re.split(r"[^\w-]+", text))]
    named = [meant[one] for one in words if one in meant]
    if word in meant or len({one.get(field.name) for one in named}) == 1:
        return {name: value for one in reversed(named) for name, value in one.items()}
    return {field.name: text}


def whole_number(field: Field, value: object) -> int:
    """Return the one whole number in a value. Raises InvalidRequestError where there is none."""
    return _whole(field, value, _number(field, value))


def _whole(field: Field, value: object, number: float) -> int:
    if not number.is_integer():
        raise _unreadable(field, value, round(number))
    return int(number)


def _number(field: Field, value: object) -> float:
    """Return the one number in a value, in the field's unit; of "2x8" the product."""
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise _unreadable(field, value, None)
    if isinstance(value, int | float):
        return _in_unit(field, float(value), "")
    text = _text(value)
    product = _PRODUCT.fullmatch(text)
    if product:
        return float(product[1]) * float(product[2])
    numbers = _numbers(field, text)
    if len(numbers) > 1:
        raise _unreadable(field, text, round(max(numbers)))
    return numbers[0]


def _numbers(field: Field, text: str) -> list[float]:
    """Return every number of a text, in the field's unit; else the one that is a word. Raises
    InvalidRequestError where there is none."""
    if len(text) > _LONGEST:
        raise _unreadable(field, text, None)
    numbers = [_in_unit(field, *_parts(match)) for match in _NUMBER.finditer(text)]
    if numbers and _NEGATIVE.match(text):
        numbers[0] = -numbers[0]
    if not numbers:
        words = re.findall(r"[a-z]+", text.lower())
        numbers = [float(_WORDS[word]) for word in words if word in _WORDS]
    if not numbers:
        raise _unreadable(field, text, None)
    return numbers


def _in_unit(field: Field, number: float, unit: str) -> float:
    """Return a number in the unit of its field: a share, GiB, seconds, tokens (k = 1,024) or a
    count."""
    if field.name.endswith(_SHARES):
        return number / 100 if unit == "%" or number > 1 else number
    if field.name.endswith("_gib"):
        return number * _GIB.get(unit[:1], 1.0)
    if unit in ("", "%"):
        return number
    if unit == "ms":
        return number / 1000
    written_out = unit in ("thousand", "million", "billion")
    thousand = 1024 if "length" in field.name and not written_out else 1000
    return number * float(thousand ** _POWERS[unit if written_out else unit[0]])


def _parts(match: re.Match[str]) -> tuple[float, str]:
    digits = match["digits"] or match["after"]
    return float(re.sub("[, _]", "", digits)), (match["unit"] or "").lower()


def _unreadable(field: Field, value: object, send: int | None) -> InvalidRequestError:
    return InvalidRequestError(
        f"`{field.name}` is {str(value)[:40]!r}, not one number.",
        hint="Send a number.",
        field=field.name,
        code="invalid-value",
        send=None if send is None else {field.name: send},
    )
