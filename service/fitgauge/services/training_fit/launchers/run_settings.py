"""How long a command trains and when it saves, in each tool's own names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Field = Literal["epochs", "max_steps", "save_steps", "save_total_limit"]


@dataclass(frozen=True, slots=True)
class RunNames:
    """A tool's names of these settings, and where they stand."""

    place: Literal["flags", "overrides", "yaml", "arguments"]
    """flags: --name value; overrides: name=value; yaml: in the file that the command writes;
    arguments: of the trainer's configuration in a script."""
    names: Mapping[Field, str]
    """Fields without a name are none of the tool's."""


TRAINER_NAMES: Mapping[Field, str] = {
    "epochs": "num_train_epochs",
    "max_steps": "max_steps",
    "save_steps": "save_steps",
    "save_total_limit": "save_total_limit",
}
"""transformers training_args.py, TrainingArguments."""
TRAINER_FLAGS = RunNames("flags", TRAINER_NAMES)


def with_run(command: str, names: RunNames | None, values: Mapping[Field, float]) -> str:
    """Return the command with the settings that its tool has names for."""
    settings = {
        names.names[field]: f"{value:g}" if isinstance(value, float) else str(value)
        for field, value in values.items()
        if names is not None and field in names.names
    }
    if names is None or not settings:
        return command
    match names.place:
        case "flags":
            return command + "".join(f" --{name} {value}" for name, value in settings.items())
        case "overrides":
            return command + "".join(f" {name}={value}" for name, value in settings.items())
        case "arguments":
            arguments = "".join(f"{name}={value}, " for name, value in settings.items())
            return re.sub(r"(?m)^(args = \w+\()", rf"\1{arguments}", command, count=1)
        case "yaml":
            for name in settings:
                command = re.sub(rf"(?m)^{name}: .*\n", "", command, count=1)
            lines = "".join(f"{name}: {value}\n" for name, value in settings.items())
            return command.replace("\nEND", f"\n{lines}END", 1)
