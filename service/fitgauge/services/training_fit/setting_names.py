"""What the settings of training tools are called, and what their values mean: the names are those
that the launchers write."""

import re
from collections.abc import Callable, Mapping

from fitgauge.services.training_fit import parsing

Read = Callable[[str], object]
"""Reads a value; None, or ValueError or InvalidRequestError, for one that says nothing."""


def _whole(text: str) -> int | None:
    number = text.replace("_", "")
    return int(number) if number.isdecimal() and int(number) > 0 else None


def _is_on(text: str) -> bool:
    return text.lower() not in ("false", "no", "0", "none", "null", "off", "disabled")


def _where_on(value: object) -> Read:
    return lambda text: value if _is_on(text) else None


def _where_off(value: object) -> Read:
    return lambda text: None if _is_on(text) else value


def _one_of(**values: object) -> Read:
    return lambda text: values.get(re.sub(r"[^a-z0-9]", "_", text.lower()))


def _class_of(**values: object) -> Read:
    """Return a reader of the last name of a path in code."""
    read = _one_of(**values)
    return lambda text: read(text.rpartition(".")[2])


def _holding(part: str, value: object) -> Read:
    return lambda text: value if part in text else None


def _optimizer(text: str) -> str:
    return parsing.optimizer(text.rpartition(".")[2])


def _implementation(text: str) -> str | None:
    """Read adamw_torch_fused, and adamw_torch, which is torch's foreach."""
    return {"adamw_torch_fused": "fused", "adamw_torch": "foreach"}.get(text.lower())


def _targets(text: str) -> object:
    """Read a list in brackets, names with spaces or commas between them, or a pattern that ends in
    alternatives."""
    if text in ("all", "all-linear", "all_linear"):
        return "all_linear"
    pattern = re.search(r"\(([\w|]+)\)(_\w+)?\$?$", text)
    if pattern is not None:
        names = [f"{name}{pattern[2] or ''}" for name in pattern[1].split("|")]
    else:
        names = re.findall(r"[A-Za-z]\w+", text.replace("*.", ""))
    return [one for name in names for one in _LINEARS.get(name, (name,))] or None


_LINEARS = {
    "output_proj": ("o_proj",), "linear_qkv": ("q_proj", "k_proj", "v_proj"),
    "linear_proj": ("o_proj",), "linear_fc1": ("gate_proj", "up_proj"),
    "linear_fc2": ("down_proj",),
}  # fmt: skip
"""torchtune's and Megatron's names of linears (torchtune/modules/attention.py; ms-swift docs,
Megatron-SWIFT/Command-line-parameters.md, target_modules)."""
PARTS = {
    "lora_query": "q_proj", "lora_key": "k_proj", "lora_value": "v_proj",
    "lora_projection": "o_proj", "lora_mlp": "gate_proj up_proj down_proj",
    "apply_lora_to_mlp": "gate_proj up_proj down_proj",
}  # fmt: skip
"""Switches of torchtune and LitGPT, each for adapters of some linears."""


def _stage(text: str) -> int | None:
    match = re.search(r"(?:z|zero|stage)[-_]?([0-3])(?!\d)", text.lower())
    return int(match[1]) if match else None


def _offload(text: str) -> str | None:
    """Return what a configuration offloads whose name says that it does: ds_z3_offload_config."""
    if "offload" not in text.lower():
        return None
    return "optimizer" if _stage(text) in (1, 2) else "cpu"


