"""`fitgauge catalog`: own catalogs, checked."""

from pathlib import Path

import click

from fitgauge.catalog import overlay_file
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.overlay_reload import OverlayReload
from fitgauge.commands.errors import or_exit
from fitgauge.console import echo_json


@click.group()
def catalog() -> None:
    """Check catalog overlays of GPUs, names, prices and quotas."""


@catalog.command("check")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
def check_catalog(path: Path) -> None:
    """Is the own catalog in FILE, or in a folder, sound? Exit code 0 if so, 2 if not, with the
    file, the row and the field."""
    loaded = or_exit(lambda: OverlayReload(path, bundled())).current
    merged = loaded.catalog
    rows = (
        f"{len(merged.all())} accelerators, {len(merged.names)} names,"
        f" {len(merged.quotas)} quotas, {len(merged.offers.all())} instance types"
    )
    click.echo(f"{', '.join(loaded.files)}: valid. With the bundled catalog: {rows}.")


@catalog.command("schema")
def catalog_schema() -> None:
    """Print the JSON schema of an own catalog."""
    echo_json(overlay_file.schema())
