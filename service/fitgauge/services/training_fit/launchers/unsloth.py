"""Unsloth: a script of its own. Source: unsloth 2026.8, unsloth/models/loader.py and llama.py;
its notebooks."""

import re
from collections.abc import Iterator

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.rollout import steps_sampled
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import path_of
from fitgauge.services.training_fit.launchers.adapter_names import (
    linear_names,
    target_modules,
    whole_names,
)
from fitgauge.services.training_fit.launchers.common import base_format, optim, processes_per_node
from fitgauge.services.training_fit.launchers.file_formats import written
from fitgauge.services.training_fit.launchers.run_settings import TRAINER_NAMES, RunNames
from fitgauge.services.training_fit.launchers.tool import (
    ADAPTERS,
    PREFERENCE,
    SUPERVISED,
    Default,
    RolloutDefaults,
    Tool,
    lacking,
)
from fitgauge.services.training_fit.launchers.trainer import unsupported_by_trainer

Arguments = dict[str, object]
_FILE = "train.py"
_LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
_TRAINERS = {
    "sft": "SFT", "dpo": "DPO", "kto": "KTO", "orpo": "ORPO", "simpo": "CPO", "reward": "Reward",
    "grpo": "GRPO", "rloo": "RLOO",
}  # fmt: skip

_REFERRING = ("dpo", "kto")


def unsloth_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """Return the script, and python, or torchrun with a copy of the model on every GPU."""
    variables = _environment(workload, setup)
    trainer = _TRAINERS.get(setup.algorithm, "SFT")
    rewards = ", reward_funcs=[reward]" if setup.sampled else ""
    lines = ["import os"] if variables else []
    lines += [f'os.environ["{name}"] = "{value}"' for name, value in variables.items()]
    lines += [
        "from unsloth import FastLanguageModel",
        "from datasets import load_dataset",
        f"from trl import {trainer}Config, {trainer}Trainer",
        f"model, tokenizer = FastLanguageModel.from_pretrained({path_of(model)!r},"
        f" {_arguments(_loaded(workload, setup))})",
    ]
    if workload.uses_adapters:
        adapted = _arguments(_adapters(model, workload))
        lines.append(f"model = FastLanguageModel.get_peft_model(model, {adapted})")
    if setup.sampled:
        lines += ["def reward(completions, **_):", "    return [0.0] * len(completions)"]
    lines += [
        f"args = {trainer}Config({_arguments(_trainer(workload, setup))})",
        'data = load_dataset("DATASET", split="train")',
        f"{trainer}Trainer(model=model, processing_class=tokenizer, train_dataset=data,"
        f" args=args{rewards}).train()",
    ]
    processes = f"--nproc_per_node {processes_per_node(workload)}"
    started = f"torchrun {processes} {_FILE}" if workload.gpus > 1 else f"python {_FILE}"
    return "\n".join([written(_FILE, "".join(f"{line}\n" for line in lines)), started])


def _environment(workload: TrainingWorkload, setup: Setup) -> dict[str, str]:
    variables = {}
    if workload.loss in ("full", "in_place"):
        variables["UNSLOTH_RETURN_LOGITS"] = "1"
    if setup.rollout is not None and setup.rollout.serves and setup.rollout.sleep != "off":
        variables["UNSLOTH_VLLM_STANDBY"] = "1"
    return variables


def _checkpoints(workload: TrainingWorkload) -> bool | str:
    if workload.activation_checkpointing == "none":
        return False
    return "unsloth" if workload.activation_offload else True


def _loaded(workload: TrainingWorkload, setup: Setup) -> Arguments:
    """Return how the model is loaded, for the engine that samples too."""
    stored, rollout = base_format(workload), setup.rollout
    settings: Arguments = {
        "max_seq_length": workload.sequence_length,
        "load_in_4bit": stored in ("nf4", "nf4_double", "fp4"),
        "load_in_8bit": stored == "int8",
        "full_finetuning": not workload.uses_adapters,
        **({} if workload.uses_adapters else _in_fp32(workload)),
        "use_gradient_checkpointing": _checkpoints(workload),
    }
    if rollout is not None and rollout.serves:
        settings["fast_inference"] = True
        settings["gpu_memory_utilization"] = rollout.memory_utilization
        settings["max_lora_rank"] = workload.lora_rank
    return settings


