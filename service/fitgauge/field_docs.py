"""How a field says what it is, for the OpenAPI document and the tools of agents."""

from typing import Any

from msgspec import Meta


def doc(description: str, **bounds: Any) -> Meta:  # noqa: ANN401 - as msgspec.Meta has them
    """Return the annotation of a field with its description, and `bounds` such as ge and le."""
    return Meta(description=description, **bounds)
