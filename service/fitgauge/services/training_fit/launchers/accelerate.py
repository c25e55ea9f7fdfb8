"""accelerate: flags of its launcher, and its configuration file for FSDP. Source:
accelerate/commands/launch.py."""

from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import flags, switch, turned_on
from fitgauge.services.training_fit.launchers.common import attention_name, nodes
from fitgauge.services.training_fit.launchers.deepspeed import DEEPSPEED
from fitgauge.services.training_fit.launchers.file_formats import yaml_of

FSDP = "fsdp.yaml"
_MIXED = {"mixed_fp16": "fp16", "mixed_bf16": "bf16", "fp8": "fp8"}


def accelerate_flags(workload: TrainingWorkload) -> list[object]:
    """Return the flags of the launcher: processes, nodes, FSDP or DeepSpeed, degrees. Source:
    accelerate/commands/launch.py."""
    several, in_fp8 = nodes(workload) > 1, workload.precision == "fp8"
    sharded, partitioned = workload.framework == "fsdp", workload.framework == "deepspeed"
    mesh = _mesh(workload) if sharded else {}
    return flags(
        {
            "--num_processes": workload.gpus,
            "--num_machines": nodes(workload) if several else None,
            "--machine_rank": "$NODE_RANK" if several else None,
            "--main_process_ip": "$MASTER_ADDR" if several else None,
            "--use_fsdp": sharded,
            **(_as_flags(_fsdp(workload)) if sharded else {}),
            "--fsdp_offload_params": turned_on(sharded and workload.offload != "none"),
            "--use_parallelism_config": turned_on(mesh != {}),
            **_as_flags(mesh),
            "--use_deepspeed": partitioned,
            "--deepspeed_config_file": DEEPSPEED if partitioned else None,
            "--mixed_precision": "fp8" if in_fp8 else None,
            "--fp8_backend": "te" if in_fp8 else None,
            "--fp8_format": "HYBRID" if in_fp8 else None,
        }
    )


def _as_flags(settings: dict[str, object]) -> dict[str, object]:
    return {
        f"--{name}": switch(value) if isinstance(value, bool) else value
        for name, value in settings.items()
    }


def _fsdp(workload: TrainingWorkload) -> dict[str, object]:
    """Return what is sharded and how, by the names that flags and the file have it under."""
    second = workload.fsdp_version == 2
    return {
        "fsdp_version": workload.fsdp_version,
        **({"fsdp_reshard_after_forward": workload.zero_stage == 3} if second else {}),
        **({} if second else {"fsdp_sharding_strategy": _fsdp1_strategy(workload)}),
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
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


def _fsdp1_strategy(workload: TrainingWorkload) -> str:
    """Return FSDP1's name of what is sharded, and over which ranks
    (torch/distributed/fsdp/api.py, ShardingStrategy)."""
    if workload.data_parallel_replicate > 1:
        return "HYBRID_SHARD" if workload.zero_stage == 3 else "HYBRID_SHARD_ZERO2"
    return "FULL_SHARD" if workload.zero_stage == 3 else "SHARD_GRAD_OP"


def _mesh(workload: TrainingWorkload) -> dict[str, object]:
    """Return FSDP2's mesh: replicas, shards, context and tensor parallel; nothing where all ranks
    hold shards."""
    replicas = workload.data_parallel_replicate
    mesh = replicas * workload.tensor_parallel * workload.context_parallel
    if workload.fsdp_version == 1 or mesh == 1:
        return {}
    return {
        "parallelism_config_dp_replicate_size": replicas,
        "parallelism_config_dp_shard_size": workload.data_parallel // replicas,
        "parallelism_config_tp_size": workload.tensor_parallel,
        "parallelism_config_cp_size": workload.context_parallel,
    }


def accelerate_config(workload: TrainingWorkload) -> str:
    """Return accelerate's YAML for FSDP. Checkpointing is in it, not among the script's flags: the
    Trainer refuses both. Source: its docs, "Fully Sharded Data Parallel"."""
    mesh, in_fp8 = _mesh(workload), workload.precision == "fp8"
    settings: dict[str, object] = {
        "distributed_type": "FSDP",
        "num_processes": workload.gpus,
        "num_machines": nodes(workload),
        "mixed_precision": _MIXED.get(workload.precision, "no"),
        **({"fp8_config": {"backend": "TE", "fp8_format": "HYBRID"}} if in_fp8 else {}),
        "fsdp_config": {
            **_fsdp(workload),
            "fsdp_offload_params": workload.offload != "none",
            "fsdp_activation_checkpointing": workload.activation_checkpointing == "full",
        },
        **({"parallelism_config": mesh} if mesh else {}),
    }
    return yaml_of(settings)
