"""The configuration files of a command: those that it writes, and its flags as the file that the
tool reads in their place."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fitgauge.services.common.shell import joined
from fitgauge.services.training_fit.launchers.file_formats import yaml_of

_WRITTEN = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n?", re.MULTILINE | re.DOTALL)
_ECHOED = re.compile(r"^echo ('.*?') > (\S+) && ", re.DOTALL)
Settings = dict[str, Any]


class ConfigFiles(NamedTuple):
    """Files, and the command that reads them."""

    files: Mapping[str, str]
    """Text by name."""
    command: str
    """What starts the training, once the files are there."""


def config_files(command: str) -> ConfigFiles | None:
    """Return the files of a command; None where its tool reads none of ours: torchtune, for a
    model without a builder of its own, reads its own recipe's. OpenRLHF and Megatron-LM take flags
    alone, which their users keep in a script (openrlhf/cli/train_sft.py; Megatron-LM's --yaml-cfg
    reads a part: yaml_arguments.py)."""
    files = dict[str, str](_WRITTEN.findall(command))
    rest = _WRITTEN.sub("", command)
    if (echoed := _ECHOED.match(rest)) is not None:
        files[echoed[2]] = shlex.split(echoed[1])[0] + "\n"
        rest = rest[echoed.end() :]
    *lines, last = rest.split("\n")
    words = shlex.split(last)
    for reads in (_trl, _ms_swift, _litgpt, _verl):
        if (read := reads(words)) is not None:
            name, settings, start = read
            files[name] = yaml_of(settings)
            last = joined(start)
            break
    if (place := _place(words, lambda word: word.endswith("run_train.sh"))) is not None:
        files[f"{_TITAN}.py"] = titan_module(words, place)
        last = joined(titan_start(words, place))
    elif (place := _place(words, lambda word: word in _BY_FLAGS)) is not None:
        files[_SCRIPT] = launch_script(lines, words, place)
        lines, last = [], f"bash {_SCRIPT}"
    return ConfigFiles(files, "\n".join([*lines, last])) if files else None


def _trl(words: Sequence[str]) -> tuple[str, Settings, list[str]] | None:
    """Read TRL's scripts. Source: trl/scripts/utils.py, TrlParser.parse_args_and_config."""
    place = _place(words, lambda word: word.startswith("trl.scripts."))
    if place is None:
        return None
    settings = _flags(words[place + 1 :])
    for name in _LISTS & settings.keys():
        settings[name] = settings[name] if isinstance(settings[name], list) else [settings[name]]
    return "trl.yaml", settings, [*words[: place + 1], "--config", "trl.yaml"]


def _ms_swift(words: Sequence[str]) -> tuple[str, Settings, list[str]] | None:
    """Read `swift sft` and `swift rlhf`. Source: swift/cli/main.py, parse_yaml_args."""
    place = _place(words, lambda word: word == "swift")
    if place is None:
        return None
    return "swift.yaml", _flags(words[place + 2 :]), [*words[: place + 2], "swift.yaml"]


def _litgpt(words: Sequence[str]) -> tuple[str, Settings, list[str]] | None:
    """Read `litgpt finetune_*`. Source: config_hub/finetune."""
    place = _place(words, lambda word: word == "litgpt")
    if place is None:
        return None
    settings = {"checkpoint_dir": words[place + 2], **_flags(words[place + 3 :])}
    return "litgpt.yaml", _nested(settings), [*words[: place + 2], "--config", "litgpt.yaml"]


def _verl(words: Sequence[str]) -> tuple[str, Settings, list[str]] | None:
    """Read overrides of verl's own configuration, by Hydra. Source: verl/trainer/sft_trainer.py and
    main_ppo.py, hydra.main; examples/sglang_multiturn/config."""
    place = _place(words, lambda word: word in _VERL)
    if place is None:
        return None
    settings = {"defaults": [_VERL[words[place]], "_self_"]}
    overrides = dict(word.lstrip("+").split("=", 1) for word in words[place + 1 :])
    settings |= _nested({name: _read(value) for name, value in overrides.items()})
    start = [*words[: place + 1], "--config-dir", ".", "--config-name", "verl"]
    return "verl.yaml", settings, start


