"""How to start the training that was estimated: one command with its settings, and the files it
reads."""

from collections.abc import Mapping

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined, shell_quote
from fitgauge.services.training_fit.launchers import has_command, tool_command
from fitgauge.services.training_fit.launchers.config_files import DEEPSPEED, deepspeed_config
from fitgauge.services.training_fit.launchers.megatron import (
    megatron_command,
    unsupported_by_megatron,
)
from fitgauge.services.training_fit.launchers.rl import openrlhf_command, verl_command
from fitgauge.services.training_fit.launchers.trl import (
    accelerate_flags,
    mesh_environment,
    script_flags,
)

SUPERVISED = Setup(algorithm="sft", trainer="trl", reference="none")
"""Training without other models."""
_OVER_TRAINER = ("unsloth", "axolotl", "llama-factory", "ms-swift")
"""Tools that train by transformers' Trainer."""
_SAMPLING = ("ppo", "grpo", "rloo")
"""Algorithms that verl and OpenRLHF have commands for."""
_NAMED: Mapping[str | None, str] = {
    "torchtune": "CONFIG stands",
    "torchtitan": "MODULE and CONFIG stand",
}
_UNSAID = {"muon": "Muon", "adam_mini": "Adam-mini", "adamw_torch_fp8": "torchao's AdamWFp8"}


def launch_command(
    model: Model, workload: TrainingWorkload, setup: Setup = SUPERVISED, tool: str | None = None
) -> str:
    """Return the command line, whole: of the tool that was named, where it has one here. What it
    reads from a file it writes first."""
    if tool is not None and has_command(tool, model, workload, setup):
        return tool_command(tool, model, workload, setup)
    command = joined(command_of(model, workload, setup))
    if workload.framework == "deepspeed" and f" {DEEPSPEED}" in command:
        return f"echo {shell_quote(deepspeed_config(workload))} > {DEEPSPEED} && {command}"
    return command


def command_of(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return the words of the command: of the library that trains, else Megatron's script, else
    TRL's or transformers' under accelerate."""
    words = _command(model, workload, setup)
    return [
        *allocator(workload),
        *(words[1:] if workload.uses_expandable_segments and words[0] == "env" else words),
    ]


def allocator(workload: TrainingWorkload) -> list[object]:
    """Return how PyTorch's allocator is told to let its segments grow, where they do. Source:
    PyTorch's notes on CUDA semantics."""
    return (
        ["env", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]
        if workload.uses_expandable_segments
        else []
    )


def _command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    if setup.algorithm in _SAMPLING:
        if setup.trainer == "verl":
            return verl_command(model, workload, setup)
        if setup.trainer == "openrlhf":
            return openrlhf_command(model, workload, setup)
    if workload.framework == "megatron":
        return megatron_command(model, workload, setup)
    return [
        *mesh_environment(workload),
        "accelerate",
        "launch",
        *accelerate_flags(workload),
        *script_flags(model, workload, setup),
    ]


def unsupported_settings(
    model: Model, workload: TrainingWorkload, setup: Setup = SUPERVISED, tool: str | None = None
) -> list[str]:
    """Return what was estimated and has no flag in the command, as sentences."""
    samples = setup.trainer != "trl" and setup.algorithm in _SAMPLING
    found, own = [], samples or has_command(tool, model, workload, setup)
    under_trl = workload.framework != "megatron" and (not own or tool in _OVER_TRAINER)
    if tool is not None and not own and tool != "trl":
        found.append(
            f"No command of {tool} is written here: {'TRL' if under_trl else 'Megatron'}'s has"
            " these settings."
        )
    if own and tool in _NAMED:
        found.append(f"{_NAMED[tool]} in the command: put there what {tool} has for your model.")
    if own and not samples and workload.gpus > USUAL_NODE:
        found.append(
            f"The command is that of one node of {USUAL_NODE} GPUs: {tool} says how several start"
            " together."
        )
    if workload.kernels in ("lora", "unsloth") and tool not in ("unsloth", "axolotl"):
        theirs = {"lora": "axolotl", "unsloth": "unsloth"}[workload.kernels]
        found.append(
            f"The command runs transformers' own layers: kernels {workload.kernels} are those of"
            f" trainer {theirs}."
        )
    if under_trl and workload.optimizer in _UNSAID:
        found.append(
            f"transformers' Trainer has no --optim for {_UNSAID[workload.optimizer]}: hand the"
            " optimizer to it in code."
        )
    if under_trl and workload.activation_checkpointing == "selective":
        found.append(
            "The Trainer has no flag for selective checkpointing: the command checkpoints whole"
            " layers, which takes less."
        )
    if (
        under_trl
        and workload.optimizer_implementation == "for_loop"
        and workload.optimizer == "adamw"
    ):
        found.append("The Trainer's AdamW steps with foreach: for_loop is set in code.")
    if under_trl and not workload.uses_adapters and not workload.train_vision_tower:
        found.append(
            "The command trains the vision tower too: freeze it in code (requires_grad False)."
        )
    if workload.uses_adapters and workload.quantize_experts and not own and experts(model.spec):
        found.append(
            "TRL has no flag that quantizes experts: axolotl's is quantize_moe_experts, Unsloth"
            " does it by itself."
        )
    if workload.framework == "megatron":
        found += unsupported_by_megatron(workload, setup)
    if under_trl and workload.gradient_dtype == "fp32" and workload.framework == "fsdp":
        found.append(
            "accelerate reduces gradients in the format it computes in: ask its FSDP plugin for"
            " fp32 in code."
        )
    if (
        workload.gradient_dtype == "bf16"
        and workload.framework == "megatron"
        and workload.uses_adapters
    ):
        found.append("ms-swift sums gradients in fp32: it has no flag for bf16.")
    if workload.ema != "none":
        found.append(
            "The moving average of the weights has no flag: add it to the trainer in code."
        )
    if workload.optimizer_in_backward and tool != "torchtune":
        found.append(
            "Stepping in the backward pass has no flag: it is set up in code, or by torchtune's"
            " optimizer_in_bwd."
        )
    if under_trl and workload.framework == "transformers" and workload.tensor_parallel > 1:
        found.append(
            "TRL loads every tensor whole: load the model with"
            f" DistributedConfig(tp_size={workload.tensor_parallel}) in code."
        )
    if (
        under_trl
        and workload.framework == "transformers"
        and workload.tensor_parallel > 1 < workload.data_parallel
    ):
        found.append(
            "accelerate makes no copies beside tensor parallelism: framework fsdp shards them."
        )
    if (
        under_trl
        and workload.framework == "fsdp"
        and workload.fsdp_version == 1
        and workload.tensor_parallel > 1
    ):
        found.append("accelerate divides tensors under FSDP2 alone: send fsdp_version 2.")
    if under_trl and setup.reference == "offloaded":
        found.append(
            "TRL has no flag that keeps the reference in host memory: the command keeps it on the"
            " card."
        )
    if (
        under_trl
        and (workload.tensor_parallel > 1 or workload.pipeline_parallel > 1)
        and workload.framework == "deepspeed"
    ):
        found.append(
            "TRL's trainers use neither tensor nor pipeline parallelism under DeepSpeed: the"
            " command has data parallelism alone."
        )
    if under_trl and workload.pipeline_parallel > 1 and workload.framework == "fsdp":
        found.append(
            "TRL's trainers have no pipelines under FSDP: the command has none. Trainer torchtitan"
            " does."
        )
    if model.source == "size":
        found.append(
            "The model is only a size: put your model's path in the place of path/to/model."
        )
    return found
