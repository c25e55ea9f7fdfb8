"""torchtitan: run_train.sh with the configuration of a model, and what it says otherwise.
Source: torchtitan, config/configs.py."""

import re
from collections.abc import Sequence

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.parallel.pipeline import DEFAULT_CHUNKS
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import flags, joined
from fitgauge.services.training_fit.launchers.common import processes_per_node
from fitgauge.services.training_fit.launchers.tool import Change, Default, Tool, lacking
from fitgauge.services.training_fit.launchers.words_as_files import (
    ConfigFiles,
    command_after,
    flags_of,
    place_of,
)

_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}
"""As torch/distributed/pipelining/schedules.py has them, get_schedule_class."""


def torchtitan_supports(workload: TrainingWorkload) -> bool:
    """Return whether its trainer has these settings: AdamW under FSDP2, in bf16 or fp32
    (config/configs.py, dtype and mixed_precision_param; components/optimizer/optimizer.py)."""
    return (
        not workload.uses_adapters
        and workload.framework == "fsdp"
        and workload.fsdp_version == 2
        and workload.optimizer == "adamw"
        and workload.precision in ("mixed_bf16", "bf16", "fp32")
    )


def torchtitan_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """Return run_train.sh, which sets the allocator by itself; MODULE and CONFIG name the model
    (torchtitan/models/*/config_registry.py). The policy of activation checkpointing is a
    subcommand and comes last (torchtitan/distributed/activation_checkpoint.py,
    ActivationCheckpointingConfig)."""
    of_batch = workload.sequence_length * workload.micro_batch_size
    of_step = of_batch * workload.micro_batches * workload.data_parallel
    accumulates = workload.micro_batches > 1 and workload.pipeline_parallel == 1
    replicas = workload.data_parallel_replicate
    tensor = workload.tensor_parallel
    experts = workload.expert_parallel
    settings = {
        "--training.max_context_length": workload.sequence_length,
        "--training.num_tokens_per_microbatch_per_dp_rank": of_batch,
        "--training.num_tokens_per_train_step": of_step if accumulates else None,
        "--training.dtype": "bfloat16" if workload.precision == "bf16" else "float32",
        "--training.mixed_precision_param": "float32" if workload.precision == "fp32" else None,
        "--optimizer.implementation": workload.optimizer_implementation.replace("_", "-"),
        "--parallelism.data_parallel_replicate_degree": replicas,
        "--parallelism.data_parallel_shard_degree": workload.data_parallel // replicas,
        "--parallelism.tensor_parallel_degree": tensor,
        "--parallelism.no_enable_sequence_parallel": (
            tensor > 1 and not workload.sequence_parallel
        ),
        "--parallelism.expert_parallel_degree": experts if experts > 1 else None,
        "--parallelism.context_parallel_degree": workload.context_parallel,
        "--parallelism.fsdp_reshard_after_forward": (
            "always" if workload.zero_stage == 3 else "never"
        ),
        **_pipeline(model, workload),
        "--compile.enable": workload.compile,
        "--training.enable_cpu_offload": workload.offload != "none",
    }
    processes = f"NGPU={processes_per_node(workload)}"
    start = ["env", processes, "MODULE=MODULE", "CONFIG=CONFIG", "./run_train.sh"]
    recomputed = f"activation-checkpoint:{workload.activation_checkpointing}"
    return joined([*start, *flags(settings), recomputed])


