"""`fitgauge gpus`: the accelerators of the catalog."""

import click

from fitgauge.commands.errors import or_exit
from fitgauge.commands.local_catalog import local_catalog
from fitgauge.services.common.name_search import word_match
from fitgauge.terminal.gpus import show_gpu, show_gpus


@click.command()
@click.argument("search", required=False)
def gpus(search: str | None) -> None:
    """List the accelerators of the catalog; SEARCH narrows them down. One alone is shown with where
    it is rented.

    Exit code 0, or 2 where SEARCH names none.
    """
    gpu_catalog = or_exit(local_catalog)
    matches = word_match(search)
    rows = [row for row in gpu_catalog.all() if matches(f"{row.id} {row.vendor} {row.name}")]
    if len(rows) > 1:
        show_gpus(rows, gpu_catalog.offers)
        return
    row = rows[0] if rows else or_exit(lambda: gpu_catalog.find(search)).accelerator
    show_gpu(row, gpu_catalog.offers)
