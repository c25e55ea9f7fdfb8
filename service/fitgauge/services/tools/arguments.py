"""Turn the arguments of a tool call into the fields of a request, and say what was made of them.

Nothing is dropped silently: an argument sets a field, or is reported as ignored, or is refused."""

import re
from collections.abc import Mapping, ValuesView
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import Struct

from fitgauge.engine.training.workload import Method
from fitgauge.errors import InvalidRequestError
from fitgauge.refused_values import in_words
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.tools.aliases import FIELDS, VALUES, plain
from fitgauge.services.tools.faces import OPTIONS, Tool
from fitgauge.services.tools.pairs import pairs
from fitgauge.services.tools.reader import Reader, shown
from fitgauge.services.tools.values import fields_of, read
from fitgauge.services.training_fit.launchers.registry import tools_by_word

_TASK = fields_of(RecommendRequest)["task"]
_MOST = 60
"""Arguments of a call."""

_DEEPEST = 12
"""Levels of objects and lists in arguments."""


class Arguments(NamedTuple):
    """The arguments of a call, read."""

    request: Struct
    """What the service takes."""
    fields: dict[str, Any]
    """The fields they set."""
    notes: list[str]
    """What was understood otherwise than written, or ignored."""
    options: str
    """The text of `options`, read: each key the field's own name."""
    keys: dict[str, str]
    """Names beyond the face under which fields were sent."""


def parse(tool: Tool, sent: Mapping[str, Any]) -> Arguments:
    """Return the request that arguments make. Raises InvalidRequestError for an unknown option, a
    value that cannot be read, and one that is out of bounds."""
    if len(sent) > _MOST:
        raise InvalidRequestError(
            f"{len(sent)} arguments are too many.",
            hint=f"Send at most {_MOST}.",
            code="invalid-value",
        )
    if _is_deep(sent):
        raise InvalidRequestError(
            "The arguments are nested too deeply.", hint="Send them flat.", code="invalid-value"
        )
    reader = Reader(tool)
    options = sent.get(OPTIONS)
    face = {parameter.name for parameter in tool.parameters}
    reader.take({key: value for key, value in sent.items() if key in face})
    if options is not None:
        reader.take_options(dict(pairs(options, reader.is_name)))
    reader.take({key: value for key, value in sent.items() if key not in {*face, OPTIONS}})
    reader.finish()
    missing = [name for name in tool.required if name not in reader.fields]
    if missing:
        raise InvalidRequestError(
            f"`{missing[0]}` is missing.",
            hint=f"Send {missing[0]}.",
            field=missing[0],
            code="missing-field",
            send={name: tool.example[name] for name in missing if name in tool.example},
        )
    pairs_read = ", ".join(f"{name}={shown(value)}" for name, value in reader.options.items())
    return Arguments(
        _request(tool, reader.fields), reader.fields, reader.notes, pairs_read, reader.keys
    )


def _is_deep(value: object, levels: int = _DEEPEST) -> bool:
    """Return whether a value holds more levels than `levels`."""
    inner = value.values() if isinstance(value, Mapping) else value
    if not isinstance(inner, list | ValuesView):
        return False
    return levels == 0 or any(_is_deep(one, levels - 1) for one in inner)


def training_named(tool: Tool, sent: Mapping[str, Any]) -> str | None:
    """Return the argument to a tool of serving that names a training: its task, method or tool."""
    accepted = fields_of(tool.request)
    texts = {key: value for key, value in sent.items() if isinstance(value, str)}
    for key, value in texts.items() if tool.training else ():
        names, word = FIELDS.get(plain(key), [plain(key)]), plain(value)
        if not accepted.keys().isdisjoint((key, *names)):
            continue
        meant: Mapping[str, object] = VALUES.get(names[0], {}).get(word, {names[0]: word})
        if names[0] == _TASK.name:
            meant = read(_TASK, value)
        if (
            meant.get("task") == "training"
            or meant.get("method") in get_args(Method)
            or (names[0] == "trainer" and word in tools_by_word())
        ):
            return f"{key}={shown(value)}"
    return None


def _request(tool: Tool, fields: dict[str, Any]) -> Struct:
    """Return the request. Raises InvalidRequestError for a value out of bounds."""
    try:
        return msgspec.convert(fields, tool.request)
    except msgspec.ValidationError as error:
        message = str(error)
        named = re.search(r"at `\$\.(\w+)|required field `(\w+)`", message)
        name = (named[1] or named[2]) if named else None
        field = fields_of(tool.request)[name] if name else None
        description = field.description if field else ""
        choices = f"One of: {', '.join(field.choices)}." if field and field.choices else ""
        raise InvalidRequestError(
            f"{in_words(message.partition(' - at ')[0], f'`{name}`')}."
            f" {str(fields.get(name or '', ''))[:40]!r} was sent."
            if name in fields
            else f"`{name}` is missing.",
            hint=" ".join(filter(None, (description, choices))) or "See /tools/openapi.json.",
            field=name,
            code="invalid-value" if name in fields else "missing-field",
        ) from None