_ATTENTION = _one_of(
    eager="eager", sdpa="sdpa", flash_attention_2="flash", flash_attention_3="flash", fa2="flash",
    fa3="flash", flash_attn="flash", flash="flash", flex_attention="flex", disabled="eager",
    unfused="eager", fused="sdpa",
)  # fmt: skip
_CHECKPOINTING = (
    "gradient_checkpointing use_gradient_checkpointing enable_activation_checkpointing"
    " enable_gradient_checkpointing gradient_checkpointing_enable fsdp_activation_checkpointing"
    " activation_checkpoint activation_checkpointing"
)
_LIGER = "use_liger_kernel enable_liger_kernel use_liger"
_BF16_FLAGS = _one_of(true=True, auto=True, false=False)
_NAMES: Mapping[tuple[str, Read], str] = {
    ("micro_batch_size", _whole):
        "per_device_train_batch_size micro_batch_size train_micro_batch_size_per_gpu"
        " per_gpu_train_batch_size micro_train_batch_size ppo_micro_batch_size_per_gpu"
        " micro_batch_size_per_gpu local_batch_size",
    ("batch_size", _whole): "batch_size",
    ("eval_batch_size", _whole): "per_device_eval_batch_size",
    ("micro_batches", _whole): "gradient_accumulation_steps num_pp_microbatches",
    ("sequences_per_step", _whole):
        "global_batch_size train.batch_size data.train_batch_size",
    ("prompts_per_step", _whole): "ppo_mini_batch_size",
    ("tokens_per_micro_batch", _whole): "num_tokens_per_microbatch_per_dp_rank",
    ("tokens_per_step", _whole): "num_tokens_per_train_step",
    ("processes", _whole):
        "num_processes nproc_per_node num_gpus num_gpus_per_node n_gpus_per_node ngpu devices",
    ("sequence_length", _whole):
        "max_seq_length cutoff_len sequence_len seq_length tokenizer.max_seq_len training.seq_len"
        " seq_len max_context_length max_length max_len",
    ("prompt_length", _whole): "max_prompt_length",
    ("completion_length", _whole): "max_completion_length max_response_length",
    ("group_size", _whole): "num_generations rollout.n n_samples_per_prompt",
    ("lora_rank", _whole):
        "lora_r lora_rank lora.rank model.lora_rank peft.dim loraconfig.r get_peft_model.r",
    ("lora_dropout", float): "lora_dropout peft.dropout",
    ("lora_targets", _targets):
        "lora_target_modules target_modules lora_target lora_attn_modules",
    **{(name, _where_on(True)): name for name in PARTS},
    ("lora_targets", _where_on("all_linear")): "lora_target_linear match_all_linear",
    ("optimizer", _optimizer): "optim optimizer optimizer.optimizer optimizer._target_"
        " optimizer._component_",
    ("optimizer_implementation", _one_of(fused="fused", foreach="foreach", for_loop="for_loop")):
        "optimizer.implementation",
    ("optimizer_implementation", _one_of(true="fused", false="foreach")): "optimizer.fused",
    ("optimizer_implementation", _implementation): "optim optimizer",
    ("optimizer_in_backward", _where_on(True)): "optimizer_in_bwd",
    ("zero_stage", _whole): "zero_optimization.stage ds.zero_stage zero_stage",
    ("zero_stage", _stage): "deepspeed deepspeed_config deepspeed_config_file",
    ("offload", _offload): "deepspeed deepspeed_config deepspeed_config_file",
    ("zero_stage", _one_of(true=3, always=3, false=2, never=2)):
        "fsdp_reshard_after_forward reshard_after_forward",
    ("zero_stage", _one_of(full_shard=3, hybrid_shard=3, shard_grad_op=2)):
        "fsdp_sharding_strategy",
    ("framework", _where_on("deepspeed")):
        "deepspeed deepspeed_config deepspeed_config_file use_deepspeed zero_optimization.stage"
        " ds.zero_stage",
    ("framework", _where_on("fsdp")): "fsdp use_fsdp fsdp_version",
    ("framework", _one_of(fsdp="fsdp", deepspeed="deepspeed")): "distributed_type",
    ("fsdp_version", _whole): "fsdp_version",
    ("fsdp_version", _one_of(fsdp=1, fsdp2=2)): "engine.strategy actor.strategy",
    ("offload", _one_of(cpu="cpu", nvme="nvme")): "offload_param.device offload_param_device",
    ("offload", _one_of(cpu="optimizer", nvme="nvme")):
        "offload_optimizer.device offload_optimizer_device",
    ("offload", _where_on("cpu")):
        "fsdp_offload_params offload_params fsdp_cpu_offload enable_cpu_offload offload_policy"
        " param_offload",
    ("offload", _where_on("optimizer")): "adam_offload optimizer_cpu_offload optimizer_offload",
    ("offload", _where_off("none")): "fsdp_cpu_offload",
    ("activation_checkpointing", _one_of(full="full", selective="selective")):
        f"recompute_granularity {_CHECKPOINTING}",
    ("activation_checkpointing", _where_on("full")): _CHECKPOINTING,
    ("activation_checkpointing", _where_off("full")): "disable_gradient_checkpointing",
    ("activation_checkpointing", _where_on("selective")): "recompute_activations",
    ("activation_checkpointing", _where_off("none")): _CHECKPOINTING,
    ("activation_checkpointing", _where_on("none")): "disable_gradient_checkpointing",
    ("recompute_modules", _targets): "recompute_modules",
    ("activation_offload", _where_on(True)):
        "activation_offloading enable_activation_offloading enable_activation_offload"
        " use_unsloth_gc",
    ("attention", _ATTENTION): "attn_implementation attn_impl flash_attn attention_backend",
    ("attention", _where_on("flash")): "flash_attention",
    ("precision", _where_on("mixed_fp16")): "fp16 fp16.enabled",
    ("precision", _where_on("bf16")): "pure_bf16",
    ("precision", _where_off("bf16")): "peft_autocast_adapter_dtype",
    ("precision", _one_of(bfloat16="bf16")): "lora_dtype",
    ("precision", _where_on("mixed_bf16")): "float32_mixed_precision",
    ("precision", _where_on("fp8")): "fp8 fp8_format",
    ("precision", _one_of(
        bf16_true="bf16", bf16_mixed="mixed_bf16", _16_mixed="mixed_fp16", _32_true="fp32",
        **{"16_mixed": "mixed_fp16", "32_true": "fp32"},
        bf16_with_fp8_delayed_scaling_mixed="fp8")): "precision mixed_precision",
    ("stored_in", _one_of(
        bfloat16=16, bf16=16, float16=16, fp16=16, float32=32, fp32=32)):
        "dtype torch_dtype model_dtype training.dtype model.torch_dtype",
    ("autocasts", _BF16_FLAGS): "bf16",
    ("autocasts", _one_of(bfloat16=True, float32=False)): "engine.dtype fsdp_config.dtype",
    ("autocasts", _one_of(float32=False)): "mixed_precision_param",
    ("kernels", _where_on("liger")): _LIGER,
    ("kernels", _holding("liger", "liger")): "plugins",
    ("kernels", _where_off("none")): "use_liger_kernel",
    ("kernels", _one_of(true="lora", false="none")): "lora_mlp_kernel",
    ("loss", _class_of(
        maskedcrossentropy="full", chunkedcrossentropy="chunked",
        fusedlinearcrossentropy="fused", crossentropyloss="full",
        linearcrossentropyloss="chunked")): "loss_fn._target_ loss._component_ loss",
    ("loss", _holding("cut_cross_entropy", "fused")): "plugins",
    ("loss", _where_on("fused")):
        f"{_LIGER} liger_fused_linear_cross_entropy cut_cross_entropy",
    ("quantize_experts", _where_on(True)): "quantize_moe_experts",
    ("lora_experts", _where_on(True)): "lora_target_parameters target_parameters",
    ("loss", _where_on("chunked")): "chunked_cross_entropy",
    ("loss", _one_of(chunked_nll="recomputed", nll="full")): "loss_type",
    ("compile", _where_on(True)):
        "torch_compile compile compile.enabled compile.enable cross_entropy_loss_fusion",
    ("packed", _where_on(True)): "packing sample_packing dataset.packed",
    ("method", _where_on("dora")): "use_dora peft_use_dora",
    ("method", _where_on("qlora")): "load_in_4bit quantize_base",
    ("method", _one_of(
        bnb_nf4="qlora", bnb_nf4_dq="qlora", bnb_fp4="qlora", bnb_int8_training="qlora")):
        "quantize",
    ("method", lambda text: "qlora" if text == "4" else None): "quantization_bit quant_bits",
    ("method", _one_of(full="full", lora="lora", qlora="qlora", freeze=None)):
        "finetuning_type tuner_type train_type adapter peft_scheme",
    ("method", _where_on("full")): "full_finetuning",
    ("method", _where_on("lora")): "use_peft",
    ("method", lambda text: "lora" if _whole(text) else None):
        "lora.rank model.lora_rank peft.dim",
    ("quantization", _one_of(
        bnb_nf4="nf4", bnb_nf4_dq="nf4_double", bnb_fp4="fp4", bnb_int8_training="int8")):
        "quantize",
    ("quantization", _where_on("int8")): "load_in_8bit",
    ("quantization", lambda text: "int8" if text == "8" else None): "quantization_bit quant_bits",
    ("quantized_as", _one_of(nf4="nf4", fp4="fp4")):
        "bnb_4bit_quant_type quantization_type",
    ("quantized_twice", _one_of(true=True, false=False)):
        "bnb_4bit_use_double_quant use_bnb_nested_quant double_quantization"
        " double_quant",
    ("tensor_parallel", _whole):
        "tensor_model_parallel_size tensor_parallel_degree tensor_parallel_size"
        " tensor_parallel_dim tp_size parallelism_config_tp_size",
    ("rollout_tensor_parallel", _whole):
        "rollout.tensor_model_parallel_size vllm.tensor_parallel_size vllm_tensor_parallel_size",
    ("pipeline_parallel", _whole):
        "pipeline_model_parallel_size pipeline_parallel_degree pp_size",
    ("context_parallel", _whole):
        "context_parallel_size context_parallel_degree cp_size parallelism_config_cp_size"
        " parallelism_config_sp_size sequence_parallel_size",
    ("expert_parallel", _whole): "expert_model_parallel_size expert_parallel_degree ep_size",
    ("expert_tensor_parallel", _whole): "expert_tensor_parallel_size",
    ("data_parallel_replicate", _whole):
        "data_parallel_replicate_degree dp_replicate_size parallelism_config_dp_replicate_size",
    ("pipeline_schedule", _one_of(**{
        "1f1b": "1f1b", "gpipe": "gpipe", "interleaved1f1b": "interleaved"})):
        "pipeline_parallel_schedule",
    ("sequence_parallel", _where_on(True)): "sequence_parallel",
    ("sequence_parallel", _where_on(False)): "no_enable_sequence_parallel",
    ("rollout_memory_utilization", float):
        "vllm_gpu_memory_utilization rollout.gpu_memory_utilization vllm.gpu_memory_utilization",
    ("rollout_engine", _one_of(colocate="vllm", server="none")): "vllm_mode",
    ("algorithm", _one_of(grpo="grpo", rloo="rloo", group_norm="grpo", gae="ppo")):
        "adv_estimator advantage.estimator",
    ("algorithm", _one_of(
        dpo="dpo", kto="kto", orpo="orpo", simpo="simpo", grpo="grpo", gkd="gkd")):
        "rl rlhf_type rlhf",
    ("teacher_model", str): "teacher_model teacher_model_name_or_path",
    ("algorithm", _one_of(dpo="dpo", kto="kto", rm="reward", ppo="ppo")): "stage",
}  # fmt: skip
"""A field with how its value is read: the names that tools have for it. Of several that say
something the first row counts. What several settings say together is put together in
`tool_settings`."""
MEANINGS: Mapping[str, tuple[tuple[str, Read], ...]] = {
    name: tuple(key for key, names in _NAMES.items() if name in names.split())
    for names in _NAMES.values()
    for name in names.split()
}
FIELDS: Mapping[tuple[str, Read], int] = {key: place for place, key in enumerate(_NAMES)}
"""The rows by their place."""
