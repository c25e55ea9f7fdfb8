"""Tables of models and GPUs."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from litestar import Controller, Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Struct

from fitgauge.api.callers import while_connected
from fitgauge.api.documentation import BODY_ERRORS, MODEL_ERRORS, errors
from fitgauge.api.media_types import NDJSON
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services import Services
from fitgauge.services.compare.schemas import (
    MOST_AT_ONCE,
    CompareAnswer,
    CompareRequest,
    CompareRow,
)


class CompareController(Controller):
    """Tables of models and GPUs."""

    @post(
        "/v1/compare",
        operation_id="compare_fit",
        status_code=200,
        summary="Which of these models fit on which of these GPUs?",
        description=(
            "A table of models, GPUs, engines, formats, contexts and concurrencies with a verdict"
            " and the bytes of every cell. Up to 1,000 cells come as JSON, up to 10,000 as NDJSON"
            " (application/x-ndjson), row by row."
        ),
        responses=errors(*BODY_ERRORS, *MODEL_ERRORS, 503),
        opt={
            "body": BodyDecoder(
                CompareRequest, {"models": "Qwen/Qwen3-32B", "gpus": "RTX 4090, H100"}
            ),
            "examples": {
                "models on one machine": {
                    "models": "Qwen/Qwen3-32B, Qwen/Qwen3-8B, 70b",
                    "gpus": "2x L40S",
                    "context_lengths": 32768,
                },
                "formats on two GPUs": {
                    "models": "Qwen/Qwen3-32B",
                    "gpus": "RTX 4090, H100",
                    "quantizations": "as published, fp8, awq",
                },
            },
            "weight": 20,
            "row": CompareRow,
        },
    )
    async def compare_fit(
        self,
        data: JSONBody[CompareRequest],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> Response[CompareAnswer]:
        """Answer a small table as JSON and a large one as NDJSON."""
        return await while_connected(request, _table(services, data))


async def _table(services: Services, question: CompareRequest) -> Response[CompareAnswer]:
    comparison = await services.compare_fit(question)
    rows = services.rows(comparison)
    if comparison.total <= MOST_AT_ONCE:
        items = [row async for some in rows for row in some]
        return Response(CompareAnswer(items=items, total=comparison.total))
    first = await anext(rows)  # a full queue is refused before the answer begins
    return Stream(_ndjson(first, rows), media_type=NDJSON)  # type: ignore[return-value]


_encode_lines = msgspec.json.Encoder().encode_lines


async def _ndjson(
    first: Sequence[Struct], rest: AsyncIterator[Sequence[Struct]]
) -> AsyncIterator[bytes]:
    """Yield the rows as lines of JSON."""
    yield _encode_lines(first)
    async for some in rest:
        yield _encode_lines(some)
