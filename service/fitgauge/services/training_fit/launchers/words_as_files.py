"""The words of a command as the file that its tool reads in their place: what the readers of the
tools share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fitgauge.services.common.shell import joined
from fitgauge.services.training_fit.launchers.file_formats import yaml_of

Settings = dict[str, Any]
_SCRIPT = "train.sh"


class ConfigFiles(NamedTuple):
    """Files, and the command that reads them."""

    files: Mapping[str, str]
    """Text by name."""
    command: str
    """What starts the training, once the files are there."""


FilesOf = Callable[[Sequence[str], Sequence[str]], ConfigFiles | None]
"""A tool's reader: the lines before a command, and its words; None where it is not the tool's."""


def settings_file(
    before: Sequence[str], start: Sequence[str], name: str, settings: Mapping[str, object]
) -> ConfigFiles:
    """Return settings as a YAML file of this name. start: the words that train with it."""
    return ConfigFiles({name: yaml_of(settings)}, command_after(before, start))


def command_after(before: Sequence[str], start: Sequence[str]) -> str:
    """Return the words as the last line of a command."""
    return "\n".join([*before, joined(start)])


def script_of(programs: frozenset[str]) -> FilesOf:
    """Return a reader for programs whose settings are flags alone: a script with a flag a line, as
    their users keep them (OpenRLHF, examples/scripts/train_sft.sh; Megatron-LM,
    examples/llama/train_llama3_8b_h100_fp8.sh)."""

    def files(before: Sequence[str], words: Sequence[str]) -> ConfigFiles | None:
        place = place_of(words, lambda word: word in programs)
        if place is None:
            return None
        start = place + 1
        while start < len(words) and not words[start].startswith("--"):
            start += 1
        flags = [joined([f"--{name}", *values]) for name, values in _groups(words[start:])]
        command = " \\\n    ".join([joined(words[:start]), *reversed(flags)])
        script = "\n".join(["#!/bin/bash", *before, command, ""])
        return ConfigFiles({_SCRIPT: script}, f"bash {_SCRIPT}")

    return files


def place_of(words: Sequence[str], holds: Callable[[str], bool]) -> int | None:
    """Return the index of the first such word."""
    return next((index for index, word in enumerate(words) if holds(word)), None)


def flags_of(words: Sequence[str]) -> Settings:
    """Return "--name value" words as settings; several values are a list, none is true."""
    settings: Settings = {}
    for name, values in reversed(list(_groups(words))):
        read = [value_of(value) for value in values]
        settings[name] = True if not read else read[0] if len(read) == 1 else read
    return settings


def _groups(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield flags with their values, from the last."""
    values: list[str] = []
    for word in reversed(words):
        if word.startswith("--"):
            yield word[2:], values[::-1]
            values = []
        else:
            values.append(word)


def nested(settings: Settings) -> Settings:
    """Return settings with dots in their names as mappings in mappings."""
    result: Settings = {}
    for name, value in settings.items():
        *parents, last = name.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return result


def value_of(text: str) -> object:
    """Return a value as YAML has it."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.startswith("[") and text.endswith("]"):
        return [value_of(word) for word in text[1:-1].split(",") if word]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
