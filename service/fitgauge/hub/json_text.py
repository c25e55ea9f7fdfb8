"""What the Hub sends as JSON: how much one text may hold, and what is wrong with one."""

from typing import TypeVar

import msgspec

from fitgauge.errors import HubUnreachableError, MalformedModelError

MAX_VALUES = 100_000
"""values of one JSON text. Parsed, each takes up to some 250 bytes, a hundred times what it
takes as text."""
_Decoded = TypeVar("_Decoded")


def refuse_too_many_values(body: bytes, name: str) -> None:
    """Raise MalformedModelError where a JSON text may hold more than MAX_VALUES values."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise MalformedModelError(f"{name} has more than {MAX_VALUES:,} values.")


def decoded(decoder: "msgspec.json.Decoder[_Decoded]", body: bytes, name: str) -> _Decoded:
    """Return what the Hub says. name: of the answer, as the start of a sentence.

    Raises HubUnreachableError where it is no JSON (a portal speaks), MalformedModelError where it
    has too many values or is nothing of its kind."""
    refuse_too_many_values(body, name)
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise MalformedModelError(f"{name} cannot be read: {str(error)[:120]}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HubUnreachableError(
            "HF_ENDPOINT did not return JSON; is it a Hugging Face Hub?",
            hint="Check HF_ENDPOINT and the proxy.",
        ) from None
