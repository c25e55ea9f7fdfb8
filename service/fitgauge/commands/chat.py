"""The command of the bot."""

import os
import sys
from pathlib import Path

import click

from fitgauge.console import echo_error

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("fitgauge-slack"),
    envvar="SLACK_DATA",
    show_default=True,
    help="Folder of the channels' pools and of what people said happened.",
)


@click.command()
@click.option(
    "--url", default="http://127.0.0.1:8000", show_default=True, help="Address of the service."
)
@data_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=3000,
    show_default=True,
    help="Port to listen on.",
)
def slack(url: str, data: Path, host: str, port: int) -> None:
    """Run the bot for Slack, which asks a running service. Tokens are taken from SLACK_BOT_TOKEN
    and SLACK_SIGNING_SECRET; with SLACK_APP_TOKEN it runs over Socket Mode and listens nowhere.
    SLACK_SERVICE_KEY: bearer token of the service. Exit code 2 where it cannot start."""
    try:
        from fitgauge_plugin.slack.run import Options, run  # packages of the extra `slack`
    except ModuleNotFoundError as error:
        echo_error(f"{error.name} is not installed. Use: pip install 'fitgauge[slack]'")
        sys.exit(2)
    options = Options(
        bot_token=os.environ.get("SLACK_BOT_TOKEN", ""),
        signing_secret=os.environ.get("SLACK_SIGNING_SECRET", ""),
        app_token=os.environ.get("SLACK_APP_TOKEN", ""),
        service_url=url,
        service_key=os.environ.get("SLACK_SERVICE_KEY", ""),
        data=data,
        host=host,
        port=port,
    )
    if not options.bot_token or not (options.signing_secret or options.app_token):
        echo_error("Set SLACK_BOT_TOKEN, and SLACK_SIGNING_SECRET or SLACK_APP_TOKEN.")
        sys.exit(2)
    try:
        run(options)
    except (OSError, ValueError) as error:
        echo_error(f"{error}")
        sys.exit(2)
