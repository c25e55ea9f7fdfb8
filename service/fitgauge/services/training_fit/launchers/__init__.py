"""How each tool is started with the settings that were estimated: one short file a tool."""

from collections.abc import Callable, Mapping

from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.launchers.axolotl import axolotl_command
from fitgauge.services.training_fit.launchers.litgpt import litgpt_command
from fitgauge.services.training_fit.launchers.llama_factory import llama_factory_command
from fitgauge.services.training_fit.launchers.ms_swift import ms_swift_command
from fitgauge.services.training_fit.launchers.openrlhf import (
    openrlhf_sft_command,
    openrlhf_supports,
)
from fitgauge.services.training_fit.launchers.torchtitan import torchtitan_command
from fitgauge.services.training_fit.launchers.torchtune import torchtune_command
from fitgauge.services.training_fit.launchers.unsloth import unsloth_command
from fitgauge.services.training_fit.launchers.verl import verl_sft_command, verl_supports

_PREFERENCE = frozenset({"sft", "reward", "dpo", "kto", "orpo", "simpo"})
_SETS_ALLOCATOR = ("axolotl", "torchtitan", "unsloth")
"""Tools that let the allocator's segments grow by themselves."""
_COMMANDS: Mapping[str, Callable[[Model, TrainingWorkload, Setup], str]] = {
    "axolotl": axolotl_command,
    "litgpt": litgpt_command,
    "llama-factory": llama_factory_command,
    "ms-swift": ms_swift_command,
    "openrlhf": openrlhf_sft_command,
    "torchtitan": torchtitan_command,
    "torchtune": torchtune_command,
    "unsloth": unsloth_command,
    "verl": verl_sft_command,
}
_HAS: Mapping[str, Callable[[TrainingWorkload], bool]] = {
    "openrlhf": openrlhf_supports,
    "verl": verl_supports,
}
"""Whether a tool can be told these settings, of the tools that lack many."""
_ALGORITHMS: Mapping[str, frozenset[str]] = {
    "axolotl": _PREFERENCE - {"reward"},
    "litgpt": frozenset({"sft"}),
    "llama-factory": _PREFERENCE | {"ppo"},
    "ms-swift": _PREFERENCE | {"ppo", "grpo"},
    "openrlhf": frozenset({"sft"}),
    "torchtitan": frozenset({"sft"}),
    "torchtune": frozenset({"sft", "dpo"}),
    "unsloth": _PREFERENCE | {"grpo", "rloo"},
    "verl": frozenset({"sft"}),
}


def has_command(tool: str | None, model: Model, workload: TrainingWorkload, setup: Setup) -> bool:
    """Return whether there is a command of the tool's own for this training."""
    possible = workload.framework != "megatron" and model.spec.task == "generate"
    name = tool or ""
    told = name not in _HAS or _HAS[name](workload)
    return possible and told and setup.algorithm in _ALGORITHMS.get(name, ())


def tool_command(tool: str, model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """Return the whole command of a tool that starts such training, with the files it reads."""
    command = _COMMANDS[tool](model, workload, setup)
    grows = workload.uses_expandable_segments and tool not in _SETS_ALLOCATOR
    return (
        f"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{command}" if grows else command
    )
