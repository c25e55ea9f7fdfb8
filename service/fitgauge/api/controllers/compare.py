"""Tables of models and GPUs."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from litestar import Controller, MediaType, Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Struct

from fitgauge.api.callers import while_connected
from fitgauge.api.documentation import BODY_ERRORS, MODEL_ERRORS, errors
from fitgauge.api.media_types import NDJSON
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow
from fitgauge.services.facade import Services


class CompareController(Controller):
    """Tables of models and GPUs."""

    @post(
        "/v1/compare",
        operation_id="compare_fit",
        status_code=200,
        summary="Which of these models fit on which of these GPUs?",
        description=(
            "A table with verdict and bytes of every cell, by pages; with Accept:"
            " application/x-ndjson all rows."
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
        """Answer a page as JSON, or all rows as NDJSON."""
        answer = _lines if _wants_lines(request) else _page
        return await while_connected(request, answer(services, data))


def _wants_lines(request: ApiRequest) -> bool:
    """Return whether the caller accepts NDJSON and not JSON."""
    accepted = str(request.headers.get("accept", "")).lower()
    return NDJSON in accepted and MediaType.JSON.value not in accepted


async def _page(services: Services, question: CompareRequest) -> Response[CompareAnswer]:
    return Response(await services.compare_page(question))


async def _lines(services: Services, question: CompareRequest) -> Response[CompareAnswer]:
    rows = services.rows(await services.compare_fit(question))
    # A full queue is refused before the answer begins; beyond the last row there is nothing.
    none: list[CompareRow] = []
    first = await anext(rows, none)
    return Stream(_ndjson(first, rows), media_type=NDJSON)  # type: ignore[return-value]


_encode_lines = msgspec.json.Encoder().encode_lines


async def _ndjson(
    first: Sequence[Struct], rest: AsyncIterator[Sequence[Struct]]
) -> AsyncIterator[bytes]:
    """Yield the rows as lines of JSON."""
    yield _encode_lines(first)
    async for some in rest:
        yield _encode_lines(some)
