"""OpenRLHF without sampling: flags of `openrlhf.cli.train_sft`. Source: openrlhf 0.11,
openrlhf/cli/train_sft.py."""

import re
from collections.abc import Iterator

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import flags, joined, path_of
from fitgauge.services.training_fit.launchers.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import (
    attention_name,
    base_format,
    nodes,
    processes_per_node,
    sequences_per_step,
)
from fitgauge.services.training_fit.launchers.run_settings import RunNames
from fitgauge.services.training_fit.launchers.tool import (
    ADAPTERS,
    Default,
    RolloutDefaults,
    Tool,
    lacking,
)
from fitgauge.services.training_fit.launchers.words_as_files import script_of

_ESTIMATORS = {"ppo": "gae", "grpo": "group_norm", "rloo": "rloo"}
_OPTIMIZERS = {"adamw": "adam", "muon": "muon"}
_DTYPES = {"mixed_fp16": "fp16", "bf16": "bf16", "mixed_bf16": "bf16"}


def openrlhf_supports(workload: TrainingWorkload) -> bool:
    """Return whether its DeepSpeed strategy has these settings: no other optimizers, nor
    parameters in host memory, nor DeepSpeed's Ulysses."""
    stored = (None, "nf4", "nf4_double") if workload.precision != "mixed_fp16" else (None,)
    supported = (
        workload.optimizer in _OPTIMIZERS
        and workload.precision in _DTYPES
        and base_format(workload) in stored
    )
    moved = (
        workload.offload in ("none", "optimizer")
        and workload.context_parallel * workload.pipeline_parallel == 1
    )
    return workload.framework == "deepspeed" and supported and moved and workload.method != "dora"


