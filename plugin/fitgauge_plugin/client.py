"""A client of the service that knows only its contract."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

Answer = dict[str, Any]


class Problem(Exception):
    """The service refused a question: `status`, `detail` and `hint` of its problem+json."""

    def __init__(self, status: int, detail: str, hint: str) -> None:
        super().__init__(f"{detail} {hint}".strip())
        self.status = status
        self.detail = detail
        self.hint = hint


class Client:
    """Asks a running service. `transport`: httpx's ASGI transport asks one in the same process."""

    def __init__(self, base_url: str, *, timeout_seconds: float = 10.0, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._http = httpx.AsyncClient(base_url=base_url, timeout=timeout_seconds, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._http.aclose()

    async def check_fit(self, question: Mapping[str, Any]) -> Answer:
        """Will a model fit on a GPU when it is served? `question`: the fields of FitRequest. Raises Problem."""
        return self._answer(await self._http.post("/v1/fit", json=dict(question)))

    async def get_model(self, owner: str, name: str) -> Answer:
        """What a model is made of. Raises Problem."""
        return self._answer(await self._http.get(f"/v1/models/{owner}/{name}"))

    async def get_gpu(self, gpu: str) -> Answer:
        """What is known of an accelerator. Raises Problem."""
        return self._answer(await self._http.get(f"/v1/gpus/{gpu}"))

    @staticmethod
    def _answer(response: httpx.Response) -> Answer:
        if response.is_success:
            answer: Answer = response.json()
            return answer
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        raise Problem(response.status_code, problem.get("detail", response.reason_phrase), problem.get("hint", ""))
