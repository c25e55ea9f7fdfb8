"""Answers as pictures, by a link or by the request of the answer itself."""

from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler

from fitgauge.api.callers import while_connected
from fitgauge.api.problems import RequestError
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.pictures.bar import bar_svg
from fitgauge.pictures.drawing import Theme
from fitgauge.pictures.png import png
from fitgauge.pictures.rows import MOST_ROWS, compare_svg, recommend_svg
from fitgauge.pictures.texts import Language
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest
from fitgauge.services.facade import Services
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest

_EXAMPLE = {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"}
_SECONDS = 300
"""How long a link's picture may be shown again without asking."""

_MODEL = {"model": "Qwen/Qwen3-32B"}
_TABLE = {"models": "Qwen/Qwen3-32B", "gpus": "RTX 4090, H100"}

_Request = TypeVar("_Request", FitRequest, TrainingRequest, CompareRequest, RecommendRequest)
_Answer = TypeVar("_Answer")


class Style(msgspec.Struct, forbid_unknown_fields=False):
    """How a picture is drawn."""

    theme: Theme = "light"
    """Light or dark ground."""
    language: Language = "en"
    """Of its words."""


def _picture(
    name: str,
    kind: type[_Request],
    example: Mapping[str, str],
    answered: Callable[[Services, _Request], Coroutine[Any, Any, _Answer]],
    draw: Callable[[_Answer, Theme, Language], str],
    **opt: int,
) -> tuple[HTTPRouteHandler, HTTPRouteHandler]:
    """Return what draws the answer to the question in a query, and to the one in a body."""
    paths = [f"/v1/{name}.svg", f"/v1/{name}.png"]

    @get(paths, include_in_schema=False, opt=opt)
    async def link(request: ApiRequest, services: NamedDependency[Services]) -> Response[bytes]:
        return await _drawn(request, answered(services, _question(request, kind)), draw)

    body = {"body": BodyDecoder(kind, example)}

    @post(paths, status_code=200, include_in_schema=False, opt={**opt, **body})
    async def sent(request: ApiRequest, services: NamedDependency[Services]) -> Response[bytes]:
        return await _drawn(request, answered(services, await request.json()), draw)

    return link, sent


async def _fit(services: Services, question: FitRequest) -> FitAnswer:
    return (await services.check_fit(question))[1]


async def _training(services: Services, question: TrainingRequest) -> TrainingAnswer:
    return (await services.check_training_fit(question))[1]


async def _compare(services: Services, question: CompareRequest) -> CompareAnswer:
    """Return a table of as many rows as a picture holds."""
    most = min(question.limit or MOST_ROWS, MOST_ROWS)
    return await services.compare_page(msgspec.structs.replace(question, limit=most))


async def _drawn(
    request: Request[Any, Any, Any],
    answer: Coroutine[Any, Any, _Answer],
    draw: Callable[[_Answer, Theme, Language], str],
) -> Response[bytes]:
    """Return the picture in the format that the path names."""
    style = _style(request.query_params)
    svg = draw(await while_connected(request, answer), style.theme, style.language)
    if request.url.path.endswith(".png"):
        content, media_type = png(svg), "image/png"
    else:
        content, media_type = svg.encode(), "image/svg+xml"
    tag = f'"{sha256(content).hexdigest()[:24]}"'
    headers = {
        "ETag": tag,
        "Cache-Control": f"max-age={_SECONDS}",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("If-None-Match") == tag:
        return Response(b"", status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def _question(request: Request[Any, Any, Any], kind: type[_Request]) -> _Request:
    """Return the request in a query. Raises RequestError 422 where it is none."""
    query = {name: value for name, value in request.query_params.items() if name not in _STYLES}
    try:
        return msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(
            422, "invalid-request", f"{error}.", "Send model=...&gpu=... and other fields."
        ) from None


def _style(query: Mapping[str, str]) -> Style:
    """Return the style in a query. Raises RequestError 422 for an unknown theme or language."""
    try:
        return msgspec.convert({name: query[name] for name in _STYLES & query.keys()}, Style)
    except msgspec.ValidationError as error:
        raise RequestError(
            422, "invalid-request", f"{error}.", "Send theme=light or dark, language=en or zh."
        ) from None


_STYLES = set(Style.__struct_fields__)


PICTURES = (
    *_picture("fit", FitRequest, _EXAMPLE, _fit, bar_svg),
    *_picture("training-fit", TrainingRequest, _EXAMPLE, _training, bar_svg),
    *_picture("compare", CompareRequest, _TABLE, _compare, compare_svg, weight=20),
    *_picture(
        "recommend", RecommendRequest, _MODEL, Services.recommend_gpus, recommend_svg, weight=10
    ),
)
"""Answers as pictures: .svg and .png of fit, training-fit, compare and recommend."""
