"""The machine that a question is about."""

from fitgauge.console import as_typed, open_console
from fitgauge.machine import MachineQuestion


def show_machine(question: MachineQuestion, *, divides: bool) -> None:
    """Print the GPUs of this machine that the answer below is about. divides: say which engine is
    asked about, since few divide a model over GPUs of several kinds."""
    console = open_console()
    console.print(f"This machine: {question.description}", highlight=False, markup=False)
    if divides:
        note = f"`engine` not set: {question.engine} divides layers over GPUs of several kinds."
        console.print(f"[dim]- {as_typed(note)}[/dim]")
