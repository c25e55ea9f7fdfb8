"""verl without sampling: overrides of `verl.trainer.sft_trainer`. Source: verl 0.7,
verl/trainer/config/sft_trainer_engine.yaml."""

import re
from collections.abc import Iterator, Sequence

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined, path_of
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
from fitgauge.services.training_fit.launchers.words_as_files import (
    ConfigFiles,
    nested,
    place_of,
    settings_file,
    value_of,
)

_ESTIMATORS = {"ppo": "gae", "grpo": "grpo", "rloo": "rloo"}
_OPTIMIZERS = {
    "adamw": ("torch.optim", "AdamW"), "adamw_8bit": ("bitsandbytes.optim", "AdamW8bit"),
    "paged_adamw": ("bitsandbytes.optim", "PagedAdamW32bit"),
    "paged_adamw_8bit": ("bitsandbytes.optim", "PagedAdamW8bit"),
    "sgd": ("torch.optim", "SGD"),
}  # fmt: skip
"""Module and class (verl/workers/config/optimizer.py, build_optimizer)."""
_PRECISIONS = {
    "mixed_bf16": ("fp32", "bfloat16"),
    "mixed_fp16": ("fp32", "float16"),
    "bf16": ("bfloat16", "bfloat16"),
}
"""Format of the weights, and the one it computes in (verl/trainer/config/engine/fsdp.yaml,
model_dtype and dtype)."""


def verl_supports(workload: TrainingWorkload) -> bool:
    """Return whether its FSDP engine has these settings: it quantizes no base, divides no
    tensors or sequences as accelerate does."""
    divided = workload.tensor_parallel * workload.context_parallel * workload.pipeline_parallel > 1
    supported = workload.optimizer in _OPTIMIZERS and workload.precision in _PRECISIONS
    moved = workload.offload == "none" or workload.fsdp_version == 2
    return (
        workload.framework == "fsdp"
        and supported
        and moved
        and not divided
        and base_format(workload) is None
        and workload.method != "dora"
    )


