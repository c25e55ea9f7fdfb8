"""Strict parsing of request bodies: media type, JSON, types and bounds."""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException

from fitgauge.api.problems import RequestError
from fitgauge.refused_values import in_words

Body = TypeVar("Body")

_AT_FIELD = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")
_NAMED = re.compile(r"(?P<what>missing required|contains unknown) field `(?P<field>[^`]*)`")
_OF_TEXT = re.compile(r"Expected `(?P<type>int|float|bool)[^`]*`, got `str`")
_OBJECTS = {"Object missing": "Missing", "Object contains unknown": "Unknown"}
_FORM = "application/x-www-form-urlencoded"
_LONGEST_NUMBER = 20


class BodyDecoder(Generic[Body]):
    """Decode JSON into one struct, strictly: refuse a number sent as text, with the value to send.

    Litestar itself would convert leniently. A handler names its decoder as `opt["body"]`.
    """

    def __init__(
        self, kind: type[Body], example: Mapping[str, str | int], largest: int | None = None
    ) -> None:
        """Build a decoder. example: the least to send, for hints; largest: bytes of a body,
        where the handler takes larger files too."""
        self.largest = largest
        self.kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._needed = tuple(example)
        self._example = msgspec.json.format(msgspec.json.encode(example), indent=0).decode()
        schema = msgspec.json.schema_components([kind])[1][kind.__name__]
        self._described = {
            name: " ".join([*_values(field), field["description"]])
            for name, field in schema["properties"].items()
        }

    def __deepcopy__(self, _: object) -> "BodyDecoder[Body]":
        """Return itself: Litestar copies a controller's handlers with their `opt`."""
        return self

    def decode(self, raw: bytes) -> Body:
        """Return the struct. Raises RequestError 400 where it is not JSON, 422 where it does not
        match the struct."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            whole = _with_whole_numbers(raw)
            try:
                return msgspec.convert(whole, self.kind)
            except msgspec.ValidationError:
                raise self._invalid(str(error), whole) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _no_json(error, f"Send an object such as {self._example}.") from None
        except RecursionError:
            raise _too_deep() from None

    def _invalid(self, message: str, sent: object) -> RequestError:
        """Return the 422 for a message of msgspec: the field, what to send, and near matches of a
        misspelt name."""
        named, at = _NAMED.search(message), _AT_FIELD.search(message)
        match = named or at
        field = match["field"].partition("[")[0][:80] if match else None
        problem = _AT_FIELD.sub("", message)
        if at is not None:
            problem = in_words(problem, f"`{field}`" if field else "The body")
        for theirs, ours in _OBJECTS.items():
            problem = problem.replace(theirs, ours)
        detail = f"{problem[:200]}."
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
    """Yield a sentence on the values of a field, where it is a bounded number or an enum. field:
    its JSON schema."""
    for kind in field.get("anyOf", [field]):
        if "enum" in kind:
            *most, last = sorted(map(str, kind["enum"]))
            yield f"Send {', '.join(most)} or {last}."
        elif kind.get("type") in ("integer", "number"):
            number = "a whole number" if kind["type"] == "integer" else "a number"
            if "minimum" in kind:
                least = f"from {kind['minimum']:.10g}"
            else:
                least = f"above {kind['exclusiveMinimum']:.10g}"
            yield f"Send {number} {least} to {kind['maximum']:.10g}."


def _with_whole_numbers(raw: bytes) -> object:
    """Return the JSON with 4.0 as 4 in its fields: JSON does not distinguish them. Raises
    RequestError 400 where it is not JSON."""
    try:
        sent = msgspec.json.decode(raw)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.ValidationError:  # a number out of range
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_json(error, "Send a flat object.") from None
    if not isinstance(sent, dict):
        return sent
    return {name: _whole_numbers(value) for name, value in sent.items()}


def _whole_numbers(value: object) -> object:
    """Return the value of a field, 4.0 in it as 4."""
    if isinstance(value, list):
        return [*map(_whole, value)]
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return _whole(value)


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _no_json(error: Exception, hint: str) -> RequestError:
    return RequestError(400, "malformed-json", f"The body is not JSON: {str(error)[:160]}.", hint)


def _too_deep() -> RequestError:
    return RequestError(
        400, "malformed-json", "The JSON is nested too deeply.", "Send a flat object."
    )


def _unquoted(field: str, message: str, sent: object) -> str | None:
    """Return the hint for a number or a boolean sent as text, with the value to send where the
    text contains one. None for other errors."""
    expected = _OF_TEXT.search(message)
    if expected is None or not isinstance(sent, dict):
        return None
    if expected["type"] == "bool":
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


class ApiRequest(Request[Any, Any, Any]):
    """A request whose JSON body is decoded strictly, by the decoder that its handler declares.

    Litestar calls `body` and `json` before a handler with a `data` argument.
    """

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the body in chunks. Raises RequestError 400 where the caller disconnects, 413
        beyond the decoder's limit; Litestar raises 413 beyond the handler's."""
        largest, size = None if self._is_upload() else self._decoder.largest, 0
        try:
            async for chunk in super().stream():
                size += len(chunk)
                if largest is not None and size > largest:
                    raise RequestError(
                        413,
                        "body-too-large",
                        f"A question is at most {largest} bytes.",
                        "Send less, or a file as application/gzip.",
                    )
                yield chunk
        except InternalServerException:  # Litestar's error where the caller disconnects
            raise RequestError(
                400, "incomplete-body", "The body ended before it was complete.", "Send all of it."
            ) from None

    async def body(self) -> bytes:
        """Return the body, read whole. Empty for an upload, which the handler reads by `stream`."""
        if self._is_upload():
            return b""
        raw = await super().body()
        if not raw:
            await self.json()  # Litestar takes an empty body for a missing argument: refuse it
        return raw

    async def json(self) -> Any:  # noqa: ANN401 - what the handler's decoder makes
        """Return the body as the handler's struct. Raises RequestError 400, 415 or 422."""
        return self._decoder.decode(await self.question())

    async def question(self) -> bytes:
        """Return the body, declared as JSON. Raises RequestError 415 where it is not.

        `curl -d '{...}'` declares a form: accept an object under that media type as JSON.
        """
        raw, media_type = await super().body(), self._media_type()
        if media_type == "application/json" or (
            media_type == _FORM and raw.lstrip().startswith(b"{")
        ):
            return raw
        declared = str(self.headers.get("content-type", ""))
        detail = "The request has no Content-Type."
        if declared:
            detail = f"Content-Type {declared[:80]!r} is not supported."
        raise RequestError(
            415, "unsupported-media-type", detail, "Send Content-Type: application/json."
        )

    @property
    def _decoder(self) -> BodyDecoder[Any]:
        decoder: BodyDecoder[Any] = self.route_handler.opt["body"]
        return decoder

    def _media_type(self) -> str:
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    def _is_upload(self) -> bool:
        uploads = self.route_handler.opt.get("uploads")
        return uploads is not None and self._media_type() in uploads
