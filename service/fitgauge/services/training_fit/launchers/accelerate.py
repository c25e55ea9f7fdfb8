"""accelerate: flags of its launcher, and its configuration file for FSDP. Source:
accelerate/commands/launch.py."""

from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import flags, switch, turned_on
from fitgauge.services.training_fit.launchers.common import attention_name, nodes
from fitgauge.services.training_fit.launchers.deepspeed import DEEPSPEED

FSDP = "fsdp.yaml"


def accelerate_flags(workload: TrainingWorkload) -> list[object]:
    """Return the flags of the launcher: processes, nodes, FSDP or DeepSpeed, degrees. Source:
    accelerate/commands/launch.py."""
    several, sharded = nodes(workload) > 1, workload.framework == "fsdp"
    partitioned, in_fp8 = workload.framework == "deepspeed", workload.precision == "fp8"
    return flags(
        {
            "--num_processes": workload.gpus,
            "--num_machines": nodes(workload) if several else None,
            "--machine_rank": "$NODE_RANK" if several else None,
            "--main_process_ip": "$MASTER_ADDR" if several else None,
            **(_fsdp(workload) if sharded else {}),
            "--use_deepspeed": partitioned,
            "--deepspeed_config_file": DEEPSPEED if partitioned else None,
            "--mixed_precision": "fp8" if in_fp8 else None,
            "--fp8_backend": "te" if in_fp8 else None,
            "--fp8_format": "HYBRID" if in_fp8 else None,
        }
    )


def _fsdp(workload: TrainingWorkload) -> dict[str, object]:
    second = workload.fsdp_version == 2
    return {
        "--use_fsdp": True,
        "--fsdp_version": workload.fsdp_version,
        "--fsdp_reshard_after_forward": switch(workload.zero_stage == 3) if second else None,
        "--fsdp_sharding_strategy": None if second else fsdp1_strategy(workload),
        "--fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "--fsdp_offload_params": turned_on(workload.offload != "none"),
        **_degrees(workload),
    }


def mesh_environment(workload: TrainingWorkload) -> list[object]:
    """Return accelerate's environment for a mesh without FSDP2: sequences under DeepSpeed
    (Ulysses), tensors under no framework. Its launcher takes flags of a mesh with FSDP2 only.
    Source: accelerate/commands/launch.py, _validate_launch_command;
    accelerate/parallelism_config.py; utils/dataclasses.py, DeepSpeedSequenceParallelConfig."""
    kernel = attention_name(workload)
    if workload.framework == "deepspeed" and workload.context_parallel > 1:
        variables: dict[str, object] = {
            "SP_SIZE": workload.context_parallel,
            "SP_ATTN_IMPLEMENTATION": kernel,
        }
    elif workload.framework == "transformers" and workload.tensor_parallel > 1:
        variables = {"TP_SIZE": workload.tensor_parallel, "DP_SHARD_SIZE": workload.data_parallel}
    else:
        return []
    return [
        "env",
        "ACCELERATE_USE_PARALLELISM_CONFIG=true",
        *(f"PARALLELISM_CONFIG_{name}={value}" for name, value in variables.items()),
    ]


def fsdp1_strategy(workload: TrainingWorkload) -> str:
    """Return FSDP1's name of what is sharded, and over which ranks
    (torch/distributed/fsdp/api.py, ShardingStrategy)."""
    if workload.data_parallel_replicate > 1:
        return "HYBRID_SHARD" if workload.zero_stage == 3 else "HYBRID_SHARD_ZERO2"
    return "FULL_SHARD" if workload.zero_stage == 3 else "SHARD_GRAD_OP"


def _degrees(workload: TrainingWorkload) -> dict[str, object]:
    """Return FSDP2's mesh: replicas, shards, context and tensor parallel; nothing where all ranks
    hold shards."""
    replicas = workload.data_parallel_replicate
    mesh = replicas * workload.tensor_parallel * workload.context_parallel
    if workload.fsdp_version == 1 or mesh == 1:
        return {}
    return {
        "--use_parallelism_config": "true",
        "--parallelism_config_dp_replicate_size": replicas,
        "--parallelism_config_dp_shard_size": workload.data_parallel // replicas,
        "--parallelism_config_tp_size": workload.tensor_parallel,
        "--parallelism_config_cp_size": workload.context_parallel,
    }


def accelerate_config(workload: TrainingWorkload) -> str:
    """Return accelerate's YAML for FSDP. Checkpointing is in it, not among the script's flags: the
    Trainer refuses both. Source: its docs, "Fully Sharded Data Parallel"."""
    precision = {"mixed_fp16": "fp16", "mixed_bf16": "bf16", "fp8": "fp8"}.get(
        workload.precision, "no"
    )
    lines = [
        "distributed_type: FSDP",
        f"num_processes: {workload.gpus}",
        f"num_machines: {nodes(workload)}",
    ]
    lines.append(f"mixed_precision: {precision}")
    if precision == "fp8":
        lines += ["fp8_config:", "  backend: TE", "  fp8_format: HYBRID"]
    lines += [
        "fsdp_config:",
        f"  fsdp_version: {workload.fsdp_version}",
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
    ]
    if workload.fsdp_version == 2:
        lines.append(f"  fsdp_reshard_after_forward: {switch(workload.zero_stage == 3)}")
    else:
        strategy = "FULL_SHARD" if workload.zero_stage == 3 else "SHARD_GRAD_OP"
        lines.append(f"  fsdp_sharding_strategy: {strategy}")
    lines.append(f"  fsdp_offload_params: {switch(workload.offload != 'none')}")
    lines.append(
        f"  fsdp_activation_checkpointing: {switch(workload.activation_checkpointing == 'full')}"
    )
    if workload.data_parallel_replicate * workload.tensor_parallel * workload.context_parallel > 1:
        lines += [
            "parallelism_config:",
            f"  parallelism_config_dp_replicate_size: {workload.data_parallel_replicate}",
            (
                "  parallelism_config_dp_shard_size:"
                f" {workload.data_parallel // workload.data_parallel_replicate}"
            ),
            f"  parallelism_config_tp_size: {workload.tensor_parallel}",
            f"  parallelism_config_cp_size: {workload.context_parallel}",
        ]
    return "\n".join(lines) + "\n"
