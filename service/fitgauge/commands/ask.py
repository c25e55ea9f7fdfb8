"""`fitgauge ask`: a question in plain words."""

import sys

import click

from fitgauge.commands.answers import EXIT_CODES, as_json_option, show
from fitgauge.commands.local_services import answered
from fitgauge.commands.options import as_request
from fitgauge.services.ask.schemas import AskRequest
from fitgauge.terminal.ask import show_ask


@click.command()
@click.argument("question", nargs=-1, required=True)
@as_json_option
def ask(question: tuple[str, ...], as_json: bool) -> None:
    """Answer a QUESTION in plain words. Exit code as that of check; 0 for lists, 2 without an
    answer."""
    request = as_request({"question": " ".join(question)}, AskRequest)
    answer = answered(lambda services: services.ask(request))
    show(answer, show_ask, as_json)
    if answer.answer is None:
        sys.exit(2)
    sys.exit(EXIT_CODES.get(str(answer.answer.get("verdict")), 0))
