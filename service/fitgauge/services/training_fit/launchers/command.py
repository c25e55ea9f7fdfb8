"""The command that starts the estimated training, with the files it reads, and the settings that
it cannot carry."""

import shlex
from collections.abc import Iterator, Mapping

from msgspec import structs

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import Framework, TrainingWorkload
from fitgauge.services.common.schemas import Launch, LaunchFile
from fitgauge.services.common.shell import MODEL_PATH, joined, placeholders
from fitgauge.services.training_fit.launchers.config_files import config_files
from fitgauge.services.training_fit.launchers.deepspeed import DEEPSPEED, deepspeed_config
from fitgauge.services.training_fit.launchers.registry import TOOLS, find_tool, launcher_of
from fitgauge.services.training_fit.launchers.run_settings import Field, RunNames, with_run
from fitgauge.services.training_fit.launchers.tool import Tool, lacking

SUPERVISED = Setup(algorithm="sft", trainer="trl", reference="none")
"""Training without other models."""
NO_RUN: Mapping[Field, float] = {}
_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
"""Source: PyTorch's notes on CUDA semantics."""
PLACEHOLDERS = (
    MODEL_PATH, "DATASET", "DATA.parquet", "DATA_PREFIX", "REWARD_MODEL", "reward_func.py",
    "ITERATIONS", "LEARNING_RATE", "MODULE", "CONFIG", "RECIPE", "CHECKPOINT",
)  # fmt: skip
"""Words of commands that the user replaces."""


def launch(
    model: Model,
    workload: TrainingWorkload,
    setup: Setup = SUPERVISED,
    tool: Tool | None = None,
    run: Mapping[Field, float] = NO_RUN,
) -> Launch:
    """Return the command with what to replace in it. `run`: how long it trains and when it
    saves."""
    names = run_names(model, workload, setup, tool)
    command = with_run(launch_command(model, workload, setup, tool), names, run)
    return Launch(command=command, placeholder=placeholders(command, PLACEHOLDERS))


def run_names(
    model: Model, workload: TrainingWorkload, setup: Setup, tool: Tool | None
) -> RunNames | None:
    """Return the names of how long the command trains and when it saves; None where it has
    none."""
    if tool is not None and tool.command is not None and tool.runs(model, workload, setup):
        return tool.run_names
    sampling = find_tool(setup.trainer) if setup.sampled else None
    if sampling is not None and sampling.sampling_command is not None:
        return sampling.run_names
    return launcher_of(workload).run_names


def lacking_run(
    model: Model,
    workload: TrainingWorkload,
    setup: Setup,
    tool: Tool | None,
    run: Mapping[Field, float],
) -> list[Note]:
    """Return the settings of a run that the command has no name for."""
    names = run_names(model, workload, setup, tool)
    return [
        lacking(
            "token_budget" if field == "max_steps" else field,
            f"The command has no setting for {field} {_number(value)}: set it in the tool itself.",
        )
        for field, value in run.items()
        if names is None or field not in names.names
    ]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def with_files(started: Launch) -> Launch:
    """Return the command with its configuration files, where its tool reads some."""
    if (read := config_files(started.command)) is None:
        return started
    files = [LaunchFile(name=name, text=text) for name, text in read.files.items()]
    return structs.replace(started, files=files, file_command=read.command)


def launch_command(
    model: Model, workload: TrainingWorkload, setup: Setup, tool: Tool | None
) -> str:
    """Return the whole command line: the tool's own, where it has one, else the framework's. Files
    that it reads are written first."""
    if (own := tool_command(tool, model, workload, setup)) is not None:
        return own
    command = joined(command_of(model, workload, setup))
    if workload.framework == "deepspeed" and f" {DEEPSPEED}" in command:
        return f"echo {shlex.quote(deepspeed_config(workload))} > {DEEPSPEED} && {command}"
    return command


def tool_command(
    tool: Tool | None, model: Model, workload: TrainingWorkload, setup: Setup = SUPERVISED
) -> str | None:
    """Return the tool's own command; None where it has none for this training."""
    if tool is None or tool.command is None or not tool.runs(model, workload, setup):
        return None
    command = tool.command(model, workload, setup)
    if tool.sets_allocator or not workload.uses_expandable_segments:
        return command
    return f"export {_ALLOCATOR}\n{command}"