def titan_module(words: Sequence[str], place: int) -> str:
    """Return torchtitan's configuration: a module with a function that changes that of the model.
    `place`: of run_train.sh among the words.

    TOML files were read until 2025; since then a run is a Python function, which flags still
    overrule. Source: torchtitan, main of August 2026, torchtitan/config/README.md and manager.py,
    ConfigManager._load_config; distributed/activation_checkpoint.py, ActivationCheckpointingConfig.
    """
    *flags, recomputed = words[place + 1 :]
    policy = _TITAN_POLICIES[recomputed.partition(":")[2]]
    names = dict(word.split("=", 1) for word in words[:place] if "=" in word)
    lines = [f"from torchtitan.models.{names['MODULE']}.config_registry import {names['CONFIG']}"]
    if policy is not None:
        lines.insert(0, f"from torchtitan.distributed.activation_checkpoint import {policy}")
    lines += ["from torchtitan.trainer import Trainer", "", ""]
    lines += ["def train() -> Trainer.Config:", f"    config = {names['CONFIG']}()"]
    for name, value in _flags(flags).items():
        section, _, field = name.rpartition(".")
        if field.startswith("no_"):
            field, value = field.removeprefix("no_"), False
        lines.append(f"    config.{section}.{field} = {value!r}")
    chosen = "None" if policy is None else f"{policy}.Config()"
    lines += [f"    config.activation_checkpoint = {chosen}", "    return config", ""]
    return "\n".join(['"""A run of torchtitan."""', "", *lines])


def titan_start(words: Sequence[str], place: int) -> list[str]:
    """Return what starts torchtitan with the module, from the folder that both are in."""
    return [_TITAN_RUN.get(word.partition("=")[0], word) for word in words[: place + 1]]


def launch_script(lines: Sequence[str], words: Sequence[str], place: int) -> str:
    """Return a script with a flag a line, as OpenRLHF's and Megatron-LM's users keep them
    (examples/scripts/train_sft.sh; examples/llama/train_llama3_8b_h100_fp8.sh). lines: what runs
    before; place: of the program among the words."""
    start = place + 1
    while start < len(words) and not words[start].startswith("--"):
        start += 1
    flags = [joined([f"--{name}", *values]) for name, values in _groups(words[start:])]
    command = " \\\n    ".join([joined(words[:start]), *reversed(flags)])
    return "\n".join(["#!/bin/bash", *lines, command, ""])


_SCRIPT = "train.sh"
_BY_FLAGS = frozenset(
    ("openrlhf.cli.train_sft", "openrlhf.cli.train_ppo_ray", "pretrain_gpt.py", "megatron")
)
"""Programs whose settings are flags alone; `megatron` is ms-swift's."""
_TITAN = "titan_run"
_TITAN_RUN = {"MODULE": f"MODULE={_TITAN}", "CONFIG": "CONFIG=train"}
_TITAN_POLICIES = {"none": None, "selective": "SelectiveAC", "full": "FullAC"}
_LISTS = frozenset(("reward_funcs",))
"""Settings of TRL that are lists with one value too (trl/scripts/grpo.py)."""
_VERL = {
    "verl.trainer.sft_trainer": "sft_trainer_engine",
    "verl.trainer.main_ppo": "ppo_trainer",
}


def _place(words: Sequence[str], holds: Callable[[str], bool]) -> int | None:
    return next((index for index, word in enumerate(words) if holds(word)), None)


def _flags(words: Sequence[str]) -> Settings:
    """Return "--name value" words as settings; several values are a list, none is true."""
    settings: Settings = {}
    for name, values in reversed(list(_groups(words))):
        read = [_read(value) for value in values]
        settings[name] = True if not read else read[0] if len(read) == 1 else read
    return settings


def _groups(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    values: list[str] = []
    for word in reversed(words):
        if word.startswith("--"):
            yield word[2:], values[::-1]
            values = []
        else:
            values.append(word)


def _nested(settings: Settings) -> Settings:
    """Return settings with dots in their names as mappings in mappings."""
    result: Settings = {}
    for name, value in settings.items():
        *parents, last = name.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return result


def _read(text: str) -> object:
    """Return a value as YAML has it."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.startswith("[") and text.endswith("]"):
        return [_read(word) for word in text[1:-1].split(",") if word]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
