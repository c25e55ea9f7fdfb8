"""The tools people train with: the framework under each, and what it does where a question leaves a
field open.

Sizes of the question itself (sequence_length, micro_batch_size, micro_batches) are never a tool's.
"""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from msgspec import structs

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.algorithms.setup import Trainer
from fitgauge.engine.training.workload import Framework
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.schemas import TrainingRequest

Value = str | int | float | bool | list[str]
_ADAPTED = ("lora", "dora", "qlora")


@dataclass(frozen=True, slots=True)
class Default:
    """What a tool does with a field that is left out. `source`: file and name in its repository.
    Where it holds: `methods`, empty for all; `cards`, on one or on several; `parameters`, of
    models with as many or more; `families`, of models of these types, empty for all;
    `supervised`, for algorithm sft alone; `accumulates`, with several micro-batches too."""

    field: str
    value: Value
    source: str
    methods: tuple[str, ...] = ()
    cards: Literal["any", "one", "several"] = "any"
    parameters: float = 0
    supervised: bool = False
    accumulates: bool = True
    families: tuple[str, ...] = ()

    def holds(self, request: TrainingRequest, method: str, count: int, spec: ModelSpec) -> bool:
        """Return whether it is for a question of this method, on so many cards, about this
        model."""
        placed = self.cards == "any" or (self.cards == "several") == (count > 1)
        known = not self.methods or method in self.methods
        algorithm = not self.supervised or word_of(request.algorithm or "sft") == "sft"
        model = spec.parameters >= self.parameters and (
            not self.families or spec.model_type in self.families
        )
        return (
            placed
            and known
            and algorithm
            and model
            and (self.accumulates or (request.micro_batches or 1) == 1)
        )


@dataclass(frozen=True, slots=True)
class Tool:
    """A library with its own ways. `title`: as it calls itself; `version`: whose source was
    read; `framework`: under it, `several`: on more than one card; `trainer`: whose preference
    and RL training it runs. Of rows for one field the first that holds counts."""

    name: str
    title: str
    version: str
    framework: Framework
    defaults: tuple[Default, ...]
    several: Framework | None = None
    trainer: Trainer = "trl"
    names: tuple[str, ...] = ()


_HALF_BASE = (
    "tuners/lora/model.py, autocast_adapter_dtype: adapters in fp32 beside a 16-bit base (PEFT)"
)
_FAST = ("llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3", "nominal")
"""Types of models whose layers Unsloth writes anew; it compiles those of others."""
_LARGE = 60e9
"""Parameters from which torchtune's configurations are those of its 70B models."""
_OUTPUTS = ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

