"""`fitgauge snapshot`: the models that are known without the Hub."""

from functools import partial
from pathlib import Path

import click

from fitgauge.commands.local_services import on_hub
from fitgauge.hub import Hub
from fitgauge.services.snapshot_refresh import (
    DATA_FOLDER,
    PER_MINUTE,
    RefreshReport,
    SnapshotRefresh,
)
from fitgauge.settings import Settings


@click.group()
def snapshot() -> None:
    """Keep the models that are known without the Hub."""


@snapshot.command("refresh")
@click.argument("ids", nargs=-1)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=DATA_FOLDER,
    help="Where models.jsonl and models_derived.jsonl lie; by default those of this package.",
)
@click.option(
    "--per-minute",
    type=click.IntRange(1, 600),
    default=PER_MINUTE,
    show_default=True,
    help="Repositories to read in a minute.",
)
def refresh_snapshot(ids: tuple[str, ...], folder: Path, per_minute: int) -> None:
    """Reread the rows of IDS from the Hub, all without any. Run it again to go on where it was
    interrupted. Exit code 0, or 2 where the Hub does not answer."""
    say = partial(click.echo, err=True)

    async def refresh(hub: Hub, _: Settings) -> RefreshReport:
        return await SnapshotRefresh(hub, folder, per_minute=per_minute, say=say).run(ids)

    report = on_hub(refresh)
    for one in report.refused:
        click.echo(f"{one.id}: unchanged. {one.error}", err=True)
    click.echo(f"{report.refreshed} rows refreshed, {len(report.refused)} unchanged.")
