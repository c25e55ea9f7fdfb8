"""What a checkpoint holds as training tools write it, file by file."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import exactly
from fitgauge.engine.training.states.optimizer_states import master_bytes, optimizer_bytes
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

Writer = Literal["trainer", "megatron", "torchtitan", "torchtune", "litgpt", "other"]
"""Whose code writes: transformers' Trainer, which TRL and most tools train by; other: not read."""


class CheckpointFile(NamedTuple):
    """A file, or the files of all ranks that are alike."""

    name: str
    """As the tool names it."""
    bytes: int
    """Size [bytes], without headers, step counters and random states."""
    formula: str
    """Of what it is the sum."""
    source: str
    """The code that writes it."""


class _Parts(NamedTuple):
    """Sizes of what is trained, of all ranks, replicas once [bytes]."""

    weights: int
    """As they are held."""
    masters: int
    """Their wider copy, where the framework keeps one."""
    states: int
    """Optimizer states."""
    half: int
    """All weights in 16 bit, adapters merged into them."""


def checkpoint_files(
    spec: ModelSpec, workload: TrainingWorkload, writer: Writer
) -> tuple[CheckpointFile, ...]:
    """Return the files of one checkpoint. Adapters are saved without their frozen base, but by
    torchtune, which merges them."""
    parts, adapters = _parts(spec, workload), workload.uses_adapters
    if writer == "torchtune":
        return tuple(_of_torchtune(parts, adapters=adapters))
    if writer == "litgpt" and adapters:
        source = "litgpt/finetune/lora.py, save_lora_checkpoint"
        return (_weights("lit_model.pth.lora", parts, source),)
    if writer == "litgpt":
        return (
            CheckpointFile(
                "lit_model.pth",
                parts.weights + parts.states,
                f"weights {exactly(parts.weights)} + states {exactly(parts.states)}",
                "litgpt/finetune/full.py, fabric.save of model and optimizer",
            ),
        )
    if writer == "trainer" and workload.framework != "megatron":
        return tuple(_of_trainer(parts, workload))
    source = _SOURCES[writer]
    return (_weights("weights", parts, source), _states("optimizer", parts, source))


_SOURCES = {
    "trainer": "megatron/core/dist_checkpointing",
    "megatron": "megatron/core/dist_checkpointing",
    "torchtitan": "torchtitan's checkpoints, torch.distributed.checkpoint",
    "other": "weights, masters and states of the estimate; the tool's own files were not read",
}


def _parts(spec: ModelSpec, workload: TrainingWorkload) -> _Parts:
    policy = precision_policy(workload)
    weights = masters = states = half = 0
    for unit in units(spec, workload):
        number = len(unit.layers)
        trained = [parameter for parameter in unit.parameters if parameter.trained]
        weights += number * sum(parameter.bytes for parameter in trained)
        masters += number * master_bytes(trained, workload)
        states += number * sum(
            optimizer_bytes(parameter, workload.optimizer, policy) for parameter in trained
        )
        half += number * sum(
            size_of(parameter.elements, "BF16")
            for parameter in unit.parameters
            if not parameter.adapter
        )
    return _Parts(weights, masters, states, half)


def _of_trainer(parts: _Parts, workload: TrainingWorkload) -> Iterator[CheckpointFile]:
    """Yield what transformers' Trainer writes with accelerate's defaults.

    FSDP1 saves whole weights twice, for from_pretrained and for resuming; FSDP2 shards alone.
    DeepSpeed saves 16-bit weights for from_pretrained, below stage 3 once more with the module, and
    every rank's masters and states. Source: transformers trainer.py, save_model and
    _save_optimizer_and_scheduler; accelerate utils/dataclasses.py, set_state_dict_type;
    deepspeed/runtime/engine.py, save_checkpoint."""
    name = "adapter_model.safetensors" if workload.uses_adapters else "model.safetensors"
    saved = "transformers trainer.py, save_model"
    resumed = "accelerate utils/fsdp_utils.py, "
    if workload.framework == "fsdp" and workload.fsdp_version == 2:
        yield _weights("pytorch_model_fsdp_0/", parts, resumed + "save_fsdp_model")
        yield _states("optimizer_0/", parts, resumed + "save_fsdp_optimizer")
        return
    yield _weights(name, parts, saved)
    if workload.framework == "fsdp":
        yield _weights("pytorch_model_fsdp.bin", parts, resumed + "save_fsdp_model")
        yield _states("optimizer.bin", parts, resumed + "save_fsdp_optimizer")
    elif workload.framework == "deepspeed":
        source = "deepspeed/runtime/engine.py, save_checkpoint"
        if workload.zero_stage < 3:
            yield _weights("global_step*/mp_rank_*_model_states.pt", parts, source)
        yield _states("global_step*/*_optim_states.pt", parts, source)
    else:
        yield _states(
            "optimizer.pt", parts, "transformers trainer.py, _save_optimizer_and_scheduler"
        )


def _of_torchtune(parts: _Parts, *, adapters: bool) -> Iterator[CheckpointFile]:
    """Yield what torchtune writes after an epoch, save_adapter_weights_only false as in its
    recipes."""
    source = "torchtune/training/checkpointing/_checkpoint_client.py, _save_checkpoint_sync"
    if adapters:
        yield CheckpointFile(
            "model-*.safetensors", parts.half, f"merged weights {exactly(parts.half)}", source
        )
        yield _weights("adapter_model.safetensors", parts, source)
    else:
        yield _weights("model-*.safetensors", parts, source)
    yield _states("recipe_state.pt", parts, source)


def _weights(name: str, parts: _Parts, source: str) -> CheckpointFile:
    return CheckpointFile(name, parts.weights, f"weights {exactly(parts.weights)}", source)


def _states(name: str, parts: _Parts, source: str) -> CheckpointFile:
    masters = f"masters {exactly(parts.masters)} + " if parts.masters else ""
    return CheckpointFile(
        name, parts.masters + parts.states, f"{masters}states {exactly(parts.states)}", source
    )