def _in_fp32(workload: TrainingWorkload) -> Arguments:
    """Return that all weights are fp32 under autocast (unsloth/models/vision.py)."""
    return {"float32_mixed_precision": True} if workload.precision.startswith("mixed") else {}


def _adapters(model: Model, workload: TrainingWorkload) -> Arguments:
    return {
        "r": workload.lora_rank,
        "lora_alpha": workload.lora_rank,
        **({"lora_dropout": workload.lora_dropout} if workload.lora_dropout else {}),
        **({"use_dora": True} if workload.method == "dora" else {}),  # PEFT's LoraConfig
        "target_modules": _targets(model, workload),
        "use_gradient_checkpointing": _checkpoints(workload),
    }


def _trainer(workload: TrainingWorkload, setup: Setup) -> Arguments:
    """Return the arguments of TRL's configuration."""
    settings: Arguments = {
        "per_device_train_batch_size": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        "optim": optim(workload) or workload.optimizer,
        "bf16": workload.precision in ("bf16", "mixed_bf16"),
        "fp16": workload.precision == "mixed_fp16",
        "output_dir": "outputs",
    }
    if setup.sampled:
        settings["num_generations"] = setup.group_size
        settings["max_completion_length"] = setup.completion_length
        if (steps := steps_sampled(workload, setup)) > workload.micro_batches:
            settings["steps_per_generation"] = steps
    else:
        settings["max_length"] = workload.sequence_length
    if setup.algorithm == "simpo":  # a loss of TRL's CPO (trl/trainer/cpo_config.py)
        settings |= {"loss_type": "simpo", "cpo_alpha": 0.0}
    if setup.algorithm in _REFERRING and setup.reference == "none":
        settings["precompute_ref_log_probs"] = True
    return settings


def _targets(model: Model, workload: TrainingWorkload) -> list[str]:
    """Return the linears with adapters. Names of an MLP's linears alone mean those of experts too
    (unsloth/models/_utils.py, get_moe_target_parameters): where experts get none, they stand with
    the module that they are in."""
    every = workload.lora_targets == "all_linear"
    if model.spec.routed_experts and not workload.lora_experts:
        return whole_names(model.spec, workload)
    if every and model.spec.model_type not in FAMILIES:
        return linear_names(model.spec, workload)
    return _LINEARS if every else target_modules(model.spec, workload)


def unsloth_supports(workload: TrainingWorkload) -> bool:
    """Return whether a script of it has these settings: a copy of the states on every GPU."""
    return workload.framework == "transformers" and workload.offload == "none"


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    yield from unsupported_by_trainer(model, workload, setup)
    if workload.uses_adapters and workload.precision == "bf16":
        yield lacking("precision", "Unsloth keeps adapters in fp32: send mixed_bf16.")
    if workload.attention == "eager":
        yield lacking("attention", "Unsloth chooses its attention by itself, never eager.")


def _arguments(settings: Arguments) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


_FAST = ("llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3", "nominal")
"""Types of models whose layers Unsloth rewrites; it compiles those of others."""

FAMILIES = frozenset({
    *_FAST, "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5_moe", "gemma3",
    "gemma3_text", "gemma3n", "gemma4", "gpt_oss", "phi3", "mixtral", "mistral3", "mllama",
    "llava", "granite", "granitemoehybrid", "cohere", "cohere2", "olmo2", "olmo3", "falcon_h1",
    "nemotron_h",
})  # fmt: skip
"""Types of models that Unsloth publishes for training or loads by name (its repositories on the
Hub; unsloth/models/mapper.py, loader.py). Others it compiles, which is not known to work."""

