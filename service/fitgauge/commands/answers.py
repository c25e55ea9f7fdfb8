"""How a command ends: its answer printed, and its exit code."""

from collections.abc import Callable
from typing import TypeVar

import click

from fitgauge.console import echo_json

_Answer = TypeVar("_Answer")

EXIT_CODES = {"fits": 0, "tight": 3, "does_not_fit": 1, "unsupported": 4}
"""Exit codes by verdict; 2: no answer."""

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="The API's own answer, as JSON."
)


def show(answer: _Answer, print_text: Callable[[_Answer], None], as_json: bool) -> None:
    """Print the answer as JSON, as the API sends it, or through `print_text`."""
    if as_json:
        echo_json(answer)
    else:
        print_text(answer)
