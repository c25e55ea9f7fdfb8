"""The group of all commands, of which only the one that runs is imported."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ends."""


class Deferred(NamedTuple):
    """A command that is imported when it runs."""

    module: str
    """The module of fitgauge.commands that holds it under its name, with _ for -."""
    help: str
    """Its line in the list of commands."""


class Commands(click.Group):
    """The commands, which Ctrl-C ends with one line, and whose --json holds for misuse too."""

    def __init__(self, *, deferred: Mapping[str, Deferred], **settings: Any) -> None:  # noqa: ANN401 - as click has it
        """deferred: the commands by name. settings: click's own."""
        super().__init__(**settings)
        self._deferred = deferred

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(self._deferred)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now; None where there is none of this name."""
        listed = self._deferred.get(cmd_name)
        if listed is None:
            return None
        module = import_module(f"fitgauge.commands.{listed.module}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, none of which is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in sorted(self._deferred.items())])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named. Fail with the nearest name where there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not (near := get_close_matches(args[0], self._deferred, n=1)):
                raise
            message = f"{error.format_message()} Did you mean {near[0]!r}?"
            raise click.UsageError(message, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        """Run the command that is named."""
        as_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except click.UsageError as error:
            if not as_json:
                raise
            from fitgauge.commands.errors import echo_misuse  # the problems of the API

            echo_misuse(error)
            ctx.exit(error.exit_code)
