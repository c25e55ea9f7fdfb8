"""The handlers: read, ask, encode."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec
from litestar import HttpMethod, MediaType, Request, Response, get, route
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from msgspec import Struct

from fitgauge import __version__
from fitgauge.api.callers import while_connected
from fitgauge.api.operations import NDJSON, OPERATIONS, UPLOADS
from fitgauge.api.request_parsing import (
    Body,
    BodyReader,
    chunks,
    integer_query,
    media_type,
    only_query,
)
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.services import CacheDependencies, Services
from fitgauge.services.common.catalog_status import Readiness, catalog_state, standing
from fitgauge.services.common.schemas import FitRequest, Health
from fitgauge.services.compare.schemas import MOST_AT_ONCE, CompareAnswer, CompareRequest
from fitgauge.services.explain_log.schemas import ExplainLogRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from fitgauge.services.utilization.schemas import UtilizationRequest

Anything = Request[Any, Any, Any]

LARGEST_QUESTION = 64 * 1024
"""bytes of a question where the operation takes files that are larger"""

_lines = msgspec.json.Encoder().encode_lines
_fit = BodyReader(FitRequest, {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"})
_training = BodyReader(TrainingRequest, {"model": "meta-llama/Llama-3.1-8B", "gpu": "A100 80GB"})
_compare = BodyReader(CompareRequest, {"models": "Qwen/Qwen3-32B", "gpus": "RTX 4090, H100"})
_models_for_gpu = BodyReader(ModelsForGpuRequest, {"gpu": "RTX 3090"})
_recommend = BodyReader(RecommendRequest, {"model": "Qwen/Qwen3-32B"})
_log = BodyReader(
    ExplainLogRequest,
    {"log": "Model loading took 14.99 GiB", "model": "Qwen/Qwen3-32B", "gpu": "H100"},
)
_plan = BodyReader(TrainingPlanRequest, {"model": "meta-llama/Llama-3.1-8B", "gpu": "H100"})
_utilization = BodyReader(UtilizationRequest, {"gpu": "A100 80GB", "achieved_tflops": 100})
_HEALTHY = msgspec.json.encode(Health(status="ok", version=__version__))


async def _ndjson(
    first: Sequence[Struct], rest: AsyncIterator[Sequence[Struct]]
) -> AsyncIterator[bytes]:
    """Yield the rows as lines of JSON."""
    yield _lines(first)
    async for some in rest:
        yield _lines(some)


def json_response(body: bytes) -> Response[bytes]:
    """Encoded JSON on the wire."""
    return Response(body, media_type=MediaType.JSON, status_code=200)


def encoded(answer: Struct) -> Response[bytes]:
    """Return an answer on the wire."""
    return json_response(msgspec.json.encode(answer))


def served(answer: Callable[..., Awaitable[Response[Any]]]) -> HTTPRouteHandler:
    """Return the handler of the operation that is called like the function."""
    operation = next(operation for operation in OPERATIONS if operation.id == answer.__name__)
    path, method = re.sub(r"{(\w+)}", r"{\1:str}", operation.path), HttpMethod(operation.method)
    if operation.body_bytes is None:
        return route(path, http_method=method)(answer)
    return route(path, http_method=method, request_max_body_size=operation.body_bytes)(answer)


def handlers(
    questions: Services, mounted: OverlayReload | None, openapi: bytes
) -> list[HTTPRouteHandler]:
    """Return the handlers of every operation, bound to the questions they ask. mounted: the own
    catalog; openapi: the encoded document."""

    async def remembered(
        reader: BodyReader[Body],
        ask: Callable[[Body], Coroutine[Any, Any, tuple[CacheDependencies, Struct]]],
        request: Anything,
        *,
        long: bool = False,
    ) -> Response[bytes]:
        """Return the answer to `ask`, from before where it was asked the very same and all that the
        answer rests on still holds.

        long: whether `ask` takes so long that it is cancelled when the caller has gone.
        """
        raw = await reader.read(request)
        key = ask.__name__, raw
        known = questions.recall(key)
        if known is None:
            asked = ask(reader.decode(raw))
            grounds, answer = await (while_connected(request, asked) if long else asked)
            known = questions.remember(key, grounds, msgspec.json.encode(answer))
        return json_response(known)

    @served
    async def check_fit(request: Anything) -> Response[bytes]:
        return await remembered(_fit, questions.check_fit, request)

    @served
    async def check_training_fit(request: Anything) -> Response[bytes]:
        return await remembered(_training, questions.check_training_fit, request, long=True)

    @served
    async def plan_training(request: Anything) -> Response[bytes]:
        return await remembered(_plan, questions.plan_training, request, long=True)

    @served
    async def recommend_gpus(request: Anything) -> Response[bytes]:
        asked = await _recommend.question(request)
        return encoded(await while_connected(request, questions.recommend_gpus(asked)))

    @served
    async def list_models_that_fit(request: Anything) -> Response[bytes]:
        asked = await _models_for_gpu.question(request)
        return encoded(await while_connected(request, questions.list_models_that_fit(asked)))

    @served
    async def compare_fit(request: Anything) -> Response[Any]:
        asked = await _compare.question(request)
        return await while_connected(request, compared(asked))

    async def compared(asked: CompareRequest) -> Response[Any]:
        comparison = await questions.compare_fit(asked)
        rows = questions.rows(comparison)
        if comparison.total <= MOST_AT_ONCE:
            items = [row async for some in rows for row in some]
            return encoded(CompareAnswer(items=items, total=comparison.total))
        first = await anext(rows)  # a full queue is refused before the answer begins
        return Stream(_ndjson(first, rows), media_type=NDJSON, status_code=200)

    @served
    async def explain_log(request: Anything) -> Response[bytes]:
        asked = await _log.question(request)
        return encoded(await while_connected(request, questions.explain_log(asked)))

    @served
    async def explain_utilization(request: Anything) -> Response[bytes]:
        if media_type(request) in UPLOADS:
            return encoded(await questions.explain_trace(chunks(request)))
        asked = await _utilization.question(request, most=LARGEST_QUESTION)
        return encoded(await questions.explain_utilization(asked))

    @served
    async def get_model(request: Anything) -> Response[bytes]:
        only_query(request)
        return encoded(await questions.get_model("{owner}/{name}".format_map(request.path_params)))

    @served
    async def list_gpus(request: Anything) -> Response[bytes]:
        only_query(request, "limit", "offset")
        limit, offset = (
            integer_query(request, "limit", 100, 1, 1000),
            integer_query(request, "offset", 0, 0, 1_000_000),
        )
        return encoded(questions.list_gpus(limit, offset))

    @served
    async def get_gpu(request: Anything) -> Response[bytes]:
        only_query(request)
        return encoded(questions.get_gpu(request.path_params["id"]))

    @served
    async def get_catalog(request: Anything) -> Response[bytes]:
        only_query(request)
        return encoded(catalog_state(questions.catalog, mounted))

    @served
    async def health_live() -> Response[bytes]:
        return json_response(_HEALTHY)

    @served
    async def health_ready() -> Response[bytes]:
        return encoded(Readiness(status="ok", version=__version__, catalog=standing(mounted)))

    @get("/schema/openapi.json")
    async def openapi_document() -> Response[bytes]:
        return json_response(openapi)

    return [
        check_fit, check_training_fit, plan_training, recommend_gpus, list_models_that_fit,
        compare_fit, explain_log, explain_utilization,
        get_model, list_gpus, get_gpu, get_catalog, health_live, health_ready, openapi_document,
    ]  # fmt: skip
