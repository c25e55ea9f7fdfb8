"""How agents and other tools call the fields and values of a request.

Names are compared without case, spaces, dashes and underscores. An alias of a field lists fields in
order of preference: a tool takes the first that its request has."""

from collections.abc import Mapping

from fitgauge.engine.quantity import HOURS_OF_A_MONTH
from fitgauge.engine.serving.options import ALL_LAYERS
from fitgauge.engine.serving.registry import ENGINES

Value = str | int | float | bool

GPU_MEMORY = "gpu memory"
"""No field: the memory of the GPU, which belongs to its name."""

MODEL_SIZE = "model size"
"""No field: the parameters of the model, which belong to its name."""

PARTS_OF_NAMES: Mapping[str, str] = {GPU_MEMORY: "gpu", MODEL_SIZE: "model"}
"""What belongs to a name, and the field of that name."""

NODES = "nodes"
GPUS_PER_NODE = "gpus per node"
"""No fields: machines, and the GPUs of one of them, which make the number of GPUs."""

ANSWER = "output_tokens"
"""A field of a fit; elsewhere what a context holds besides its prompt."""

_TOKENS = ("context_length", "sequence_length", "context_lengths")
_REQUESTS = ("micro_batch_size", "concurrency", "concurrencies")
_FORMAT = ("quantization", "quantizations")
_GPU = ("gpu", "gpus")
_MODEL = ("model", "models")
_CHECKPOINTING = ("activation_checkpointing",)
_SEQS = ("max_num_seqs",)
_SHARE = ("gpu_memory_utilization",)

