"""Health, and problems as RFC 9457 has them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType


class Health(Struct, kw_only=True):
    """Liveness of the process."""

    status: Annotated[Literal["ok"], Meta(description="Always ok.")]
    version: Annotated[str, Meta(description="Version of the service.")]


class Problem(Struct, kw_only=True):
    """An RFC 9457 problem: what is wrong, and in `hint` what to send instead."""

    type: Annotated[str, Meta(description="A URI of the kind of problem.")]
    code: Annotated[str, Meta(description="A stable code: docs/CODES.md lists all.")]
    title: Annotated[str, Meta(description="The kind of problem in words.")]
    status: Annotated[int, Meta(description="The HTTP status.")]
    detail: Annotated[str, Meta(description="What is wrong.")]
    hint: Annotated[str, Meta(description="What to send instead.")]
    matches: Annotated[list[str], Meta(description="Up to five close matches.")] = []
    field: Annotated[
        str | None, Meta(description="The field that is wrong; null where none is.")
    ] = None
    send: Annotated[
        dict[str, str | int | bool | None] | UnsetType,
        Meta(
            description="Fields to send instead, where some are known to work; null leaves one out."
        ),
    ] = UNSET