TOOLS: tuple[Tool, ...] = (
    Tool("trl", "TRL", "1.10", "transformers", (
        Default("precision", "mixed_bf16",
            "trl/trainer/utils.py, create_model_from_path: dtype float32; base_config.py: bf16"),
        Default("activation_checkpointing", "full",
            "trl/trainer/base_config.py, gradient_checkpointing"),
        Default("loss", "recomputed", "trl/trainer/sft_config.py, loss_type: chunked_nll",
            supervised=True),
        Default("lora_rank", 16, "trl/trainer/model_config.py, lora_r", _ADAPTED),
    )),
    Tool("unsloth", "Unsloth", "2026.8", "transformers", (
        Default("precision", "bf16",
            "unsloth/models/vision.py, float32_mixed_precision: False for full finetuning in bf16",
            ("full",)),
        Default("precision", "mixed_bf16",
            "unsloth/models/rl.py: bf16 autocast where the model is bf16", _ADAPTED),
        Default("base_precision", "half",
            "unsloth_zoo/training_utils.py, prepare_model_for_training: only adapters are fp32",
            _ADAPTED),
        Default("quantization", "nf4_double",
            "unsloth/models/llama.py, from_pretrained: bnb_4bit_use_double_quant", ("qlora",)),
        Default("quantize_experts", True,
            "unsloth_zoo/temporary_patches/moe_bnb.py, post_quantize_moe_experts", ("qlora",)),
        Default("optimizer", "adamw_8bit", "unsloth/models/rl.py, optim"),
        Default("activation_checkpointing", "full",
            "unsloth/models/loader.py, use_gradient_checkpointing: unsloth"),
        Default("activation_offload", True,
            "unsloth_zoo/gradient_checkpointing.py, UnslothCheckpointFunction"),
        Default("loss", "fused",
            "unsloth/models/llama.py, CausalLM_fast_forward: unsloth_fused_ce_loss",
            supervised=True),
        Default("kernels", "unsloth",
            "unsloth/models/loader.py, dispatch_model; kernels/rms_layernorm.py, rope_embedding.py,"
                " fast_lora.py",
                _ADAPTED, families=_FAST),
        Default("lora_rank", 16, "unsloth/models/llama.py, get_peft_model: r", _ADAPTED),
        Default("lora_targets", "all_linear",
            "unsloth/models/llama.py, get_peft_model: target_modules", _ADAPTED),
        Default("expandable_segments", True, "unsloth_zoo/__init__.py, PYTORCH_ALLOC_CONF"),
        Default("zero_stage", 0,
            "unsloth/models/loader_utils.py, prepare_device_map: a copy for every process"),
    )),
    Tool("axolotl", "axolotl", "0.18", "transformers", (
        Default("precision", "bf16",
            "src/axolotl/utils/config/__init__.py, torch_dtype with bf16: auto", ("full",)),
        Default("precision", "mixed_bf16", "src/axolotl/utils/schemas/config.py, bf16: auto",
            _ADAPTED),
        Default("base_precision", "half",
            "src/axolotl/loaders/model.py, _configure_embedding_dtypes: put back to 16 bit",
            _ADAPTED),
        Default("quantization", "nf4_double",
            "src/axolotl/loaders/model.py, bnb_4bit_use_double_quant", ("qlora",)),
        Default("optimizer", "adamw",
            "src/axolotl/utils/schemas/training.py, optimizer: adamw_torch_fused"),
        Default("optimizer_implementation", "fused",
            "src/axolotl/utils/schemas/training.py, optimizer: adamw_torch_fused"),
        Default("activation_checkpointing", "full",
            "examples: gradient_checkpointing true in 203 of 218 (off in the schema)"),
        Default("kernels", "lora",
            "src/axolotl/utils/schemas/config.py, check_auto_enable_lora_kernels",
                ("lora", "qlora"), supervised=True),
        Default("lora_rank", 32, "examples/llama-3: lora_r (none in the schema)", _ADAPTED),
        Default("lora_targets", "all_linear", "examples/llama-3: lora_target_linear", _ADAPTED),
        Default("expandable_segments", True,
            "src/axolotl/utils/__init__.py, set_pytorch_cuda_alloc_conf"),
    )),
    Tool("llama-factory", "LLaMA-Factory", "0.9.6", "transformers", (
        Default("precision", "mixed_bf16",
            "src/llamafactory/model/adapter.py, cast_trainable_params_to_fp32; examples: bf16"
                " true"),
        Default("base_precision", "half",
            "src/llamafactory/model/patcher.py, compute_dtype; adapter.py", _ADAPTED),
        Default("quantization", "nf4_double",
            "src/llamafactory/hparams/model_args.py, double_quantization", ("qlora",)),
        Default("activation_checkpointing", "full",
            "src/llamafactory/hparams/model_args.py, disable_gradient_checkpointing: False"),
        Default("lora_rank", 8, "src/llamafactory/hparams/finetuning_args.py, lora_rank", _ADAPTED),
        Default("lora_targets", "all_linear",
            "src/llamafactory/hparams/finetuning_args.py, lora_target: all", _ADAPTED),
    ), names=("lmf",)),
    Tool("ms-swift", "ms-swift", "4.6", "transformers", (
        Default("precision", "bf16",
            "swift/arguments/base_args/model_args.py, torch_dtype: the checkpoint's", ("full",)),
        Default("precision", "mixed_bf16",
            "swift/arguments/base_args/model_args.py, _init_mixed_precision", _ADAPTED),
        Default("base_precision", "half", _HALF_BASE, _ADAPTED),
        Default("quantization", "nf4_double",
            "swift/arguments/base_args/quant_args.py, bnb_4bit_use_double_quant", ("qlora",)),
        Default("activation_checkpointing", "full",
            "swift/trainers/arguments.py, gradient_checkpointing"),
        Default("lora_rank", 8, "swift/arguments/tuner_args.py, lora_rank", _ADAPTED),
        Default("lora_targets", "all_linear",
            "swift/arguments/tuner_args.py, target_modules: all-linear", _ADAPTED),
    ), names=("swift", "swiftsft")),
    Tool("torchtune", "torchtune", "0.7", "transformers", (
        Default("precision", "bf16", "recipes/configs, dtype"),
        Default("activation_checkpointing", "full", "recipes/configs/llama3_1/70B_lora.yaml",
            ("lora", "dora"), "several", _LARGE),
        Default("activation_checkpointing", "none", "recipes/configs/llama3_1/8B_lora.yaml",
            ("lora", "dora"), "several"),
        Default("activation_checkpointing", "full",
            "recipes/configs, enable_activation_checkpointing"),
        Default("loss", "chunked", "recipes/configs, loss: LinearCrossEntropyLoss",
            supervised=True),
        Default("optimizer", "paged_adamw_8bit",
            "recipes/configs/llama3_1/8B_full_single_device.yaml, optimizer", ("full",), "one"),
        Default("optimizer_in_backward", True,
            "recipes/configs/llama3_1/8B_full_single_device.yaml, optimizer_in_bwd",
                ("full",), "one", accumulates=False),
        Default("optimizer", "adamw", "recipes/configs, optimizer: torch.optim.AdamW"),
        Default("optimizer_implementation", "fused", "recipes/configs, optimizer: fused"),
        Default("quantization", "nf4_double",
            "torchtune/modules/peft/lora.py, NF4Tensor with quantized scalers", ("qlora",)),
        Default("offload", "cpu", "recipes/configs/llama3_1/70B_full.yaml, fsdp_cpu_offload",
            ("full",), "several", _LARGE),
        Default("lora_rank", 16, "recipes/configs/llama3_1/70B_lora.yaml, lora_rank", _ADAPTED,
            "several", _LARGE),
        Default("lora_rank", 8, "recipes/configs/llama3_1/8B_lora.yaml, lora_rank", _ADAPTED),
        Default("lora_targets", _OUTPUTS,
            "recipes/configs/llama3_1/8B_lora.yaml, lora_attn_modules, apply_lora_to_mlp",
            _ADAPTED),
        Default("fsdp_version", 2, "torchtune/training/_distributed.py, shard_model: fully_shard",
            cards="several"),
        Default("shard_embeddings", True,
            "recipes/configs/llama3_1/8B_full.yaml, custom_sharded_layers", ("full",), "several"),
    ), several="fsdp", names=("tune",)),
    Tool("torchtitan", "torchtitan", "main of August 2026", "fsdp", (
        Default("precision", "mixed_bf16",
            "torchtitan/config/configs.py, dtype float32, mixed_precision_param bfloat16"),
        Default("activation_checkpointing", "selective",
            "torchtitan/models/llama3/config_registry.py, SelectiveAC"),
        Default("optimizer_implementation", "fused",
            "torchtitan/components/optimizer/optimizer.py, implementation"),
        Default("fsdp_version", 2, "torchtitan/distributed/fsdp.py, fully_shard"),
        Default("shard_embeddings", True,
            "torchtitan/distributed/fsdp.py: embedding and head apart"),
        Default("gradient_dtype", "fp32", "torchtitan/config/configs.py, mixed_precision_reduce"),
        Default("expandable_segments", True, "run_train.sh, PYTORCH_ALLOC_CONF"),
    ), names=("titan",)),
    Tool("litgpt", "LitGPT", "0.5.13", "transformers", (
        Default("precision", "bf16", "config_hub/finetune, precision: bf16-true"),
        Default("activation_checkpointing", "full",
            "litgpt/finetune/full.py, activation_checkpointing_policy", ("full",), "several"),
        Default("loss", "chunked", "litgpt/utils.py, chunked_cross_entropy", supervised=True),
        Default("optimizer_implementation", "foreach",
            "litgpt/utils.py, instantiate_torch_optimizer: torch.optim.AdamW"),
        Default("lora_rank", 8, "litgpt/finetune/lora.py, lora_r", _ADAPTED),
        Default("lora_targets", ["q_proj", "v_proj"],
            "litgpt/finetune/lora.py, lora_query and lora_value", _ADAPTED),
    ), several="fsdp"),
    Tool("lightning", "Lightning", "2.6", "transformers", (
        Default("precision", "fp32", "src/lightning/fabric/connector.py, precision: 32-true"),
    ), names=("pytorchlightning", "lightningfabric", "fabric")),
    Tool("nemo", "NeMo", "Megatron-Bridge, main of August 2026", "megatron", (
        Default("precision", "mixed_bf16",
            "src/megatron/bridge/recipes/common.py, mixed_precision: bf16_mixed"),
        Default("activation_checkpointing", "none",
            "src/megatron/bridge/recipes/llama/h100/llama3.py, recompute_granularity: None"),
        Default("lora_rank", 32, "src/megatron/bridge/recipes/common.py, LoRA: dim", _ADAPTED),
    ), names=("nemoframework", "megatronbridge")),
    Tool("verl", "verl", "0.7", "fsdp", (
        Default("precision", "mixed_bf16",
            "verl/trainer/config/engine/fsdp.yaml, model_dtype fp32, dtype bfloat16"),
        Default("activation_checkpointing", "full",
            "verl/trainer/config/model/hf_model.yaml, enable_gradient_checkpointing"),
        Default("gradient_dtype", "fp32",
            "verl/workers/engine/fsdp/transformer_impl.py, mixed_precision: reduce_dtype"),
        Default("lora_targets", "all_linear",
            "verl/trainer/config/model/hf_model.yaml, target_modules", _ADAPTED),
    ), trainer="verl", names=("easyr1",)),
    Tool("openrlhf", "OpenRLHF", "0.11", "deepspeed", (
        Default("precision", "bf16", "openrlhf/cli/train_sft.py, --ds.param_dtype"),
        Default("activation_checkpointing", "full",
            "examples/scripts: gradient_checkpointing_enable (off by default)"),
        Default("attention", "flash", "openrlhf/cli/train_sft.py, --ds.attn_implementation"),
        Default("quantization", "nf4_double", "openrlhf/models/actor.py, bnb_4bit_use_double_quant",
            ("qlora",)),
        Default("lora_targets", "all_linear", "openrlhf/cli/train_sft.py, --ds.lora.target_modules",
            _ADAPTED),
    ), trainer="openrlhf"),
)  # fmt: skip

