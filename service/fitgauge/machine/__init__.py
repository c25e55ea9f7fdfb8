"""The machine that a command runs on, and the question about its GPUs."""

from fitgauge.machine.drivers import Machine, MachineGpu, this_machine
from fitgauge.machine.question import MachineQuestion, machine_question

__all__ = ["Machine", "MachineGpu", "MachineQuestion", "machine_question", "this_machine"]
