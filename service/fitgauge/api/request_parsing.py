"""Reads what a stranger sends, strictly: its type, its JSON, its bounds."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException

from fitgauge.api.problems import RequestError

Body = TypeVar("Body")

_AT_FIELD = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")
_NAMED = re.compile(r"(?P<what>missing required|contains unknown) field `(?P<field>[^`]*)`")
_OF_TEXT = re.compile(r"Expected `(?P<type>int|float|bool)[^`]*`, got `str`")
_FORM = "application/x-www-form-urlencoded"
_LONGEST_NUMBER = 20


class BodyReader(Generic[Body]):
    """Decodes application/json bodies into one struct, without guessing: a number sent as text
    is refused with the value to send."""

    def __init__(self, kind: type[Body], example: Mapping[str, str | int]) -> None:
        """example: what to send at least, for hints."""
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._needed = tuple(example)
        self._example = msgspec.json.format(msgspec.json.encode(example), indent=0).decode()
        schema = msgspec.json.schema_components([kind])[1][kind.__name__]
        self._described = {
            name: " ".join([*_values(field), field["description"]])
            for name, field in schema["properties"].items()
        }

    async def read(self, request: Request[Any, Any, Any], most: int | None = None) -> bytes:
        """Return the raw body. Raises Refusal 415 unless it is declared application/json; a body
        beyond the limit is a 413 of the framework.

        `curl -d '{...}'` declares a form: an object under that name is taken for the JSON it is.
        `most`: bytes of a question where the operation takes larger files too."""
        pieces, size = [], 0
        async for chunk in chunks(request):
            pieces.append(chunk)
            size += len(chunk)
            if most is not None and size > most:
                raise RequestError(
                    413,
                    "body-too-large",
                    f"A question is at most {most} bytes.",
                    "Send less, or a file as application/gzip.",
                )
        raw, declared, kind = (
            b"".join(pieces),
            request.headers.get("content-type", ""),
            media_type(request),
        )
        if kind != "application/json" and not (kind == _FORM and raw.lstrip().startswith(b"{")):
            named = (
                f"Content-Type {declared[:80]!r} is not understood."
                if declared
                else "The request has no Content-Type."
            )
            raise RequestError(
                415, "unsupported-media-type", named, "Send Content-Type: application/json."
            )
        return raw

    async def question(self, request: Request[Any, Any, Any], most: int | None = None) -> Body:
        """Return the body as the struct it means. See `read` and `decode`, also for what they
        raise."""
        return self.decode(await self.read(request, most))

    def decode(self, raw: bytes) -> Body:
        """Return the struct. Raises Refusal 400 for what is no JSON, 422 for JSON that is no
        such question."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            whole = _with_whole_numbers(raw)
            try:
                return msgspec.convert(whole, self._kind)
            except msgspec.ValidationError:
                raise self._invalid(str(error), whole) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _no_json(error, f"Send an object such as {self._example}.") from None
        except RecursionError:
            raise _too_deep() from None

    def _invalid(self, message: str, sent: object) -> RequestError:
        """Return the 422 for a message of msgspec, with the field, what to send for it, and
        names that a misspelt one may mean."""
        named, at = _NAMED.search(message), _AT_FIELD.search(message)
        found = named or at
        field = found["field"].partition("[")[0][:80] if found else None
        detail = (
            _AT_FIELD.sub("", message)
            .replace("Object missing", "The question lacks the")
            .replace("Object", "The question")[:200]
            + "."
        )
        matches: tuple[str, ...] = ()
        if field is None:
            hint = f"Send an object such as {self._example}."
        elif named and named["what"] == "contains unknown":
            matches = tuple(get_close_matches(field, self._described, n=3))
            hint = (
                f"Check its spelling, or leave it out. The fields are {', '.join(self._described)}."
            )
        elif named and field in self._needed:
            hint = f"Send {field} as in {self._example}."
        else:
            hint = _unquoted(field, message, sent) or self._described.get(
                field, f"Send an object such as {self._example}."
            )
        return RequestError(422, "invalid-request", detail, hint, field=field, matches=matches)