def command_of(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return the words of the command: the sampling trainer's, else the framework's."""
    sampler = _sampler(setup)
    command = None if sampler is None else sampler.sampling_command
    words = (command or launcher_of(workload).command)(model, workload, setup)
    environment = allocator(workload)
    return [*environment, *(words[1:] if environment and words[0] == "env" else words)]


def allocator(workload: TrainingWorkload) -> list[object]:
    """Return the words that turn on expandable segments in PyTorch's allocator, where they are."""
    return ["env", _ALLOCATOR] if workload.uses_expandable_segments else []


def _has_placeholders(tool: Tool, model: Model, workload: TrainingWorkload, setup: Setup) -> bool:
    """Return whether the tool's command has words to replace."""
    command = tool_command(tool, model, workload, setup) or ""
    return placeholders(command, tool.placeholders.split(" and ")) is not None


def _sampler(setup: Setup) -> Tool | None:
    """Return the tool that samples by a command of its own."""
    trainer = find_tool(setup.trainer) if setup.sampled else None
    return trainer if trainer is not None and trainer.sampling_command is not None else None


def unsupported_settings(
    model: Model, workload: TrainingWorkload, setup: Setup = SUPERVISED, tool: Tool | None = None
) -> Iterator[Note]:
    """Yield the settings of the estimate that the command has no flag for."""
    runs = tool is not None and tool.runs(model, workload, setup)
    if tool is not None and runs:
        yield from _left_to_do(tool, model, workload, setup)
        yield from tool.unsupported(model, workload, setup)
    elif (sampler := _sampler(setup)) is not None:
        yield from sampler.unsupported(model, workload, setup)
    else:
        launcher = launcher_of(workload)
        if tool is not None and tool.title != launcher.title:
            yield Note(
                "command-of-another-tool",
                "trainer",
                f"{tool.name} has no command here for these settings: the command is"
                f" {launcher.title}'s.",
            )
        yield from launcher.unsupported(model, workload, setup)
    yield from _without_flags(workload, tool)
    if workload.activation_checkpointing == "selective" and not checkpoints_selectively(
        workload.framework, tool if runs else None
    ):
        yield lacking(
            "activation_checkpointing",
            "The command has no flag for selective checkpointing: it checkpoints whole layers,"
            " which needs less memory and is slower.",
        )
    if model.source == "size":
        yield Note(
            "command-placeholders",
            "model",
            "The model is only a size: replace path/to/model with your model's path.",
        )


def checkpoints_selectively(framework: Framework, tool: Tool | None) -> bool:
    """Return whether a command has a flag for selective checkpointing: a tool's own, else that of
    the framework. transformers' Trainer and accelerate have none."""
    return framework == "megatron" if tool is None else tool.selective


def _left_to_do(
    tool: Tool, model: Model, workload: TrainingWorkload, setup: Setup
) -> Iterator[Note]:
    """Yield what is left to do to a tool's own command."""
    if tool.placeholders and _has_placeholders(tool, model, workload, setup):
        yield Note(
            "command-placeholders",
            "trainer",
            f"Replace {tool.placeholders} in the command with the names {tool.name} has for your"
            " model.",
        )
    if workload.gpus > USUAL_NODE and _sampler(setup) is None:
        yield Note(
            "command-of-one-node",
            "gpu_count",
            f"The command starts one node of {USUAL_NODE} GPUs: see {tool.name}'s documentation"
            " for several.",
        )


def _without_flags(workload: TrainingWorkload, tool: Tool | None) -> Iterator[Note]:
    """Yield the settings that few commands have."""
    runners = {one.kernels: one.name for one in TOOLS if one.kernels}
    if workload.kernels in runners and (tool is None or not tool.kernels):
        yield Note(
            "kernels-need-trainer",
            "kernels",
            "The command runs transformers' own layers: send trainer"
            f" {runners[workload.kernels]} for kernels {workload.kernels}.",
        )
    if workload.packed and not (tool.packs if tool else workload.framework != "megatron"):
        yield lacking("packed", "The command does not pack samples: set it in the tool itself.")
    if workload.ema != "none":
        yield lacking(
            "ema",
            "No flag sets up the moving average of the weights: add it to the trainer in code.",
        )
    if workload.optimizer_in_backward and not (tool and tool.steps_in_backward):
        others = ", ".join(one.name for one in TOOLS if one.steps_in_backward)
        yield lacking(
            "optimizer_in_backward",
            "The command has no flag for optimizer_in_backward: set it up in code, or use"
            f" {others}.",
        )