UNSLOTH = Tool(
    name="unsloth",
    title="Unsloth",
    phrases=("unsloth",),
    sign=re.compile(r"\bFastLanguageModel\b|\bunsloth\b", re.IGNORECASE),
    version="2026.8",
    framework="transformers",
    command=unsloth_command,
    run_names=RunNames("arguments", TRAINER_NAMES),
    algorithms=PREFERENCE | {"grpo", "rloo"},
    kernels="unsloth",
    # of TRL's DPOConfig and KTOConfig, which its trainers take
    computes_reference_first=lambda workload, algorithm: algorithm in _REFERRING,
    supports=unsloth_supports,
    unsupported=_unsupported,
    sets_allocator=True,
    shards=False,  # unsloth/models/loader_utils.py, prepare_device_map
    chunks_loss=frozenset({"grpo"}),
    # unsloth_zoo/temporary_patches/moe_utils.py, _should_use_separated_lora
    applies_expert_adapters=True,
    # unsloth/models/loader.py, gpu_memory_utilization; unsloth_zoo/vllm_utils.py,
    # convert_vllm_to_huggingface: the model that is trained is made of vLLM's own tensors
    rollout=RolloutDefaults(memory_utilization=0.5, shares_weights=True),
    # unsloth/models/rl.py: "We will change the batch size of 1 to the num_generations of 8"
    samples_whole_groups=True,
    defaults=(
        Default("precision", "bf16",
            "unsloth/models/vision.py, float32_mixed_precision: False for full finetuning in bf16",
            ("full",)),
        Default("precision", "mixed_bf16",
            "unsloth/models/rl.py: bf16 autocast where the model is bf16", ADAPTERS),
        Default("base_precision", "half",
            "unsloth_zoo/training_utils.py, prepare_model_for_training: only adapters are fp32",
            ADAPTERS),
        Default("quantization", "nf4_double",
            "unsloth/models/llama.py, from_pretrained: bnb_4bit_use_double_quant", ("qlora",)),
        Default("lora_experts", True,
            "unsloth/models/_utils.py, get_moe_target_parameters", ADAPTERS),
        Default("quantize_experts", True,
            "unsloth_zoo/temporary_patches/moe_bnb.py, post_quantize_moe_experts", ("qlora",)),
        Default("optimizer", "adamw_8bit", "unsloth/models/rl.py, optim"),
        Default("activation_checkpointing", "full",
            "unsloth/models/loader.py, use_gradient_checkpointing: unsloth"),
        Default("activation_offload", True,
            "unsloth_zoo/gradient_checkpointing.py, UnslothCheckpointFunction",
            checkpointed=True),
        Default("loss", "fused",
            "unsloth/models/llama.py, CausalLM_fast_forward: unsloth_fused_ce_loss",
            algorithms=SUPERVISED),
        Default("loss", "full",
            "examples of its users: unslothai/unsloth issue 3411, as much as whole logits take",
            algorithms=("grpo",), families=("gpt_oss",)),
        Default("loss", "chunked",
            "unsloth_zoo/rl_replacements.py, chunked_hidden_states_selective_log_softmax: compiled,"
            " of the completions' hidden states",
            algorithms=("grpo",)),
        Default("kernels", "unsloth",
            "unsloth/models/loader.py, dispatch_model; kernels/rms_layernorm.py, rope_embedding.py,"
            " fast_lora.py", ADAPTERS, families=_FAST),
        Default("attention", "flex",
            "unsloth_zoo/temporary_patches/gpt_oss.py, patch_GptOssAttention: flex attention with"
            " sinks; flex_attention/utils.py has its blocks for GPUs of 16 GB",
                families=("gpt_oss",)),
        Default("lora_rank", 16, "unsloth/models/llama.py, get_peft_model: r", ADAPTERS),
        Default("lora_targets", "all_linear",
            "unsloth/models/llama.py, get_peft_model: target_modules", ADAPTERS),
        Default("expandable_segments", True, "unsloth_zoo/__init__.py, PYTORCH_ALLOC_CONF"),
        Default("zero_stage", 0,
            "unsloth/models/loader_utils.py, prepare_device_map: a copy for every process"),
    ),
)  # fmt: skip
