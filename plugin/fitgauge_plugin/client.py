"""A client of the service that knows only its contract: one method per operation."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from fitgauge_plugin.recordings import Replay

Answer = dict[str, Any]
Question = Mapping[str, Any]

_OFFLINE = "http://recorded"
"""Base URL of a client that asks no service."""


class ProblemError(Exception):
    """The service refused a question: what its problem+json says."""

    def __init__(
        self,
        status: int,
        detail: str,
        hint: str = "",
        field: str | None = None,
        matches: tuple[str, ...] = (),
        *,
        code: str = "",
        send: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{detail} {hint}".strip())
        self.status = status
        self.detail = detail
        self.hint = hint
        self.field = field
        self.matches = matches
        self.code = code
        """What kind of problem it is, such as `unknown-gpu`; docs/CODES.md lists them."""
        self.send = dict(send or {})
        """Fields with which the question would be answered, where the service knows."""
        self.retry_after_seconds = retry_after_seconds
        """After which to ask again, where the service says so."""


class Client:
    """Asks a running service. `transport`: httpx's ASGI transport asks one in the same process.

    Every method raises ProblemError where the service refuses or does not answer."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_seconds: float = 10.0,
        transport: httpx.AsyncBaseTransport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=timeout_seconds, transport=transport, headers=headers
        )

    @classmethod
    def replaying(cls, recording: Path) -> Self:
        """Return a client that answers from a recording and asks no service.

        recording: a file of `recordings.Recorder`."""
        return cls(_OFFLINE, transport=Replay(recording))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def check_fit(self, question: Question) -> Answer:
        """Will a model fit on a GPU when it is served? question: the fields of FitRequest."""
        return await self._post("/v1/fit", question)

    async def check_training_fit(self, question: Question) -> Answer:
        """Will a model fit on a GPU when it is trained? question: of TrainingRequest."""
        return await self._post("/v1/training-fit", question)

    async def recommend_gpus(self, question: Question) -> Answer:
        """Return GPUs to serve or train a model on. question: of RecommendRequest."""
        return await self._post("/v1/recommend", question)

    async def list_models_that_fit(self, question: Question) -> Answer:
        """Return the models that a GPU serves or trains. question: of ModelsForGpuRequest."""
        return await self._post("/v1/models-for-gpu", question)

    async def compare_fit(self, question: Question) -> Answer:
        """Return a table of models and GPUs. question: of CompareRequest."""
        return await self._post("/v1/compare", question)

    async def explain_log(self, question: Question) -> Answer:
        """Compare a start-up log with its estimate. question: of ExplainLogRequest."""
        return await self._post("/v1/explain-log", question)

    async def plan_training(self, question: Question) -> Answer:
        """Return the layouts that train a model. question: of TrainingPlanRequest."""
        return await self._post("/v1/training-plan", question)

    async def explain_utilization(self, question: Question | bytes) -> Answer:
        """Return how well a GPU was used. question: of UtilizationRequest, or a profiler trace
        as bytes, gzip-compressed or not."""
        return await self._post("/v1/utilization", question)

    async def ask(self, question: Question) -> Answer:
        """Answer a question in words. question: of AskRequest."""
        return await self._post("/v1/ask", question)

    async def get_answer(self, answer_id: str) -> Answer:
        """Answer the question of an `answer_id` again, as of now."""
        return await self._get(f"/v1/answers/{_segment(answer_id)}")

    async def get_model(self, owner: str, name: str) -> Answer:
        """Return what a model is made of."""
        return await self._get(f"/v1/models/{_segment(owner)}/{_segment(name)}")

    async def get_gpu(self, gpu: str) -> Answer:
        """Return what is known of an accelerator. gpu: any usual name."""
        return await self._get(f"/v1/gpus/{_segment(gpu)}")

    async def list_gpus(self, *, limit: int | None = None, offset: int | None = None) -> Answer:
        """Return the accelerators of the catalog, a page at a time."""
        return await self._get("/v1/gpus", limit=limit, offset=offset)

    async def search_names(self, search: str, *, hub: bool | None = None) -> Answer:
        """Return names of models and GPUs that begin with or hold a text; hub: of the Hub too."""
        return await self._get("/v1/names", search=search, hub=hub)

    async def get_catalog(self) -> Answer:
        """Return which catalog answers: versions, dates, counts."""
        return await self._get("/v1/catalog")

    async def get_accuracy(self) -> Answer:
        """Return how far estimates are off, against measured runs."""
        return await self._get("/v1/accuracy")

    async def health_live(self) -> Answer:
        """Return whether the process runs."""
        return await self._get("/health/live")

    async def health_ready(self) -> Answer:
        """Return whether the service answers questions."""
        return await self._get("/health/ready")

    async def batch(
        self, operation: str, questions: Sequence[Question], *, at_once: int = 8
    ) -> list[Answer | ProblemError]:
        """Return the answer of every question in its place; a refused one is its ProblemError.

        operation: the name of a method that takes a question. at_once: requests in flight.
        Raises ValueError for another operation."""
        if operation not in _BATCHED:
            raise ValueError(f"Unknown operation {operation!r}. Use {', '.join(_BATCHED)}.")
        ask = getattr(self, operation)
        gate = asyncio.Semaphore(max(1, at_once))

        async def answer(question: Question) -> Answer | ProblemError:
            async with gate:
                try:
                    answered: Answer = await ask(question)
                except ProblemError as problem:
                    return problem
                return answered

        return await asyncio.gather(*(answer(question) for question in questions))

    async def _get(self, path: str, **query: str | int | None) -> Answer:
        parameters = {name: value for name, value in query.items() if value is not None}
        return await self._answer(self._http.build_request("GET", path, params=parameters))

    async def _post(self, path: str, question: Question | bytes) -> Answer:
        if isinstance(question, bytes):
            headers = {"Content-Type": "application/octet-stream"}
            request = self._http.build_request("POST", path, content=question, headers=headers)
        else:
            request = self._http.build_request("POST", path, json=dict(question))
        return await self._answer(request)

    async def _answer(self, request: httpx.Request) -> Answer:
        try:
            response = await self._http.send(request)
        except httpx.TransportError as error:
            raise ProblemError(
                503,
                f"The service gave no answer ({type(error).__name__}).",
                "Ask again in a moment.",
                code="no-answer",
            ) from error
        body = _object(response)
        if response.is_success:
            return body
        raise ProblemError(
            response.status_code,
            body.get("detail", response.reason_phrase),
            body.get("hint", ""),
            body.get("field"),
            tuple(body.get("matches", ())),
            code=body.get("code", ""),
            send=body.get("send"),
            retry_after_seconds=_seconds(response.headers.get("Retry-After", "")),
        )


_BATCHED = (
    "check_fit", "check_training_fit", "recommend_gpus", "list_models_that_fit", "compare_fit",
    "explain_log", "plan_training", "explain_utilization", "ask",
)  # fmt: skip
"""Operations that take a question."""


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def _segment(text: str) -> str:
    """Return one segment of a path, whatever the text holds: dots alone would be taken for a
    step upwards."""
    return quote(text, safe="") if text.strip(".") else quote(f" {text}")


def _object(response: httpx.Response) -> Answer:
    """Return the JSON object of a response; an empty one where somebody else answered, such as a
    gateway."""
    try:
        decoded = response.json()
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
