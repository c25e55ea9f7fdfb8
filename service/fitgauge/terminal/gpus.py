"""GPUs of the catalog, and where they are rented."""

from rich.console import Console

from fitgauge.catalog.instances import Offers
from fitgauge.console import open_console
from fitgauge.engine.accelerator import Accelerator
from fitgauge.terminal.drawing import bare_table, gib, usd


def show_gpus(rows: list[Accelerator], offers: Offers, console: Console | None = None) -> None:
    """One line for every accelerator."""
    console = console or open_console()
    table = bare_table("id", "name", right=("usable", "GB/s", "USD/h"))
    prices = [offers.card_hour(row.id) for row in rows]
    for row, price in zip(rows, prices, strict=True):
        cost = usd(price.usd_per_hour_low, price.usd_per_hour_high) if price else ""
        table.add_row(
            row.id, row.name, gib(row.usable.expected), f"{row.bandwidth_gbps or '?'}", cost
        )
    console.print(table)
    if days := [price.as_of for price in prices if price]:
        console.print(
            "[dim]USD/h: one GPU on demand, over clouds and regions; the oldest price is from"
            f" {min(days)}.[/dim]",
            highlight=False,
        )


def show_gpu(row: Accelerator, offers: Offers) -> None:
    """One accelerator, and every machine of a cloud that holds it."""
    console = open_console()
    show_gpus([row], offers, console)
    machines = offers.of(row.id)
    if not machines:
        console.print(f"\nNo cloud instance with {row.name} is known.", highlight=False)
        return
    table = bare_table("cloud", "machine", right=("GPUs", "vCPUs", "GiB", "USD/h", "as of"))
    for offer in machines:
        low, high = offer.usd_per_hour_low, offer.usd_per_hour_high
        cost = "?" if low is None or high is None else usd(low, high)
        size = (
            str(offer.count),
            *("?" if value is None else f"{value:g}" for value in (offer.vcpus, offer.memory_gib)),
        )
        table.add_row(offer.cloud, offer.instance, *size, cost, offer.as_of or "")
    console.print()
    console.print(table)
