"""`make pictures`: draws the README's picture from an answer of the service itself."""

from pathlib import Path

from litestar.testing import TestClient

from fitgauge.app import create_app
from fitgauge.hub import Hub, HubSettings
from fitgauge.settings import Settings

DOCS = Path(__file__).parents[1] / "docs"
QUESTION = {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090", "context_length": 8192}


def answer_svg() -> str:
    """Return the picture of the README's first answer."""
    settings = Settings(log_level="error", mcp=False)
    with TestClient(create_app(settings, Hub(HubSettings(offline=True)))) as http:
        response = http.post("/v1/fit.svg", json=QUESTION)
    response.raise_for_status()
    return response.text


if __name__ == "__main__":
    (DOCS / "answer.svg").write_text(answer_svg() + "\n", "utf-8")
