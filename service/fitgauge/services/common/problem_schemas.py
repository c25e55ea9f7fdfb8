"""Health, and problems as RFC 9457 has them."""

from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType

from fitgauge.field_docs import doc


class Health(Struct, kw_only=True):
    """Liveness of the process."""

    status: Annotated[Literal["ok"], doc("Always ok.")]
    version: Annotated[str, doc("Version of the service.")]


class Problem(Struct, kw_only=True):
    """An RFC 9457 problem: what is wrong, and in `hint` what to send instead."""

    type: Annotated[str, doc("A URI of the kind of problem.")]
    code: Annotated[str, doc("A stable code: docs/CODES.md lists all.")]
    title: Annotated[str, doc("The kind of problem in words.")]
    status: Annotated[int, doc("The HTTP status.")]
    detail: Annotated[str, doc("What is wrong.")]
    hint: Annotated[str, doc("What to send instead.")]
    matches: Annotated[list[str], doc("Up to five close matches.")] = []
    field: Annotated[str | None, doc("The field that is wrong; null where none is.")] = None
    send: Annotated[
        dict[str, str | int | bool | None] | UnsetType,
        doc("Fields to send instead, where some are known to work; null leaves one out."),
    ] = UNSET