_UNCOUNTED: Mapping[str, tuple[str, str]] = {
    "colossalai": (
        "ColossalAI's Gemini moves chunks between card and host as it goes",
        "framework deepspeed with zero_stage 3",
    ),
    "fairseq": (
        "fairseq keeps flat fp32 copies of its own",
        "framework deepspeed with zero_stage 0, which keeps as much",
    ),
    **dict.fromkeys(
        ("mlx", "mlxlm", "mlxtune"),
        (
            "What MLX keeps of a step was never measured",
            "framework transformers, for a rough estimate",
        ),
    ),
}


def word_of(text: str) -> str:
    """Return a name as it is looked up: small letters and digits alone."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


BY_WORD: Mapping[str, Tool] = {
    word: tool for tool in TOOLS for word in (word_of(tool.name), *tool.names)
}


def tool_named(text: str) -> Tool:
    """Return the tool of this name. Raises InvalidRequestError for an unknown one."""
    if (found := BY_WORD.get(word_of(text))) is not None:
        return found
    near = tuple(get_close_matches(word_of(text), BY_WORD, n=3))
    names = ", ".join(tool.name for tool in TOOLS)
    raise InvalidRequestError(
        f"{text.strip()!r} is no trainer that is known here.",
        hint=f"Send {names}.",
        matches=near,
        field="trainer",
    )


def tool_of(request: TrainingRequest) -> Tool | None:
    """Return the tool a question names: as its trainer, else as its framework; None where it names
    none.

    Raises InvalidRequestError for an unknown trainer.
    """
    if request.trainer is not None:
        return tool_named(request.trainer)
    return BY_WORD.get(word_of(request.framework or ""))


def uncounted(text: str) -> InvalidRequestError | None:
    """Return the refusal of a tool whose memory is not modelled, with what comes nearest."""
    found = _UNCOUNTED.get(word_of(text))
    if found is None:
        return None
    return InvalidRequestError(
        f"{text.strip()} is not modelled: {found[0]}.", hint=f"Send {found[1]}.", field="framework"
    )


def defaults_of(
    tool: Tool, request: TrainingRequest, method: str, count: int, spec: ModelSpec
) -> Iterator[Default]:
    """Yield what the tool does with the fields that are left open, a row a field."""
    filled = set[str]()
    for default in tool.defaults:
        left_open = getattr(request, default.field) is None and default.field not in filled
        if left_open and default.holds(request, method, count, spec):
            filled.add(default.field)
            yield default


def with_tool_defaults(
    request: TrainingRequest, asked: TrainingRequest, understood: Container[str]
) -> str | None:
    """Return what of the question is the tool's, in words; None where nothing is. `asked`: the
    request as it was filled in; `understood`: fields that matter to this model."""
    tool = tool_of(asked)
    if tool is None:
        return None
    rows = {
        default.field: default.value
        for default in reversed(tool.defaults)
        if getattr(asked, default.field) == default.value
    }
    said = [
        f"{field} {_said(value)}"
        for field, value in reversed(rows.items())
        if field in understood and getattr(request, field) is None
    ]
    return f"As {tool.title} has it ({tool.version}): {', '.join(said)}." if said else None


def _said(value: Value) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else ",".join(value)
        if isinstance(value, list)
        else str(value)
    )


def as_tool_has_it(
    request: TrainingRequest, method: str, count: int, spec: ModelSpec
) -> TrainingRequest:
    """Return the request with the fields it leaves open as its tool has them, on the framework
    under the tool; the same where it names none.

    A framework that is sent beside the tool stays.
    """
    tool = tool_of(request)
    if tool is None:
        return request
    under = tool.several if tool.several and count > 1 else tool.framework
    named = request.framework is None or word_of(request.framework) in BY_WORD
    fields: dict[str, Value] = {
        default.field: default.value for default in defaults_of(tool, request, method, count, spec)
    }
    return structs.replace(
        request, **fields, trainer=tool.name, framework=under if named else request.framework
    )
