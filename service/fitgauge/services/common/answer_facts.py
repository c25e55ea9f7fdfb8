"""What every answer says of itself: how old its facts are, and where to ask it again."""

from typing import Annotated, Any

from msgspec import Struct, UnsetType

from fitgauge.field_docs import doc


class AsOf(Struct, frozen=True):
    """How old the facts behind an answer are."""

    catalog: Annotated[str | None, doc("The newest price of the catalog, YYYY-MM-DD; null: none.")]
    snapshot: Annotated[str, doc("The newest of the bundled models, YYYY-MM-DD; others: the Hub.")]
    engines: Annotated[dict[str, str], doc("Release of each serving engine that was judged.")]


AnswerAsOf = Annotated[AsOf | UnsetType, doc("How old the facts of the answer are.")]

AnswerId = Annotated[
    str | UnsetType,
    doc(
        "GET /v1/answers/{answer_id} answers the same question again. Absent where a question"
        " is too long for a link."
    ),
]


class AnswerAgain(Struct, frozen=True):
    """A question that a permalink holds, and its answer as of now."""

    operation: Annotated[str, doc("Whose answer it is, such as check_fit.")]
    request: Annotated[dict[str, Any], doc("The question, without what it left out.")]
    answer: Annotated[dict[str, Any], doc("The answer of `operation`.")]
