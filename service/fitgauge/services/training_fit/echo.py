"""understood_as: the request with every default filled in."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit import images, megatron, rl_setup
from fitgauge.services.training_fit.framework_variants import open_settings, reduces
from fitgauge.services.training_fit.result import TrainingEstimate

_AS_SENT = (
    "runtime_gib", "other_memory_gib", "host_memory_gib", "samples", "epochs", "token_budget",
    "mfu", "price_per_gpu_hour", "save_steps", "save_total_limit",
    "eval_batch_size", "eval_generated_tokens", "merge", "resume_gpu_count",
)  # fmt: skip
"""Fields without a default to fill in."""


def echo(
    trained: TrainingEstimate, accelerator: Accelerator, model: Model
) -> dict[str, str | int | float | bool]:
    """Return understood_as. Settings that the framework's version decides stay out, so that it
    gets the same answer when it is sent."""
    request = trained.request
    filled = workload_fields(
        trained.workload, accelerator, trained.count, model
    ) | rl_setup.understood(request, trained.setup)
    filled |= {name: value for name in _AS_SENT if (value := getattr(request, name)) is not None}
    left_out = open_settings(request, trained.workload, trained.moved)
    return {name: value for name, value in filled.items() if name not in left_out}


def workload_fields(
    workload: TrainingWorkload, accelerator: Accelerator, count: int, model: Model
) -> dict[str, str | int | float | bool]:
    """Return a workload as fields to send, with every default filled in."""
    targets = workload.lora_targets
    adapters: dict[str, str | int | float | bool] = {}
    if workload.uses_adapters:
        adapters = {
            "lora_rank": workload.lora_rank,
            "lora_dropout": workload.lora_dropout,
            "lora_targets": targets if isinstance(targets, str) else ",".join(targets),
        }
        if workload.method == "qlora" or workload.quantization:
            adapters["quantization"] = workload.quantization or "nf4"
            adapters |= (
                {"quantize_experts": workload.quantize_experts} if model.spec.routed_experts else {}
            )
        if model.spec.routed_experts:
            adapters["lora_experts"] = workload.lora_experts
        adapters["base_precision"] = workload.base_precision
    return {
        "model": model.id,
        "gpu": accelerator.name,
        "gpu_count": count,
        "method": workload.method,
        **adapters,
        "precision": workload.precision,
        "framework": workload.framework,
        "optimizer": workload.optimizer,
        "optimizer_implementation": workload.optimizer_implementation,
        "loss": workload.loss,
        "sequence_length": workload.sequence_length,
        **(
            {"mean_sequence_length": workload.mean_sequence_length}
            if workload.mean_sequence_length is not None
            else {}
        ),
        "padded": workload.padded,
        "micro_batch_size": workload.micro_batch_size,
        "micro_batches": workload.micro_batches,
        "activation_checkpointing": workload.activation_checkpointing,
        "attention": workload.attention,
        "activation_rule": rule_of(model.spec, workload),
        "zero_stage": workload.zero_stage,
        "offload": workload.offload,
        "tensor_parallel": workload.tensor_parallel,
        "sequence_parallel": workload.sequence_parallel,
        "pipeline_parallel": workload.pipeline_parallel,
        "pipeline_schedule": workload.pipeline_schedule,
        "context_parallel": workload.context_parallel,
        "expert_parallel": workload.expert_parallel,
        **({"expert_tensor_parallel": workload.expert_ways} if model.spec.routed_experts else {}),
        "data_parallel": workload.data_parallel,
        "data_parallel_replicate": workload.data_parallel_replicate,
        "zero_hpz_partition_size": workload.zero_hpz_partition_size,
        **(
            {"fsdp_version": workload.fsdp_version, "shard_embeddings": workload.shard_embeddings}
            if workload.framework == "fsdp"
            else {}
        ),
        "kernels": workload.kernels,
        "compile": workload.compile,
        **({"compile_loss": workload.compiles_loss} if workload.compile else {}),
        "keeps_output": workload.keeps_output,
        "repeats_keys": workload.repeats_keys,
        **(
            {"transformers_version": workload.transformers_version}
            if workload.transformers_version
            else {}
        ),
        "expandable_segments": workload.uses_expandable_segments,
        "activation_offload": workload.activation_offload,
        "optimizer_in_backward": workload.optimizer_in_backward,
        "ema": workload.ema,
        **({"fp8_parameters": workload.fp8_parameters} if workload.precision == "fp8" else {}),
        **(
            {"gradient_dtype": workload.gradient_dtype or "fp32"}
            if workload.gradient_dtype or reduces(workload)
            else {}
        ),
        **megatron.understood(workload, model.spec),
        **images.understood(workload, model.spec),
    }
