"""`fitgauge serve`, `mcp` and `config`: the service, its tools, its settings."""

import sys

import click
import msgspec
from msgspec.structs import astuple

from fitgauge.commands.errors import or_exit
from fitgauge.console import echo_error, echo_json
from fitgauge.settings import from_environment, in_force, unknown


@click.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.")
def serve(host: str | None, port: int | None) -> None:
    """Run the service. Exit code 0 after SIGTERM or SIGINT, 2 where it cannot start."""
    from fitgauge.serve import run  # the server's own imports, which no other command needs

    for warning in unknown():
        click.echo(warning, err=True)
    settings = or_exit(from_environment)
    changed = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    or_exit(lambda: run(msgspec.structs.replace(settings, **changed)))


@click.command()
@click.option(
    "--url", default="http://127.0.0.1:8000", show_default=True, help="Address of the service."
)
def mcp(url: str) -> None:
    """Serve the tools over MCP on standard input and output, for hosts that start a command.
    Exit code 2 where no service answers at the address."""
    from fitgauge_plugin.mcp_stdio import NoServiceError, run  # imports that nothing else needs

    try:
        run(url)
    except NoServiceError as error:
        echo_error(f"{error} Start one with `fitgauge serve`, or set --url.")
        sys.exit(2)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, one object a setting.")
def config(as_json: bool) -> None:
    """Print every setting, its value and where it comes from. Exit code 2 where one is wrong."""
    settings = in_force(or_exit(from_environment))
    if as_json:
        echo_json(settings)
    else:
        widths = [max(len(str(row[at])) for row in map(astuple, settings)) for at in range(2)]
        for name, value, source in map(astuple, settings):
            click.echo(f"{name:<{widths[0]}}  {value!s:<{widths[1]}}  {source}")
    for warning in unknown():
        click.echo(warning, err=True)