NAMES: Mapping[tuple[str, ...], str] = {
    _MODEL: (
        "model models model_id model_name model_name_or_path huggingface_id repo repo_id "
        "checkpoint base_model llm model_path pretrained_model_name_or_path"
    ),
    _GPU: (
        "gpu gpus gpu_type gpu_name gpu_model accelerator device hardware graphics_card card "
        "instance instance_type machine_type machine cluster available_gpus gpu_options "
        "gpu_choices gpu_candidates"
    ),
    (MODEL_SIZE,): "model_size parameters params",
    (GPU_MEMORY,): "vram gpu_memory gpu_vram gpu_ram memory",
    ("gpu_count", "max_gpu_count"): (
        "n_gpus ngpu gpus_count number_of_gpus amount count quantity qty world_size num_processes "
        "num_gpu num_devices device_count total_gpus"
    ),
    ("max_gpu_count",): "max_gpus",
    (NODES,): "nodes nnodes machines instance_count",
    (GPUS_PER_NODE, "gpu_count"): "num_gpus_per_node gpu_per_node nproc_per_node",
    _TOKENS: (
        "context_length context_lengths sequence_length max_model_len max_length ctx ctx_len "
        "ctx_size context context_window min_context min_context_length seq_len seq_length "
        "sequence_len max_seq_len cutoff_len tokens max_position_embeddings max_total_tokens "
        "length c"
    ),
    ("sequence_length",): "block_size",
    _REQUESTS: (
        "concurrency concurrencies micro_batch_size batch_size batch bs "
        "per_device_train_batch_size per_gpu_batch_size train_batch_size "
        "train_micro_batch_size_per_gpu device_batch_size micro_batch mbs users concurrent_users "
        "parallel_sequences concurrent_requests parallel max_concurrent_requests requests "
        "concurrent"
    ),
    ("global_batch_size",): (
        "global_batch train_batch_size total_batch_size effective_batch_size batch_size batch bs "
        "gbs"
    ),
    ("precision", *_FORMAT): "dtype torch_dtype",
    _FORMAT: (
        "quantization quantizations quant quantisation quantization_type quantization_method "
        "quantization_format precision weight_dtype format weight_format bits load_format "
        "quantize"
    ),
    ("engine", "engines"): (
        "engine engines backend inference_engine serving_engine runtime server framework "
        "inference_framework"
    ),
    ("trainer", "framework"): (
        "trainer training_framework library tool backend engine trainer_name strategy parallelism "
        "distributed_strategy parallel_strategy sharding_strategy distributed_backend"
    ),
    ("method",): (
        "training_method technique finetuning_type finetune_type tuning fine_tuning peft "
        "peft_method training_type stage tuner finetuning_method mode adapter"
    ),
    ("algorithm",): "rl_algorithm objective_type",
    ("kv_cache_dtype",): (
        "kv_dtype kv_cache cache_type cache_type_k cache_type_v ctk ctv kv_cache_type "
        "kv_cache_quantization kv_quantization kv_quant kv_cache_format"
    ),
    ("tensor_parallel",): "tp tp_size tensor_parallel_size tensor_model_parallel_size num_shard",
    ("pipeline_parallel",): "pp pp_size pipeline_parallel_size pipeline_model_parallel_size",
    ("data_parallel",): "dp dp_size data_parallel_size",
    ("expert_parallel",): "ep ep_size expert_parallel_size expert_model_parallel_size",
    ("context_parallel",): "cp cp_size context_parallel_size",
    _SHARE: (
        "mem_fraction_static gpu_mem_util memory_utilization gpu_utilization cuda_memory_fraction "
        "free_gpu_memory_fraction gpu_memory_fraction utilization"
    ),
    _SEQS: "max_running_requests max_seqs max_batch_size max_concurrent_sequences np",
    ("max_batched_tokens",): "chunked_prefill_size n_ubatch ubatch_size max_num_tokens",
    ("language_model_only",): (
        "text_only language_only text_alone no_vision disable_vision no_mmproj disable_multimodal"
    ),
    ("enforce_eager",): "eager disable_cuda_graph eager_mode",
    ("cpu_offload_gib",): "cpu_offload",
    ("n_gpu_layers",): "ngl gpu_layers",
    ("n_cpu_moe",): "ncmoe cpu_moe_layers",
    ("kv_offload_gib",): (
        "kv_offload kv_cache_offload kv_offloading_size kv_cpu_offload hicache_size"
    ),
    ("disaggregation",): "disaggregation_mode role serving_role pd_role",
    ("host_memory_gib",): "host_memory_gb host_ram ram system_ram system_memory cpu_memory",
    ("kv_cache_memory_gib",): "kv_cache_memory kv_cache_gib",
    ("draft_model",): "speculative_model draft",
    ("speculative_tokens",): "",
    ("lora_slots",): "loras adapters lora_adapters",
    ("engine_version",): "version",
    ("prompt_tokens",): "input_tokens input_len isl prompt_len",
    (ANSWER,): "output_tokens output_len osl completion_tokens",
    ("prefix_cache_hit_rate",): "cache_hit_rate prefix_hit_rate hit_rate cache_hit",
    ("min_tokens_per_second_per_request",): (
        "min_tokens_per_second_per_user tokens_per_second_per_user tokens_per_second_per_request "
        "tps_per_user min_tps"
    ),
    ("max_seconds_to_first_token",): "ttft time_to_first_token",
    _CHECKPOINTING: (
        "gradient_checkpointing checkpointing use_gradient_checkpointing recompute_granularity "
        "activation_recomputation recompute gradient_checkpoint"
    ),
    ("micro_batches",): (
        "gradient_accumulation_steps grad_accum gradient_accumulation accumulation_steps "
        "grad_accumulation"
    ),
    ("attention",): (
        "attn_implementation attn attention_implementation flash_attention flash_attn "
        "use_flash_attention use_flash_attention_2 flash_attention_2 fa2 fa"
    ),
    ("optimizer",): "optim optimiser",
    ("precision",): "mixed_precision training_precision half_precision compute_dtype",
    ("lora_rank",): "r rank lora_r adapter_rank lora_dim",
    ("lora_targets",): "target_modules lora_target_modules lora_target",
    ("zero_stage",): "zero deepspeed_stage zero_optimization_stage deepspeed_zero_stage deepspeed",
    ("offload",): "optimizer_offload cpu_offload zero_offload",
    ("loss",): "loss_type cross_entropy",
    ("kernels",): "use_liger use_liger_kernel liger liger_kernel",
    ("samples",): "dataset_size train_samples num_examples dataset_samples",
    ("epochs",): "num_epochs num_train_epochs train_epochs",
    ("token_budget",): "training_tokens train_tokens num_tokens total_tokens dataset_tokens",
    ("images",): "images_per_sample images_per_sequence images_per_prompt images_per_request",
    ("image_size",): "image_resolution resolution",
    ("group_size",): "num_generations num_samples rollout_n",
    ("prompt_length",): "max_prompt_length",
    ("completion_length",): "max_new_tokens response_length",
    ("max_usd_per_hour",): (
        "budget price budget_per_hour max_price_per_hour max_hourly_cost usd_per_hour "
        "budget_usd_per_hour hourly_budget"
    ),
    ("price_per_gpu_hour",): "gpu_price price_per_hour",
    ("clouds",): "cloud provider cloud_provider",
    ("vendors",): "vendor gpu_vendor",
    ("kinds",): "kind gpu_kind gpu_class gpu_series gpu_generation gpu_architecture",
    ("objective",): "sort_by optimize_for priority goal prefer preference sort order_by",
    ("task",): "use_case usecase workload purpose type task_type",
    ("search",): "query name family filter model_family keyword",
    ("log",): "log_text log_output text message error error_message output traceback stderr",
    ("command",): "launch_command cmd command_line",
    ("settings",): "mode",
    ("other_memory_gib",): "other_memory reserved_gib used_gib",
    ("compile",): "torch_compile",
}
"""Other names by the fields they mean."""

