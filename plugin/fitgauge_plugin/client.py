"""A client of the service that knows only its contract."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

Answer = dict[str, Any]


class ProblemError(Exception):
    """The service refused a question: `status`, `detail`, `hint`, `field` and `matches` of its
    problem+json."""

    def __init__(
        self,
        status: int,
        detail: str,
        hint: str = "",
        field: str | None = None,
        matches: tuple[str, ...] = (),
    ) -> None:
        super().__init__(f"{detail} {hint}".strip())
        self.status = status
        self.detail = detail
        self.hint = hint
        self.field = field
        self.matches = matches


class Client:
    """Asks a running service. `transport`: httpx's ASGI transport asks one in the same process."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_seconds: float = 10.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=timeout_seconds, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def check_fit(self, question: Mapping[str, Any]) -> Answer:
        """Will a model fit on a GPU when it is served? `question`: the fields of FitRequest.
        Raises ProblemError."""
        return await self._request("POST", "/v1/fit", question)

    async def get_model(self, owner: str, name: str) -> Answer:
        """Return what a model is made of. Raises ProblemError."""
        return await self._request("GET", f"/v1/models/{_segment(owner)}/{_segment(name)}")

    async def get_gpu(self, gpu: str) -> Answer:
        """Return what is known of an accelerator. Raises ProblemError."""
        return await self._request("GET", f"/v1/gpus/{_segment(gpu)}")

    async def _request(
        self, method: str, path: str, question: Mapping[str, Any] | None = None
    ) -> Answer:
        try:
            response = await self._http.request(
                method, path, json=None if question is None else dict(question)
            )
        except httpx.TransportError as error:
            raise ProblemError(
                503,
                f"The service gave no answer ({type(error).__name__}).",
                "Ask again in a moment.",
            ) from error
        problem = _object(response)
        if response.is_success:
            return problem
        hint, field, matches = (
            problem.get("hint", ""),
            problem.get("field"),
            tuple(problem.get("matches", ())),
        )
        raise ProblemError(
            response.status_code,
            problem.get("detail", response.reason_phrase),
            hint,
            field,
            matches,
        )


def _segment(text: str) -> str:
    """Return one segment of a path, whatever the text holds: dots alone would be taken for a
    step upwards."""
    return quote(text, safe="") if text.strip(".") else quote(f" {text}")


def _object(response: httpx.Response) -> Answer:
    """Return the JSON object of a response; an empty one where somebody else answered, such as a
    gateway."""
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}