def openrlhf_sft_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`openrlhf.cli.train_sft` under DeepSpeed's launcher; a 4-bit base is double quantized
    (openrlhf/models/actor.py)."""
    tensor, partition = workload.tensor_parallel, workload.zero_hpz_partition_size
    settings = {
        "--num_gpus": processes_per_node(workload),
        "--module": "openrlhf.cli.train_sft",
        "--model.model_name_or_path": path_of(model),
        "--data.dataset": "DATASET",
        "--data.max_len": workload.sequence_length,
        "--train.micro_batch_size": workload.micro_batch_size,
        "--train.batch_size": sequences_per_step(workload),
        "--model.gradient_checkpointing_enable": workload.activation_checkpointing != "none",
        "--ds.zero_stage": workload.zero_stage,
        "--ds.param_dtype": _DTYPES[workload.precision],
        "--ds.attn_implementation": attention_name(workload),
        "--ds.zpg": partition if partition > 1 else None,
        "--ds.tensor_parallel_size": tensor if tensor > 1 else None,
        "--ds.adam_offload": workload.offload == "optimizer",
        "--ds.grad_accum_dtype": workload.gradient_dtype,
        "--ds.use_liger_kernel": workload.kernels == "liger" or workload.loss == "fused",
        "--optim": _OPTIMIZERS[workload.optimizer],
        **_adapters(model, workload),
    }
    return joined(["deepspeed", *flags(settings)])


def _adapters(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    if not workload.uses_adapters:
        return {}
    every = workload.lora_targets == "all_linear"
    return {
        "--ds.lora.rank": workload.lora_rank,
        "--ds.lora.target_modules": None if every else target_modules(model.spec, workload),
        "--ds.load_in_4bit": base_format(workload) is not None,
    }


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    """Yield what neither trainer has a flag for."""
    if workload.optimizer not in _OPTIMIZERS:
        yield lacking("optimizer", f"OpenRLHF has no {workload.optimizer}: it steps Adam.")
    if workload.offload not in ("none", "optimizer"):
        yield lacking("offload", "OpenRLHF moves the optimizer alone to host memory.")


def openrlhf_command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """`openrlhf.cli.train_ppo_ray` with every model on the same GPUs. Source:
    openrlhf/cli/train_ppo_ray.py."""
    roles = {
        "actor": True,
        "ref": setup.reference != "none",
        "critic": setup.criticized,
        "reward": setup.rewarded,
    }
    settings: dict[str, object] = {}
    for role in (role for role, holds in roles.items() if holds):
        settings[f"--{role}.num_nodes"] = nodes(workload)
        settings[f"--{role}.num_gpus_per_node"] = processes_per_node(workload)
    settings |= {
        "--train.colocate_all": True,
        "--actor.model_name_or_path": path_of(model),
        "--reward.model_name_or_path": "REWARD_MODEL" if setup.rewarded else None,
        "--reward.remote_url": None if setup.rewarded else "reward_func.py",
        "--algo.advantage.estimator": _ESTIMATORS[setup.algorithm],
        "--rollout.n_samples_per_prompt": setup.group_size,
        "--algo.kl.init_coef": 0 if setup.reference == "none" else 0.01,
        "--train.micro_batch_size": workload.micro_batch_size,
        "--train.batch_size": sequences_per_step(workload),
        "--data.max_len": setup.prompt_length + setup.completion_length,
        "--data.prompt_dataset": "DATASET",
        "--ds.zero_stage": workload.zero_stage,
        "--ds.param_dtype": "fp16" if workload.precision == "mixed_fp16" else "bf16",
        "--actor.gradient_checkpointing_enable": workload.activation_checkpointing != "none",
        "--ds.adam_offload": workload.offload != "none",
        "--ref.offload": setup.reference == "offloaded",
        **_adapters(model, workload),
    }
    if (rollout := setup.rollout) is not None:
        settings |= {
            "--vllm.num_engines": max(1, workload.gpus // rollout.tensor_parallel),
            "--vllm.tensor_parallel_size": rollout.tensor_parallel,
            "--vllm.gpu_memory_utilization": rollout.memory_utilization,
            "--vllm.enable_sleep": rollout.sleep != "off",
            "--ds.enable_sleep": rollout.sleep != "off",
        }
    return ["python3", "-m", "openrlhf.cli.train_ppo_ray", *flags(settings)]


OPENRLHF = Tool(
    name="openrlhf",
    title="OpenRLHF",
    phrases=("openrlhf", "open rlhf"),
    sign=re.compile(r"\bopenrlhf\.cli\b"),
    version="0.11",
    writer="other",
    framework="deepspeed",
    command=openrlhf_sft_command,
    run_names=RunNames(
        "flags", {"epochs": "train.max_epochs", "save_steps": "ckpt.save_steps"}
    ),
    supports=openrlhf_supports,
    trains_whole=True,  # openrlhf/cli/train_sft.py, ds.lora.rank: 0
    trainer="openrlhf",
    offloads_reference=True,
    # examples/scripts/train_ppo_ray_hybrid_engine.sh; vllm_engine.py
    rollout=RolloutDefaults("vllm", 0.5, "level_1", tensor_parallel=2, batched_tokens=None),
    sampling_command=openrlhf_command,
    unsupported=_unsupported,
    files=script_of(frozenset(("openrlhf.cli.train_sft", "openrlhf.cli.train_ppo_ray"))),
    defaults=(
        Default("precision", "bf16", "openrlhf/cli/train_sft.py, --ds.param_dtype"),
        Default("activation_checkpointing", "full",
            "examples/scripts: gradient_checkpointing_enable (off by default)"),
        Default("attention", "flash", "openrlhf/cli/train_sft.py, --ds.attn_implementation"),
        Default("quantization", "nf4_double", "openrlhf/models/actor.py, bnb_4bit_use_double_quant",
            ("qlora",)),
        Default("lora_targets", "all_linear", "openrlhf/cli/train_sft.py, --ds.lora.target_modules",
            ADAPTERS),
    ),
)  # fmt: skip
