"""Questions about the machine that a command runs on."""

from typing import Any

from fitgauge.commands.errors import or_exit
from fitgauge.commands.local_catalog import local_catalog
from fitgauge.machine import machine_question, this_machine
from fitgauge.terminal.machine import show_machine


def ask_of_this_machine(fields: dict[str, Any], *, serves: bool, as_json: bool) -> None:
    """Add this machine's GPUs to a question, and print them; leave it where there are none. serves:
    whether the question has an engine, which GPUs of several kinds decide."""
    machine = this_machine()
    if machine is None:
        return
    question = machine_question(machine, or_exit(local_catalog), mixed=serves)
    fields["gpu"] = question.gpu
    defaults = {"other_memory_gib": question.other_memory_gib}
    if question.engine is None:
        defaults["gpu_count"] = question.gpu_count
    fields |= {name: value for name, value in defaults.items() if fields.get(name) is None}
    divides = question.engine is not None and fields.get("engine") is None
    if divides:
        fields["engine"] = question.engine
    if not as_json:
        show_machine(question, divides=divides)
