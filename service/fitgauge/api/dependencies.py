"""What Litestar injects into the handlers."""

from litestar.di import Provide

from fitgauge.api.answer_cache import AnswerCache
from fitgauge.api.conditions import Conditions
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.services.facade import Services


def dependencies(
    services: Services | None = None,
    answers: AnswerCache | None = None,
    overlay: OverlayReload | None = None,
    public_url: str = "/",
    conditions: Conditions | None = None,
) -> dict[str, Provide]:
    """Return the providers by name. None for an application that only describes itself."""
    return {
        "services": _same(services),
        "answers": _same(answers),
        "overlay": _same(overlay),
        "public_url": _same(public_url),
        "conditions": _same(conditions),
    }


def _same(value: object) -> Provide:
    """Provide one value to every request."""

    async def provided() -> object:
        return value

    return Provide(provided)
