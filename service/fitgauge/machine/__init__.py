"""The machine that a command runs on, and the question about its GPUs."""

from fitgauge.machine.drivers import Machine, MachineGpu, memory_of_machine, this_machine
from fitgauge.machine.question import MachineQuestion, machine_question

__all__ = [
    "Machine",
    "MachineGpu",
    "MachineQuestion",
    "machine_question",
    "memory_of_machine",
    "this_machine",
]
