"""The service as the bot asks it: over HTTP, with the caller's key where one is set."""

from typing import Any, NamedTuple, Self
from urllib.parse import quote

import httpx2

from fitgauge_plugin.calls import Reply, http_call

PATHS = {
    "check_fit": "/v1/fit",
    "check_training_fit": "/v1/training-fit",
    "recommend_gpus": "/v1/recommend",
    "list_models_that_fit": "/v1/models-for-gpu",
    "compare_fit": "/v1/compare",
    "plan_training": "/v1/training-plan",
    "explain_log": "/v1/explain-log",
}
"""The path of every operation."""

DRAWN = ("check_fit", "check_training_fit")
"""Operations whose answers are drawn."""


class Question(NamedTuple):
    """What an answer is of."""

    operation: str
    """Its operation."""
    request: dict[str, Any]
    """The fields that were sent."""


class Service:
    """Asks a running service. No method raises: whatever happens is a reply."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._call = http_call(http)

    @classmethod
    def at(cls, url: str, key: str = "", timeout_seconds: float = 60.0) -> Self:
        """Return the service at an address. key: sent as a bearer token, where one is set."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return cls(httpx2.AsyncClient(base_url=url, headers=headers, timeout=timeout_seconds))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(self, text: str) -> Reply:
        """Return what is understood of a text, and the answer where nothing is missing."""
        return await self._call("POST", "/v1/ask", {"question": text}, {})

    async def send(self, question: Question) -> Reply:
        """Return the answer to a question in fields."""
        return await self._call("POST", PATHS[question.operation], question.request, {})

    async def again(self, answer_id: str) -> Reply:
        """Return the question of a permalink, and its answer as of now."""
        return await self._call("GET", f"/v1/answers/{quote(answer_id, safe='')}", None, {})

    async def picture(self, question: Question, language: str) -> bytes | None:
        """Return the answer's memory as a PNG; None where there is none."""
        if question.operation not in DRAWN:
            return None
        path = f"{PATHS[question.operation]}.png?language={language}"
        try:
            response = await self._http.post(path, json=question.request)
        except httpx2.TransportError:
            return None
        is_picture = response.headers.get("Content-Type", "").startswith("image/png")
        return response.content if response.is_success and is_picture else None
