"""The services in the process of a command."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from fitgauge.commands.errors import or_exit
from fitgauge.commands.local_catalog import local_catalog
from fitgauge.errors import UnknownModelError
from fitgauge.hub import Hub
from fitgauge.hub.local_files import is_path, read_local
from fitgauge.questions import create_hub, create_questions
from fitgauge.services.facade import Services
from fitgauge.settings import Settings, from_environment

_Answer = TypeVar("_Answer")


def answered(ask: Callable[[Services], Awaitable[_Answer]], model: str | None = None) -> _Answer:
    """Return the result of `ask` on the services of this process; exit with its error. model: of
    the question, which may be a folder or a file of this machine."""
    answer: _Answer = or_exit(lambda: asyncio.run(_on_services(ask, model)))
    return answer


async def _on_services(ask: Callable[[Services], Awaitable[_Answer]], model: str | None) -> _Answer:
    """Return what `ask` gets from the questions of this process."""

    async def on_questions(hub: Hub, settings: Settings) -> _Answer:
        questions = create_questions(hub, local_catalog(), settings)
        if model is not None and is_path(model):
            questions.hold_model(model, read_local(model))
        try:
            return await ask(questions)
        except UnknownModelError as error:
            if model is None or is_path(model) or not Path(model).exists():
                raise
            here = f"Here is a file or folder of that name: use ./{model} for it."
            raise UnknownModelError(error.detail, hint=here, field="model") from None
        finally:
            await questions.close()

    return await _with_hub(on_questions)


def on_hub(ask: Callable[[Hub, Settings], Awaitable[_Answer]]) -> _Answer:
    """Return the result of `ask` on the Hub and the settings of this process; exit with its
    error."""
    answer: _Answer = or_exit(lambda: asyncio.run(_with_hub(ask)))
    return answer


async def _with_hub(ask: Callable[[Hub, Settings], Awaitable[_Answer]]) -> _Answer:
    """Return what `ask` gets from the Hub and the settings of this process."""
    settings = from_environment()
    hub = create_hub(settings)
    await hub.start(ahead=False)
    try:
        return await ask(hub, settings)
    finally:
        await hub.close()
