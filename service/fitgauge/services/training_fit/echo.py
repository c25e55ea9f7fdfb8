"""understood_as: the request with every default filled in."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit import images, megatron, rl_setup
from fitgauge.services.training_fit.framework_variants import open_settings, reduces
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.run_fields import OF_THE_RUN

Value = str | int | float | bool
_AS_SENT = ("runtime_gib", "other_memory_gib", "host_memory_gib", *OF_THE_RUN)
"""Fields without a default to fill in."""


def echo(trained: TrainingEstimate, accelerator: Accelerator, model: Model) -> dict[str, Value]:
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
) -> dict[str, Value]:
    """Return a workload as fields to send, with every default filled in."""
    routed, sharded = model.spec.routed_experts > 0, workload.framework == "fsdp"
    reduced = workload.gradient_dtype or ("fp32" if reduces(workload) else None)
    fields = {
        "model": model.id,
        "gpu": accelerator.name,
        "gpu_count": count,
        "method": workload.method,
        **(_adapters(workload, routed) if workload.uses_adapters else {}),
        "precision": workload.precision,
        "framework": workload.framework,
        "optimizer": workload.optimizer,
        "optimizer_implementation": workload.optimizer_implementation,
        "loss": workload.loss,
        "sequence_length": workload.sequence_length,
        "mean_sequence_length": workload.mean_sequence_length,
        "padded": workload.padded,
        "packed": workload.packed,
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
        "expert_tensor_parallel": workload.expert_ways if routed else None,
        "data_parallel": workload.data_parallel,
        "data_parallel_replicate": workload.data_parallel_replicate,
        "zero_hpz_partition_size": workload.zero_hpz_partition_size,
        "fsdp_version": workload.fsdp_version if sharded else None,
        "shard_embeddings": workload.shard_embeddings if sharded else None,
        "kernels": workload.kernels,
        "compile": workload.compile,
        "compile_loss": workload.compiles_loss if workload.compile else None,
        "keeps_output": workload.keeps_output,
        "repeats_keys": workload.repeats_keys,
        "transformers_version": workload.transformers_version,
        "expandable_segments": workload.uses_expandable_segments,
        "activation_offload": workload.activation_offload,
        "optimizer_in_backward": workload.optimizer_in_backward,
        "ema": workload.ema,
        "fp8_parameters": workload.fp8_parameters if workload.precision == "fp8" else None,
        "gradient_dtype": reduced,
        **megatron.understood(workload, model.spec),
        **images.understood(workload, model.spec),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _adapters(workload: TrainingWorkload, routed: bool) -> dict[str, Value | None]:
    targets = workload.lora_targets
    quantized = workload.method == "qlora" or bool(workload.quantization)
    return {
        "lora_rank": workload.lora_rank,
        "lora_dropout": workload.lora_dropout,
        "lora_targets": targets if isinstance(targets, str) else ",".join(targets),
        "quantization": workload.quantization or "nf4" if quantized else None,
        "quantize_experts": workload.quantize_experts if quantized and routed else None,
        "fused_experts": workload.fused_experts if quantized and routed else None,
        "lora_experts": workload.lora_experts if routed else None,
        "base_precision": workload.base_precision,
    }