def verl_sft_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`verl.trainer.sft_trainer` under torchrun. Batches of as many tokens as come are turned
    off, so that micro-batches have a size."""
    stored, computed = _PRECISIONS[workload.precision]
    library, optimizer = _OPTIMIZERS[workload.optimizer]
    settings: dict[str, object] = {
        "data.train_files": "DATA.parquet",
        "data.train_batch_size": (sequences_per_step(workload)),
        "data.use_dynamic_bsz": False,
        "data.micro_batch_size_per_gpu": workload.micro_batch_size,
        "data.max_length": workload.sequence_length,
        "model.path": path_of(model),
        "model.enable_gradient_checkpointing": workload.activation_checkpointing != "none",
        "model.enable_activation_offload": workload.activation_offload,
        "model.use_liger": workload.kernels == "liger" or workload.loss == "fused",
        "engine.strategy": "fsdp2" if workload.fsdp_version == 2 else "fsdp",
        "engine.reshard_after_forward": workload.zero_stage == 3,
        "engine.model_dtype": stored,
        "engine.dtype": computed,
        "engine.offload_policy": workload.offload != "none",
        "engine.fsdp_size": workload.data_parallel // workload.data_parallel_replicate,
        "optim.optimizer_impl": library,
        "optim.optimizer": optimizer,
        **_attention("model", workload),
    }
    if workload.uses_adapters:
        settings |= _adapters("model", model, workload)
    words = [
        "torchrun",
        "--standalone",
        f"--nproc-per-node={processes_per_node(workload)}",
        "-m",
        "verl.trainer.sft_trainer",
    ]
    return joined([*words, *(f"{name}={value}" for name, value in settings.items())])


def _attention(section: str, workload: TrainingWorkload) -> dict[str, object]:
    """Return the attention, where it is another than the default."""
    if workload.attention == "flash":
        return {}
    return {f"+{section}.override_config.attn_implementation": attention_name(workload)}


def _adapters(section: str, model: Model, workload: TrainingWorkload) -> dict[str, object]:
    targets = target_modules(model.spec, workload)
    named = "all-linear" if workload.lora_targets == "all_linear" else f"[{','.join(targets)}]"
    return {f"{section}.lora_rank": workload.lora_rank, f"{section}.target_modules": named}


def verl_command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """`verl.trainer.main_ppo` with its settings. Source: verl/trainer/config/ppo_trainer.yaml,
    actor, ref, rollout and critic in addition to it."""
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    batch = sequences_per_step(workload)
    words: list[object] = ["python3", "-m", "verl.trainer.main_ppo"]
    if workload.framework == "megatron":
        words.append("--config-name=ppo_megatron_trainer")
    settings: dict[str, object] = {
        "algorithm.adv_estimator": _ESTIMATORS[setup.algorithm],
        "data.train_files": "DATA.parquet",
        "data.train_batch_size": max(1, batch // setup.group_size),
        "data.max_prompt_length": setup.prompt_length,
        "data.max_response_length": setup.completion_length,
        "actor_rollout_ref.model.path": path_of(model),
        "actor_rollout_ref.model.enable_gradient_checkpointing": (
            workload.activation_checkpointing != "none"
        ),
        f"{actor}.ppo_mini_batch_size": max(1, batch // setup.group_size),
        f"{actor}.ppo_micro_batch_size_per_gpu": workload.micro_batch_size,
        f"{actor}.use_kl_loss": setup.reference != "none",
        f"{rollout}.log_prob_micro_batch_size_per_gpu": workload.micro_batch_size,
        f"{rollout}.n": setup.group_size,
    }
    settings |= _attention("actor_rollout_ref.model", workload)
    settings |= _verl_engine(workload, actor)
    if workload.uses_adapters:
        settings |= _adapters("actor_rollout_ref.model", model, workload)
    if setup.rollout is not None and setup.rollout.serves:
        settings |= {
            f"{rollout}.name": setup.rollout.engine,
            f"{rollout}.gpu_memory_utilization": setup.rollout.memory_utilization,
            f"{rollout}.tensor_model_parallel_size": setup.rollout.tensor_parallel,
            f"{rollout}.free_cache_engine": setup.rollout.sleep != "off",
        }
    if setup.reference != "none":
        settings["actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"] = (
            workload.micro_batch_size
        )
    if setup.criticized:
        settings |= {
            "critic.model.path": path_of(model),
            "critic.ppo_micro_batch_size_per_gpu": workload.micro_batch_size,
        }
    if setup.rewarded:
        settings |= {"reward_model.enable": True, "reward_model.model.path": "REWARD_MODEL"}
    settings |= {
        "trainer.n_gpus_per_node": processes_per_node(workload),
        "trainer.nnodes": nodes(workload),
    }
    return [*words, *(f"{name}={value}" for name, value in settings.items())]


def _verl_engine(workload: TrainingWorkload, actor: str) -> dict[str, object]:
    """Sharding, degrees and what rests in host memory."""
    everything = workload.offload not in ("none", "optimizer")
    if workload.framework == "megatron":
        engine = f"{actor}.megatron"
        return {
            f"{engine}.tensor_model_parallel_size": workload.tensor_parallel,
            f"{engine}.pipeline_model_parallel_size": workload.pipeline_parallel,
            f"{engine}.context_parallel_size": workload.context_parallel,
            f"{engine}.expert_model_parallel_size": workload.expert_parallel,
            f"{engine}.expert_tensor_parallel_size": workload.expert_ways,
            f"{engine}.param_offload": everything,
            f"{engine}.grad_offload": everything,
            f"{engine}.optimizer_offload": workload.offload != "none",
        }
    engine = f"{actor}.fsdp_config"
    library, optimizer = _OPTIMIZERS.get(workload.optimizer, _OPTIMIZERS["adamw"])
    return {
        f"{actor}.optim.optimizer_impl": library,
        f"{actor}.optim.optimizer": optimizer,
        f"{actor}.strategy": "fsdp2",
        f"{engine}.reshard_after_forward": workload.zero_stage == 3,
        f"{engine}.param_offload": everything,
        f"{engine}.optimizer_offload": workload.offload != "none",
        f"{engine}.model_dtype": "bfloat16" if workload.precision == "bf16" else "fp32",
    }


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    """Yield what neither trainer has a setting for."""
    if base_format(workload) is not None:
        yield lacking("method", "verl quantizes no base: the command trains LoRA on 16 bit.")
    if workload.optimizer not in _OPTIMIZERS:
        yield lacking("optimizer", f"verl has no {workload.optimizer} here: it steps AdamW.")
    if workload.compile:
        yield lacking("compile", "verl compiles what it computes of logits alone, never layers.")


def _files(before: Sequence[str], words: Sequence[str]) -> ConfigFiles | None:
    """Read overrides of verl's own configuration, by Hydra. Source: verl/trainer/sft_trainer.py and
    main_ppo.py, hydra.main; examples/sglang_multiturn/config."""
    place = place_of(words, lambda word: word in _CONFIGURATIONS)
    if place is None:
        return None
    overrides = dict(word.lstrip("+").split("=", 1) for word in words[place + 1 :])
    settings = {"defaults": [_CONFIGURATIONS[words[place]], "_self_"]}
    settings |= nested({name: value_of(value) for name, value in overrides.items()})
    start = [*words[: place + 1], "--config-dir", ".", "--config-name", "verl"]
    return settings_file(before, start, "verl.yaml", settings)


_CONFIGURATIONS = {
    "verl.trainer.sft_trainer": "sft_trainer_engine",
    "verl.trainer.main_ppo": "ppo_trainer",
}
"""By its program."""

VERL = Tool(
    name="verl",
    title="verl",
    phrases=("verl",),
    sign=re.compile(r"\bactor_rollout_ref\.|\bverl\.trainer\b"),
    version="0.7",
    writer="other",
    framework="fsdp",
    aliases=("easyr1",),
    command=verl_sft_command,
    files=_files,
    run_names=RunNames(
        "overrides",
        {
            "epochs": "trainer.total_epochs",
            "max_steps": "trainer.total_training_steps",
            "save_steps": "trainer.save_freq",
        },
    ),
    supports=verl_supports,
    trains_whole=True,  # verl/trainer/config/model/hf_model.yaml, lora_rank: 0
    trainer="verl",
    offloads_reference=True,
    # rollout/rollout.yaml; free_cache_engine is sleep level 2 (vllm_async_server.py)
    rollout=RolloutDefaults("vllm", 0.5, "level_2", tensor_parallel=2, batched_tokens=8192),
    sampling_command=verl_command,
    unsupported=_unsupported,
    defaults=(
        Default("precision", "mixed_bf16",
            "verl/trainer/config/engine/fsdp.yaml, model_dtype fp32, dtype bfloat16"),
        Default("activation_checkpointing", "full",
            "verl/trainer/config/model/hf_model.yaml, enable_gradient_checkpointing"),
        Default("attention", "flash",
            "verl/workers/config/model.py, attn_implementation: flash_attention_2"),
        Default("gradient_dtype", "fp32",
            "verl/workers/engine/fsdp/transformer_impl.py, mixed_precision: reduce_dtype"),
        Default("lora_targets", "all_linear",
            "verl/trainer/config/model/hf_model.yaml, target_modules", ADAPTERS),
    ),
)  # fmt: skip