def _pipeline(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    """Of a pipeline: its stages, schedule and micro-batches; layers of a stage where a rank has
    more than two of them."""
    ranks, chunks = workload.pipeline_parallel, workload.pipeline_chunks
    if ranks == 1:
        return {}
    small = workload.pipeline_schedule == "interleaved" and chunks > DEFAULT_CHUNKS
    layers = -(-(model.spec.layers + 2) // (ranks * chunks))
    return {
        "--parallelism.pipeline_parallel_degree": ranks,
        "--parallelism.pipeline_parallel_schedule": _SCHEDULES[workload.pipeline_schedule],
        "--parallelism.num_pp_microbatches": workload.micro_batches,
        "--parallelism.pipeline_parallel_layers_per_stage": layers if small else None,
    }


def _unsupported(_: Model, workload: TrainingWorkload, __: Setup) -> list[Note]:
    """Return what stands in the model's configuration alone, where it is another than its own."""
    if workload.loss == "chunked_backward":
        return []
    return [
        lacking(
            "loss",
            "torchtitan takes the loss as CONFIG says, in chunks since April 2026: set"
            " CrossEntropyLoss in it for whole logits, or send loss chunked_backward.",
        )
    ]


def _files(before: Sequence[str], words: Sequence[str]) -> ConfigFiles | None:
    """Read run_train.sh, whose start is then of the module, from the folder that both are in."""
    place = place_of(words, lambda word: word.endswith("run_train.sh"))
    if place is None:
        return None
    start = [_OF_MODULE.get(word.partition("=")[0], word) for word in words[: place + 1]]
    names = dict(word.split("=", 1) for word in words[:place] if "=" in word)
    module = _module(names["MODULE"], names["CONFIG"], words[place + 1 :])
    return ConfigFiles({f"{_MODULE}.py": module}, command_after(before, start))


def _module(model: str, config: str, flags: Sequence[str]) -> str:
    """Return torchtitan's configuration: a module with a function that changes that of the model.

    TOML files were read until 2025; since then a run is a Python function, which flags still
    overrule. Source: torchtitan, main of August 2026, torchtitan/config/README.md and manager.py,
    ConfigManager._load_config; distributed/activation_checkpoint.py, ActivationCheckpointingConfig.
    """
    *settings, recomputed = flags
    policy = _POLICIES[recomputed.partition(":")[2]]
    lines = [f"from torchtitan.models.{model}.config_registry import {config}"]
    if policy is not None:
        lines.insert(0, f"from torchtitan.distributed.activation_checkpoint import {policy}")
    lines += ["from torchtitan.trainer import Trainer", "", ""]
    lines += ["def train() -> Trainer.Config:", f"    config = {config}()"]
    for name, value in flags_of(settings).items():
        section, _, field = name.rpartition(".")
        if field.startswith("no_"):
            field, value = field.removeprefix("no_"), False
        lines.append(f"    config.{section}.{field} = {value!r}")
    chosen = "None" if policy is None else f"{policy}.Config()"
    lines += [f"    config.activation_checkpoint = {chosen}", "    return config", ""]
    return "\n".join(['"""A run of torchtitan."""', "", *lines])


_MODULE = "titan_run"
_OF_MODULE = {"MODULE": f"MODULE={_MODULE}", "CONFIG": "CONFIG=train"}
_POLICIES = {"none": None, "selective": "SelectiveAC", "full": "FullAC"}
_COMPILED_LOSS = Change((2025, 4, 2), (0, 1))

TORCHTITAN = Tool(
    name="torchtitan",
    title="torchtitan",
    phrases=("torchtitan",),
    sign=re.compile(r"\btorchtitan\b|\brun_train\.sh\b", re.IGNORECASE),
    version="main of August 2026",
    selective=True,
    writer="torchtitan",
    framework="fsdp",
    aliases=("titan",),
    command=torchtitan_command,
    files=_files,
    supports=torchtitan_supports,
    unsupported=_unsupported,
    trains_whole=True,  # torchtitan/components/lora.py: a converter that is off
    placeholders="MODULE and CONFIG",
    sets_allocator=True,
    defaults=(
        Default("precision", "mixed_bf16",
            "torchtitan/config/configs.py, dtype float32, mixed_precision_param bfloat16"),
        Default("activation_checkpointing", "full",
            "torchtitan/models/llama3/config_registry.py, FullAC from 70B", parameters=60e9,
            families=("llama",)),
        Default("activation_checkpointing", "full",
            "torchtitan/models/qwen3/config_registry.py, FullAC from 14B", parameters=14e9,
            families=("qwen3", "qwen3_moe")),
        Default("activation_checkpointing", "full",
            "torchtitan/models/qwen3_5/config_registry.py, FullAC from 4B", parameters=4e9,
            families=("qwen3_5", "qwen3_5_moe")),
        Default("activation_checkpointing", "full",
            "torchtitan/models/gpt_oss/config_registry.py, FullAC", families=("gpt_oss",)),
        Default("sequence_parallel", True,
            "torchtitan/config/configs.py, enable_sequence_parallel", divided=True),
        Default("activation_checkpointing", "selective",
            "torchtitan/models/llama3/config_registry.py, SelectiveAC"),
        Default("optimizer_implementation", "fused",
            "torchtitan/components/optimizer/optimizer.py, implementation"),
        Default("fsdp_version", 2, "torchtitan/distributed/fsdp.py, fully_shard"),
        Default("shard_embeddings", True,
            "torchtitan/distributed/fsdp.py: embedding and head apart"),
        Default("gradient_dtype", "fp32", "torchtitan/config/configs.py, mixed_precision_reduce"),
        Default("expandable_segments", True, "run_train.sh, PYTORCH_ALLOC_CONF"),
    ),
    moved=(
        Default("loss", "chunked_backward",
            "torchtitan/models/*/config_registry.py, ChunkedLossWrapper since April 2026",
            since=Change((2026, 4, 27), (0, 2, 3)), spanned=True),
        Default("compile_loss", False, "torchtitan/train.py: layers alone are compiled",
            compiled=True, until=_COMPILED_LOSS),
        Default("compile_loss", True, "torchtitan/components/loss.py, build_cross_entropy_loss",
            compiled=True, since=_COMPILED_LOSS),
        Default("optimizer_implementation", "foreach",
            "torchtitan/config_manager.py, optimizer.fused: False",
            until=Change((2025, 2, 24), (0, 1))),
    ),
)  # fmt: skip
