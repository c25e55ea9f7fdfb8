"""The services in the process of a command, and what it prints where they refuse a question."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from fitgauge.app import create_hub, create_mounted, create_questions
from fitgauge.catalog.catalog import Catalog, bundled
from fitgauge.console import echo_error, echo_json
from fitgauge.errors import FitgaugeError
from fitgauge.services import Services
from fitgauge.settings import from_environment

_Answer = TypeVar("_Answer")


def local_catalog() -> Catalog:
    """Return the catalog of this process: ours, or a company's own over it."""
    mounted = create_mounted(from_environment())
    return mounted.current.catalog if mounted else bundled()


def answered(ask: Callable[[Services], Awaitable[_Answer]]) -> _Answer:
    """Return the result of `ask` on the services of this process; exit with its error."""
    answer: _Answer = or_exit(lambda: asyncio.run(_on_services(ask)))
    return answer


async def _on_services(ask: Callable[[Services], Awaitable[_Answer]]) -> _Answer:
    """Return what `ask` gets from the questions of this process."""
    hub = create_hub(from_environment())
    questions = create_questions(hub, local_catalog())
    await hub.start()
    try:
        return await ask(questions)
    finally:
        await questions.close()
        await hub.close()


def or_exit(ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is asked
    """Return the result of `ask`; print a FitgaugeError and exit with code 2."""
    try:
        return ask()
    except FitgaugeError as error:
        context = click.get_current_context(silent=True)
        if context is not None and context.params.get("as_json"):
            echo_json(_problem(error))
        else:
            echo_error(f"{error.detail}\n{error.hint}")
            if error.matches:
                echo_error("Did you mean: " + ", ".join(error.matches))
        sys.exit(2)


def _problem(error: FitgaugeError) -> dict[str, object]:
    """Return an error as the API's problem+json has it."""
    fields = ("code", "detail", "hint", "field", "matches", "send")
    return {name: value for name in fields if (value := getattr(error, name, None))}
