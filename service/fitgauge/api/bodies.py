"""Reads what a stranger sends, strictly: its type, its JSON, its bounds."""

import re
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Request

from fitgauge.api.problems import Refusal

Body = TypeVar("Body")

_AT_FIELD = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")
_FORM = "application/x-www-form-urlencoded"
_WANTED_NUMBER = re.compile(r"Expected `(?:int|float)[^`]*`, got `str`")


class BodyReader(Generic[Body]):
    """Decodes application/json bodies into one struct, without guessing: a number sent as text is refused with the value to send."""

    def __init__(self, kind: type[Body]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    async def read(self, request: Request[Any, Any, Any]) -> bytes:
        """The raw body. Raises Refusal 415 unless it is declared application/json; a body beyond the limit is a 413 of the framework.

        `curl -d '{...}'` declares a form: an object under that name is taken for the JSON it is.
        """
        raw = await request.body()
        declared = request.headers.get("content-type", "")
        kind = declared.partition(";")[0].strip().lower()
        if kind != "application/json" and not (kind == _FORM and raw.lstrip().startswith(b"{")):
            named = f"Content-Type {declared[:80]!r} is not understood." if declared else "The request has no Content-Type."
            raise Refusal(415, "unsupported-media-type", named, "Send Content-Type: application/json.")
        return raw

    def decode(self, raw: bytes) -> Body:
        """The struct. Raises Refusal 400 for what is no JSON, 422 for JSON that is no such question."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            raise _invalid(str(error), raw) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            detail = f"The body is not JSON: {str(error)[:160]}."
            raise Refusal(400, "malformed-json", detail, 'Send an object such as {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"}.') from None
        except RecursionError:
            raise Refusal(400, "malformed-json", "The JSON is nested too deeply.", "Send a flat object.") from None


def _invalid(message: str, raw: bytes) -> Refusal:
    """The 422 for a message of msgspec, with the field and, for a number sent as text, the number."""
    match = _AT_FIELD.search(message)
    field = match["field"] if match else None
    detail = _AT_FIELD.sub("", message).replace("Object", "The question")[:200]
    hint = "See FitRequest in /schema/openapi.json."
    if field and _WANTED_NUMBER.search(message):
        number = _number_in(raw, field)
        hint = f'Send a JSON number: "{field}": {number}.' if number else "Send a JSON number, without quotes."
    elif "unknown field" in message:
        hint = "Leave it out, or check its spelling against FitRequest in /schema/openapi.json."
    elif "missing required field" in message:
        hint = 'Send at least "model" and "gpu".'
    return Refusal(422, "invalid-request", detail + ".", hint, field=field)


def _number_in(raw: bytes, field: str) -> str | None:
    """The number that the text at `field` holds, as JSON writes it."""
    try:
        text = msgspec.json.decode(raw)[field]
        return msgspec.json.encode(msgspec.json.decode(str(text).strip().replace(",", "").replace("_", ""), type=int | float)).decode()
    except (msgspec.MsgspecError, LookupError, TypeError, UnicodeError):
        return None


def integer_query(request: Request[Any, Any, Any], name: str, default: int, low: int, high: int) -> int:
    """An integer query parameter in [low, high]. Raises Refusal 422."""
    values = request.query_params.getall(name, [])
    if not values:
        return default
    if len(values) == 1 and re.fullmatch(r"[0-9]{1,9}", values[0], re.ASCII) and low <= int(values[0]) <= high:
        return int(values[0])
    detail = f"{name} is {str(values[0])[:40]!r}, not an integer from {low} to {high}."
    raise Refusal(422, "invalid-request", detail, f"Send {name}={default}.", field=name)


def only_query(request: Request[Any, Any, Any], *names: str) -> None:
    """Refuses query parameters that are not known, so that a misspelt one is not silently ignored. Raises Refusal 422."""
    for name in request.query_params:
        if name not in names:
            known = ", ".join(names) or "none"
            raise Refusal(
                422, "invalid-request", f"The query parameter {name[:40]!r} is not known.", f"Known here: {known}.", field=name[:40]
            )
