"""Commands of the libraries that train on completions they sample: verl and OpenRLHF."""

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import path_of

_ESTIMATORS = {"ppo": "gae", "grpo": "grpo", "rloo": "rloo"}
_OPENRLHF_ESTIMATORS = {"ppo": "gae", "grpo": "group_norm", "rloo": "rloo"}


def verl_command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """`verl.trainer.main_ppo` with its settings. Source: verl/trainer/config/ppo_trainer.yaml,
    actor, ref, rollout and critic beside it."""
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    batch = workload.micro_batch_size * workload.micro_batches * workload.data_parallel
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
    settings |= _verl_engine(workload, actor)
    if workload.uses_adapters:
        targets = workload.lora_targets
        named = (
            "all-linear"
            if targets == "all_linear"
            else (
                "[q_proj,k_proj,v_proj,o_proj]"
                if isinstance(targets, str)
                else f"[{','.join(targets)}]"
            )
        )
        settings |= {
            "actor_rollout_ref.model.lora_rank": workload.lora_rank,
            "actor_rollout_ref.model.target_modules": named,
        }
    if setup.rollout is not None and setup.rollout.engine != "transformers":
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
        "trainer.n_gpus_per_node": min(USUAL_NODE, workload.gpus),
        "trainer.nnodes": -(-workload.gpus // USUAL_NODE),
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
    return {
        f"{actor}.strategy": "fsdp2",
        f"{engine}.reshard_after_forward": workload.zero_stage == 3,
        f"{engine}.param_offload": everything,
        f"{engine}.optimizer_offload": workload.offload != "none",
        f"{engine}.model_dtype": "bfloat16" if workload.precision == "bf16" else "fp32",
    }


def openrlhf_command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """`openrlhf.cli.train_ppo_ray` with every model on the same cards. Source:
    openrlhf/cli/train_ppo_ray.py."""
    nodes, each = -(-workload.gpus // USUAL_NODE), min(USUAL_NODE, workload.gpus)
    words: list[object] = ["python3", "-m", "openrlhf.cli.train_ppo_ray"]
    roles = [
        "actor",
        *(["ref"] if setup.reference != "none" else []),
        *(["critic"] if setup.criticized else []),
    ]
    roles += ["reward"] if setup.rewarded else []
    for role in roles:
        words += [f"--{role}.num_nodes", nodes, f"--{role}.num_gpus_per_node", each]
    words += ["--train.colocate_all", "--actor.model_name_or_path", path_of(model)]
    words += (
        ["--reward.model_name_or_path", "REWARD_MODEL"]
        if setup.rewarded
        else ["--reward.remote_url", "reward_func.py"]
    )
    words += [
        "--algo.advantage.estimator",
        _OPENRLHF_ESTIMATORS[setup.algorithm],
        "--rollout.n_samples_per_prompt",
        setup.group_size,
    ]
    words += ["--algo.kl.init_coef", 0 if setup.reference == "none" else 0.01]
    words += ["--train.micro_batch_size", workload.micro_batch_size]
    words += [
        "--train.batch_size",
        workload.micro_batch_size * workload.micro_batches * workload.data_parallel,
    ]
    words += [
        "--data.max_len",
        setup.prompt_length + setup.completion_length,
        "--data.prompt_dataset",
        "DATASET",
    ]
    words += [
        "--ds.zero_stage",
        workload.zero_stage,
        "--ds.param_dtype",
        "fp16" if workload.precision == "mixed_fp16" else "bf16",
    ]
    words += (
        ["--actor.gradient_checkpointing_enable"]
        if workload.activation_checkpointing != "none"
        else []
    )
    words += ["--ds.adam_offload"] if workload.offload != "none" else []
    words += ["--ref.offload"] if setup.reference == "offloaded" else []
    if workload.uses_adapters:
        words += ["--ds.lora.rank", workload.lora_rank]
        words += ["--ds.load_in_4bit"] if workload.method == "qlora" else []
    if setup.rollout is not None:
        words += ["--vllm.num_engines", max(1, workload.gpus // setup.rollout.tensor_parallel)]
        words += ["--vllm.tensor_parallel_size", setup.rollout.tensor_parallel]
        words += ["--vllm.gpu_memory_utilization", setup.rollout.memory_utilization]
        words += (
            ["--vllm.enable_sleep", "--ds.enable_sleep"] if setup.rollout.sleep != "off" else []
        )
    return words