_WORDS: Mapping[str, Mapping[str, Mapping[str, Value]]] = {
    "quantization": {
        "4 4.0": {"quantization": "4bit"},
        "8 8.0": {"quantization": "int8"},
        "16 16.0 full half unquantized unquantised fullprecision halfprecision no false": {
            "quantization": "bf16"
        },
        "true yes": {"quantization": "4bit"},
        "original native none": {"quantization": "as published"},
    },
    "activation_checkpointing": {
        "true yes on 1 enabled unsloth always": {"activation_checkpointing": "full"},
        "false no off 0 disabled never": {"activation_checkpointing": "none"},
        "block layer uniform": {"activation_checkpointing": "full"},
    },
    "attention": {
        "true yes on 1 flashattention flashattention2 flashattention3 flashattn fa2 fa3 fa": {
            "attention": "flash"
        },
        "false no off 0 scaleddotproductattention torch auto": {"attention": "sdpa"},
        "naive math": {"attention": "eager"},
        "flexattention": {"attention": "flex"},
    },
    "precision": {
        "true yes": {"precision": "mixed_bf16"},
        "float16 half 16": {"precision": "mixed_fp16"},
        "float 32 full": {"precision": "fp32"},
    },
    "method": {
        "finetune finetuning fullfinetuned fullft fullparameter fullparameters fullweights"
        " pretrain": {"method": "full"},
        "adapter adapters": {"method": "lora"},
        "4bit 4bitlora lora4bit bnb4bit 4bitqlora": {"method": "qlora"},
    },
    "trainer": {
        "deepspeed zero": {"framework": "deepspeed"},
        "fsdp fsdp1 fsdp2": {"framework": "fsdp"},
        "megatron megatronlm megatroncore": {"framework": "megatron"},
        "ddp dataparallel distributeddataparallel": {"zero_stage": 0},
        "transformers huggingface hf hftrainer huggingfacetrainer peft accelerate pytorch": {
            "framework": "transformers"
        },
    },
    "offload": {"true yes on": {"offload": "optimizer"}, "false no off": {"offload": "none"}},
    "loss": {
        "liger fusedlinearcrossentropy flce": {"loss": "fused"},
        "chunkednll": {"loss": "recomputed"},
        "nll": {"loss": "full"},
    },
    "kernels": {"true yes on 1": {"kernels": "liger"}, "false no off 0": {"kernels": "none"}},
    "task": {
        "generate inference infer serve deploy deployment hosting host chat run generation"
        " production coding code rag agent agents assistant chatbot": {"task": "serving"},
        "train finetune finetuning finetuned tuning sft rl rlhf grpo": {"task": "training"},
        "pretrain pretraining": {"task": "training", "method": "full"},
        "full fullfinetuning": {"task": "training", "method": "full"},
        "lora": {"task": "training", "method": "lora"},
        "qlora": {"task": "training", "method": "qlora"},
        "embedding embeddings embed rerank reranking": {"task": "encode"},
    },
    "objective": {
        "price cost cheap budget lowestcost mincost lowestprice minimumcost minprice": {
            "objective": "cheapest"
        },
        "speed throughput latency performance fast lowestlatency lowlatency minlatency"
        " highestthroughput maxthroughput maxspeed bestperformance": {"objective": "fastest"},
        "headroom safest": {"objective": "most_headroom"},
    },
    "lora_targets": {
        "all alllinear alllinears": {"lora_targets": "all_linear"},
        "attn qkv qkvo": {"lora_targets": "attention"},
    },
    "settings": {"default": {"settings": "defaults"}},
}
"""Other words by field, and the fields that they stand for."""

_FLAGS: Mapping[str, Mapping[str, Value]] = {
    "enable_lora": {"lora_slots": 1},
    "cpu_moe": {"n_cpu_moe": ALL_LAYERS},
    "cmoe": {"n_cpu_moe": ALL_LAYERS},
    "load_in_4bit": {"method": "qlora", "quantization": "4bit"},
    "load_in_8bit": {"quantization": "int8"},
    "use_qlora": {"method": "qlora"},
    "qlora": {"method": "qlora"},
    "lora": {"method": "lora"},
    "use_lora": {"method": "lora"},
    "use_peft": {"method": "lora"},
    "full_finetuning": {"method": "full"},
    "fsdp": {"framework": "fsdp"},
    "unsloth": {"trainer": "unsloth"},
    "use_vllm": {"rollout_engine": "vllm"},
    "freeze_vision_tower": {"train_vision_tower": False},
    "freeze_vit": {"train_vision_tower": False},
    "bf16": {"precision": "mixed_bf16"},
    "fp16": {"precision": "mixed_fp16"},
    "fp8": {"precision": "fp8", "quantization": "fp8"},
}
"""Switches that stand for a field where they are true: the first that the request has, of the face
before others."""

