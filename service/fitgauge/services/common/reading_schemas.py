"""Schemas of how the names in a request were read."""

from typing import Annotated, Literal

from msgspec import Struct

from fitgauge.field_docs import doc

Verdict = Literal["fits", "tight", "does_not_fit", "unsupported"]


class Reading(Struct, frozen=True, kw_only=True):
    """How a field was read that does not name one thing for certain."""

    field: Annotated[str, doc("The field of the request.")]
    sent: Annotated[str, doc("What it holds.")]
    taken: Annotated[str, doc("What the answer is of.")]
    others: Annotated[list[str], doc("What the field may mean as well.")] = []
    rule: Annotated[
        str | None, doc("Why `taken` stands for it, where its own config is not known.")
    ] = None
    changes_verdict: Annotated[
        bool | None, doc("Whether one of the others has another verdict; null: not estimated.")
    ] = None
    verdicts: Annotated[dict[str, Verdict], doc("Verdicts of the others that were estimated.")] = {}
