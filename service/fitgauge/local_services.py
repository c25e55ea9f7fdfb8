"""The services in the process of a command, and what it prints where they refuse a question."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from fitgauge.api.problems import RequestError, question_problem, request_problem
from fitgauge.catalog.catalog import Catalog, bundled
from fitgauge.console import echo_error, echo_json
from fitgauge.errors import FitgaugeError
from fitgauge.hub import Hub
from fitgauge.hub.local_files import is_path, read_local
from fitgauge.questions import create_hub, create_mounted, create_questions
from fitgauge.services import Services
from fitgauge.settings import Settings, from_environment

_Answer = TypeVar("_Answer")

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ends."""


class Commands(click.Group):
    """The commands, which Ctrl-C ends with one line, and whose --json holds for misuse too."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        """Run the command that is named."""
        as_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            echo_error("Interrupted.")
            ctx.exit(INTERRUPTED)
        except click.UsageError as error:
            if not as_json:
                raise
            echo_json(request_problem(_refused(error)))
            ctx.exit(error.exit_code)


def _refused(error: click.UsageError) -> RequestError:
    """Return the misuse of a command as the refused request that it is."""
    context = error.ctx
    hint = f"See `{context.command_path} --help`." if context else "See `fitgauge --help`."
    param = getattr(error, "param", None)
    return RequestError(
        422,
        "invalid-request",
        error.format_message(),
        hint,
        field=param.name if param is not None else None,
    )


def local_catalog() -> Catalog:
    """Return the catalog of this process: ours, or a company's own over it."""
    mounted = create_mounted(from_environment())
    return mounted.current.catalog if mounted else bundled()


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
    await hub.start()
    try:
        return await ask(hub, settings)
    finally:
        await hub.close()


def or_exit(ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is asked
    """Return the result of `ask`; print a FitgaugeError and exit with code 2."""
    try:
        return ask()
    except FitgaugeError as error:
        context = click.get_current_context(silent=True)
        if context is not None and context.params.get("as_json"):
            echo_json(question_problem(error))
        else:
            echo_error(f"{error.detail}\n{error.hint}")
            if error.matches:
                echo_error("Did you mean: " + ", ".join(error.matches))
        sys.exit(2)