def _values(field: dict[str, Any]) -> Iterator[str]:
    """Yield what a field takes, as a sentence, where it is a number within bounds or one of a
    few words. `field`: its JSON schema."""
    for kind in field.get("anyOf", [field]):
        if "enum" in kind:
            *most, last = sorted(map(str, kind["enum"]))
            yield f"Send {', '.join(most)} or {last}."
        elif kind.get("type") in ("integer", "number"):
            number = "a whole number" if kind["type"] == "integer" else "a number"
            least = (
                f"from {kind['minimum']:.10g}"
                if "minimum" in kind
                else f"above {kind['exclusiveMinimum']:.10g}"
            )
            yield f"Send {number} {least} to {kind['maximum']:.10g}."


def media_type(request: Request[Any, Any, Any]) -> str:
    """Return what the body is declared to be, without parameters."""
    return str(request.headers.get("content-type", "")).partition(";")[0].strip().lower()


async def chunks(request: Request[Any, Any, Any]) -> AsyncIterator[bytes]:
    """Yield the body as it comes in. Raises Refusal 400 where the caller hung up; a body beyond
    the limit is a 413 of the framework."""
    try:
        async for chunk in request.stream():
            yield chunk
    except InternalServerException:  # how the framework says that the caller hung up
        raise RequestError(
            400, "incomplete-body", "The body ended before it was complete.", "Send all of it."
        ) from None


def _with_whole_numbers(raw: bytes) -> object:
    """Return the JSON with 4.0 as 4 in its fields: JSON does not tell them apart. Raises Refusal
    400 for what is no JSON after all."""
    try:
        sent = msgspec.json.decode(raw)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.ValidationError:  # a number beyond any that is known
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_json(error, "Send a flat object.") from None
    if not isinstance(sent, dict):
        return sent
    return {
        name: [*map(_whole, value)] if isinstance(value, list) else _whole(value)
        for name, value in sent.items()
    }


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _no_json(error: Exception, hint: str) -> RequestError:
    return RequestError(400, "malformed-json", f"The body is not JSON: {str(error)[:160]}.", hint)


def _too_deep() -> RequestError:
    return RequestError(
        400, "malformed-json", "The JSON is nested too deeply.", "Send a flat object."
    )


def _unquoted(field: str, message: str, sent: object) -> str | None:
    """Return the hint for a number or a boolean sent as text: the value to send, where the text
    holds one. None for other faults."""
    wanted = _OF_TEXT.search(message)
    if wanted is None or not isinstance(sent, dict):
        return None
    if wanted["type"] == "bool":
        return f"Send true or false without quotes, or leave {field} out."
    text = str(sent.get(field)).strip().replace(",", "").replace("_", "")
    try:
        number = (
            msgspec.json.decode(text, type=int | float) if len(text) <= _LONGEST_NUMBER else None
        )
    except (msgspec.MsgspecError, UnicodeError):
        number = None
    if number is None:
        return "Send a JSON number, without quotes."
    plain = int(number) if number == int(number) else number
    return f'Send a JSON number: "{field}": {plain}.'


def integer_query(
    request: Request[Any, Any, Any], name: str, default: int, low: int, high: int
) -> int:
    """Return an integer query parameter in [low, high]. Raises Refusal 422."""
    values = request.query_params.getall(name, [])
    if not values:
        return default
    if (
        len(values) == 1
        and re.fullmatch(r"[0-9]{1,9}", values[0], re.ASCII)
        and low <= int(values[0]) <= high
    ):
        return int(values[0])
    detail = f"{name} is {str(values[0])[:40]!r}, not an integer from {low} to {high}."
    if len(values) > 1:
        detail = f"{name} is there {len(values)} times."
    raise RequestError(422, "invalid-request", detail, f"Send {name}={default}.", field=name)


def only_query(request: Request[Any, Any, Any], *names: str) -> None:
    """Refuse query parameters that are not known, so that a misspelt one is not silently
    ignored. Raises Refusal 422."""
    for name in request.query_params:
        if name not in names:
            known = f"Known here: {', '.join(names)}." if names else "None is known here."
            matches = tuple(get_close_matches(name[:40], names, n=1))
            detail = f"The query parameter {name[:40]!r} is not known."
            raise RequestError(
                422, "invalid-request", detail, known, field=name[:40], matches=matches
            )