_ALGORITHMS = "reward dpo kto orpo simpo ppo grpo rloo"

WITHIN: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("framework", "trainer", "zero_stage"),
        r"zero\W*(?:stage\W*)?(?P<value>[0-3])\b",
        "zero_stage",
    ),
    (("engine",), r"(?<=\w)[\s=@-]+v?(?P<value>\d+(?:\.\d+){1,3}\S*)$", "engine_version"),
    (("method",), r"\b(?:r|rank)\W*(?P<value>\d+)\b", "lora_rank"),
    (("method",), r"\b(?P<value>8\W?bit)\b", "quantization"),
    (("method",), rf"\b(?P<value>{_ALGORITHMS.replace(' ', '|')})\b", "algorithm"),
)
"""What a value may hold besides: (fields, pattern, field of what it finds), as in "vLLM 0.8",
"DeepSpeed ZeRO-3", "LoRA r=16" and "GRPO with LoRA"."""

_WITHOUT_EFFECT = """
    max_tokens max_output_tokens temperature stop repetition_penalty learning_rate lr
    lr_scheduler_type warmup_steps warmup_ratio weight_decay num_epochs epochs num_train_epochs
    max_steps dataset dataset_name dataset_size output_dir save_steps logging_steps lora_alpha
    lora_dropout alpha dropout token user format_output response_format stream language units
    explain explanation reasoning thought prefix_caching lora_modules detail limit os
    operating_system cpu cpu_cores packing shuffle region currency name_of_user notes
    note comment description task
"""
"""Arguments that do not change an answer: they are accepted, and reported as ignored."""


def plain(text: str) -> str:
    """Return the text without case, spaces, dashes and underscores, as names are compared."""
    return "".join(character for character in text.lower() if character not in " -_\t\n")


def _by_alias() -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for targets, names in NAMES.items():
        for name in names.split():
            row = fields.setdefault(plain(name), [])
            row += [target for target in targets if target not in row]
    return fields


FIELDS: Mapping[str, list[str]] = _by_alias()
"""Fields by alias, the preferred first."""

VALUES: Mapping[str, Mapping[str, Mapping[str, Value]]] = {
    field: {word: fields for words, fields in rows.items() for word in words.split()}
    for field, rows in _WORDS.items()
}
"""Fields by field and word."""

SWITCHES: Mapping[str, Mapping[str, Value]] = {plain(name): row for name, row in _FLAGS.items()}
"""Fields by switch."""

INSTEAD: Mapping[str, str] = {
    plain(name): instead
    for names, instead in {
        "requests_per_second request_rate rps qps queries_per_second": (
            "send concurrency, the requests at once"
        ),
        "latency latency_ms max_latency max_latency_ms target_latency target_latency_ms": (
            "send max_seconds_to_first_token or min_tokens_per_second_per_request"
        ),
        "tpot itl inter_token_latency time_per_output_token": (
            "send min_tokens_per_second_per_request"
        ),
        "free_vram free_memory free_gpu_memory available_vram available_gpu_memory": (
            "send other_memory_gib, what other processes hold"
        ),
        "token_budget training_tokens train_tokens num_tokens total_tokens dataset_tokens samples "
        "dataset_size train_samples num_examples dataset_samples max_usd max_cost total_budget": (
            "plan_training with token_budget says what a run takes and costs"
        ),
        "monthly_budget budget_per_month max_usd_per_month": (
            f"send max_usd_per_hour: a month has {HOURS_OF_A_MONTH} hours"
        ),
    }.items()
    for name in names.split()
}
"""What to send instead of arguments that no field takes."""

WITHOUT_EFFECT = frozenset((*map(plain, _WITHOUT_EFFECT.split()), *INSTEAD)).union(
    plain(flag)
    for engine in ENGINES.values()
    if engine.container_start is not None
    for flag in engine.container_start.unrelated_flags
    if flag.startswith("--")
)
"""Arguments that are reported as ignored, flags of engines that change no memory among them."""

GPU_LAYERS_FIELD = "n_gpu_layers"
GPU_LAYERS = frozenset(map(plain, (GPU_LAYERS_FIELD, "num_gpu_layers", "gpu_layers", "ngl")))
"""How many layers lie on the GPUs, as llama.cpp says it."""

OLLAMA_GPU_LAYERS = plain("num_gpu")
"""How Ollama says it; elsewhere a number of GPUs."""

THE_MOST = frozenset(("max", "maximum", "most", "as many as possible", "as long as possible"))
"""Texts that ask for a limit, which an answer gives whatever is sent."""

NOT_SET = frozenset((
    "", "null", "none", "nil", "undefined", "default", "defaults", "auto", "automatic", "any",
    "n/a", "na", "nan", "unknown", "unspecified", "not specified", "notset", "-", "?",
))  # fmt: skip
"""Texts that leave an argument at its default."""
