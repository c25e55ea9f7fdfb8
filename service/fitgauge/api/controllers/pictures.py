"""Answers as pictures, by a link or by the request of the answer itself."""

from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from litestar import Controller, Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

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
from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest

_EXAMPLE = {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"}
_SECONDS = 300
"""How long a link's picture may be shown again without asking."""

_TABLE = {"models": "Qwen/Qwen3-32B", "gpus": "RTX 4090, H100"}

_Request = TypeVar("_Request", FitRequest, TrainingRequest, CompareRequest, RecommendRequest)
_Answer = TypeVar("_Answer", FitAnswer | TrainingAnswer, CompareAnswer, RecommendAnswer)


class Style(msgspec.Struct, forbid_unknown_fields=False):
    """How a picture is drawn."""

    theme: Theme = "light"
    """Light or dark ground."""
    language: Language = "en"
    """Of its words."""


class PicturesController(Controller):
    """Answers as pictures: .svg and .png of fit, training-fit, compare and recommend."""

    include_in_schema = False

    @get(["/v1/fit.svg", "/v1/fit.png"])
    async def fit_link(
        self, request: ApiRequest, services: NamedDependency[Services]
    ) -> Response[bytes]:
        """Draw the answer to the question in the query."""
        question = _question(request, FitRequest)
        return await _drawn(request, _fit(services, question), bar_svg)

    @post(
        ["/v1/fit.svg", "/v1/fit.png"],
        status_code=200,
        opt={"body": BodyDecoder(FitRequest, _EXAMPLE)},
    )
    async def fit(
        self, data: JSONBody[FitRequest], request: ApiRequest, services: NamedDependency[Services]
    ) -> Response[bytes]:
        """Draw the answer to a question."""
        return await _drawn(request, _fit(services, data), bar_svg)

    @get(["/v1/training-fit.svg", "/v1/training-fit.png"])
    async def training_link(
        self, request: ApiRequest, services: NamedDependency[Services]
    ) -> Response[bytes]:
        """Draw the answer to the question in the query."""
        question = _question(request, TrainingRequest)
        return await _drawn(request, _training(services, question), bar_svg)

    @post(
        ["/v1/training-fit.svg", "/v1/training-fit.png"],
        status_code=200,
        opt={"body": BodyDecoder(TrainingRequest, _EXAMPLE)},
    )
    async def training(
        self,
        data: JSONBody[TrainingRequest],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> Response[bytes]:
        """Draw the answer to a question."""
        return await _drawn(request, _training(services, data), bar_svg)

    @get(["/v1/compare.svg", "/v1/compare.png"], opt={"weight": 20})
    async def compare_link(
        self, request: ApiRequest, services: NamedDependency[Services]
    ) -> Response[bytes]:
        """Draw the answer to the question in the query."""
        question = _question(request, CompareRequest)
        return await _drawn(request, services.compare_page(_short(question)), compare_svg)

    @post(
        ["/v1/compare.svg", "/v1/compare.png"],
        status_code=200,
        opt={"body": BodyDecoder(CompareRequest, _TABLE), "weight": 20},
    )
    async def compare(
        self,
        data: JSONBody[CompareRequest],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> Response[bytes]:
        """Draw the answer to a question."""
        return await _drawn(request, services.compare_page(_short(data)), compare_svg)

    @get(["/v1/recommend.svg", "/v1/recommend.png"], opt={"weight": 10})
    async def recommend_link(
        self, request: ApiRequest, services: NamedDependency[Services]
    ) -> Response[bytes]:
        """Draw the answer to the question in the query."""
        question = _question(request, RecommendRequest)
        return await _drawn(request, services.recommend_gpus(question), recommend_svg)

    @post(
        ["/v1/recommend.svg", "/v1/recommend.png"],
        status_code=200,
        opt={"body": BodyDecoder(RecommendRequest, {"model": "Qwen/Qwen3-32B"}), "weight": 10},
    )
    async def recommend(
        self,
        data: JSONBody[RecommendRequest],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> Response[bytes]:
        """Draw the answer to a question."""
        return await _drawn(request, services.recommend_gpus(data), recommend_svg)


def _short(question: CompareRequest) -> CompareRequest:
    """Return a question about as many rows as a picture holds."""
    return msgspec.structs.replace(question, limit=min(question.limit or MOST_ROWS, MOST_ROWS))


async def _fit(services: Services, question: FitRequest) -> FitAnswer:
    return (await services.check_fit(question))[1]


async def _training(services: Services, question: TrainingRequest) -> TrainingAnswer:
    return (await services.check_training_fit(question))[1]


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
