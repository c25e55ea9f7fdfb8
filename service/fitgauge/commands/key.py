"""`fitgauge key`: API keys of a service's callers."""

import sys

import click

from fitgauge.console import echo_error


@click.group()
def key() -> None:
    """Hand out API keys to a service's callers."""


@key.command()
@click.argument("name")
def new(name: str) -> None:
    """Print a new key for NAME, and the line of FITGAUGE_API_KEYS that lets it in. The key is not
    stored: it cannot be shown again. Exit code 2 where NAME is not a name."""
    from fitgauge.api.access.api_keys import NAME, key_hash, new_key  # and the framework

    if not NAME.fullmatch(name):
        echo_error("NAME is 1 to 64 letters, digits, dots, dashes, underscores and @.")
        sys.exit(2)
    secret = new_key()
    click.echo(f"key   {secret}")
    click.echo(f"line  {name} {key_hash(secret)}")
