"""A command or file holds no setting that its tool's own parser does not take: the settings of a
release stand in `data`, a tool a file, in sections by its program."""

import ast
import asyncio
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.launchers.config_files import config_files
from fitgauge.services.training_fit.schemas import TrainingRequest

DATA = Path(__file__).parent / "data"
PROGRAMS = {
    "ms-swift": r"swift (sft|rlhf)",
    "litgpt": r"litgpt (\w+)",
    "megatron": r"(pretrain_gpt|megatron(?= sft| rlhf))",
    "openrlhf": r"openrlhf\.cli\.(\w+)",
    "torchtune": r"tune run .*?(\w+_(?:distributed|single_device))",
    "trl": r"trl\.scripts\.(\w+)",
    "unsloth": r"import (\w+Config)",
}
FALLBACKS = ("trl", "megatron")
FALLBACK = r"trl\.scripts|examples/scripts|pretrain_gpt|megatron (sft|rlhf)"
"""Whose commands are printed where a tool has none."""
ASKED = (
    {"method": "full"},
    {"method": "lora", "attention": "flash", "lora_dropout": 0.1, "micro_batches": 4},
    {"method": "qlora", "gpu": "H200", "optimizer": "paged_adamw_8bit"},
    {"method": "lora", "algorithm": "dpo"},
    {"method": "lora", "algorithm": "kto"},
    {"method": "lora", "algorithm": "grpo"},
    {"method": "full", "framework": "fsdp", "offload": "cpu"},
    {"method": "full", "framework": "deepspeed", "optimizer": "muon"},
    {"method": "full", "optimizer": "galore_adamw", "kernels": "liger"},
    {"method": "full", "optimizer": "sgd_momentum", "tensor_parallel": 2},
    {"method": "lora", "samples": 1000, "save_steps": 10, "compile": True},
    {"method": "dora", "tensor_parallel": 2, "sequence_parallel": True},
    {"method": "full", "pipeline_parallel": 2, "micro_batches": 8, "precision": "fp8",
     "pipeline_schedule": "interleaved", "activation_checkpointing": "selective"},
    {"model": "Qwen/Qwen3-30B-A3B", "method": "full", "expert_parallel": 2, "offload": "optimizer"},
    {"method": "lora", "algorithm": "simpo", "lora_dropout": 0.1},
)  # fmt: skip
OWN = {"train", "output_dir", "checkpointer", "metric_logger", "lr_scheduler", "seed"}
"""Groups of LitGPT's settings, and what torchtune's files name for their own references."""


def accepted(tool: str) -> dict[str, set[str]]:
    """Return what a tool takes, by section; `all` is of every one."""
    sections: dict[str, set[str]] = {}
    for line in (DATA / f"{tool}.txt").read_text("utf-8").splitlines()[1:]:
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), set())
        else:
            section |= set(line.split())
    return sections


def settings(command: str) -> set[str]:
    """Return the names of a command's settings: of its file, or of its flags and overrides; those
    of groups with their group."""
    read = config_files(command)
    for name, text in read.files.items() if read else ():
        if name == "nemo.yaml":
            return set(grouped(yaml.safe_load(text)))
        if name.endswith(".yaml") and name != "fsdp.yaml":
            return set(yaml.safe_load(text))
        if name == "train.py":
            return set(arguments(text))
    words = shlex.split(command.splitlines()[-1])
    programs = ("openrlhf", "run_train", "pretrain_gpt")
    start = next(i for i, word in enumerate(words) if any(one in word for one in programs)
                 or word in ("CONFIG", "megatron"))  # fmt: skip
    names = {word[2:] for word in words[start:] if word.startswith("--")}
    overrides = (word.partition("=")[0] for word in words[start:] if "=" in word)
    return names | {name.split(".")[0] for name in overrides}


def grouped(settings: dict[str, object]) -> Iterator[str]:
    """Yield the names of a file's settings with their group."""
    for name, value in settings.items():
        yield f"top.{name}"
        yield from (f"{name}.{inner}" for inner in value) if isinstance(value, dict) else ()


def arguments(script: str) -> Iterator[str]:
    """Yield the names of the keyword arguments that a script passes on to Unsloth and TRL."""
    for call in ast.walk(ast.parse(script)):
        if isinstance(call, ast.Call):
            called = ast.unparse(call.func).split(".")[-1]
            if called in ("from_pretrained", "get_peft_model") or called.endswith("Config"):
                yield from (f"{called}.{word.arg}" for word in call.keywords)


def _named(tool: str) -> dict[str, str]:
    return {"framework": tool} if tool == "megatron" else {"trainer": tool}


@pytest.mark.parametrize("tool", sorted(path.stem for path in DATA.glob("*.txt")))
def test_a_tool_takes_every_setting_that_is_printed_for_it(questions, tool):
    sections, read = accepted(tool), 0
    for asked in ASKED:
        request = TrainingRequest(
            **{"model": "meta-llama/Llama-3.1-8B", "gpu": "4x H200", **_named(tool), **asked}
        )
        try:
            launch = asyncio.run(questions.check_training_fit(request))[1].launch
        except InvalidRequestError:  # a degree that its framework has not
            continue
        if launch is None or (tool not in FALLBACKS and re.search(FALLBACK, launch.command)):
            continue
        if (program := re.search(PROGRAMS.get(tool, ""), launch.command)) is None:
            continue
        section = program[1] if program.groups() else "all"
        names = {name.removeprefix("no_").replace(".no_", ".") for name in settings(launch.command)}
        takes = OWN.union(sections.get("all", ()), sections.get(section, ()))
        if tool in ("nemo", "unsloth"):
            takes = {f"{group}.{one}" for group, all_of in sections.items() for one in all_of}
            takes |= {f"{section}.{one}" for one in sections.get("all", ())}
        assert names <= takes, (asked, names - takes)
        read += 1
    assert read >= 2
