"""What a command prints where a question is refused or an option misused."""

import sys
from collections.abc import Callable
from typing import Any

import click

from fitgauge.api.problems import RequestError, question_problem, request_problem
from fitgauge.console import echo_error, echo_json
from fitgauge.errors import FitgaugeError


def or_exit(ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is asked
    """Return the result of `ask`; print a FitgaugeError and exit with code 2."""
    try:
        return ask()
    except FitgaugeError as error:
        context = click.get_current_context(silent=True)
        if context is not None and context.params.get("as_json"):
            echo_json(question_problem(error))
        else:
            echo_error("\n".join(filter(None, (error.detail, error.hint))))
            if error.matches:
                echo_error("Did you mean: " + ", ".join(error.matches))
        sys.exit(2)


def echo_misuse(error: click.UsageError) -> None:
    """Print the misuse of a command as the refused request that it is."""
    context = error.ctx
    hint = f"See `{context.command_path} --help`." if context else "See `fitgauge --help`."
    param = getattr(error, "param", None)
    field = param.name if param is not None else None
    refused = RequestError(422, "invalid-request", error.format_message(), hint, field=field)
    echo_json(request_problem(refused))
