"""axolotl: one YAML. Source: axolotl 0.18, src/axolotl/utils/schemas/config.py, peft.py,
fsdp.py; docs/cli.qmd."""

import re
from collections.abc import Iterator

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import path_of
from fitgauge.services.training_fit.launchers.adapter_names import (
    EXPERT_PARAMETERS,
    target_modules,
    whole_names,
)
from fitgauge.services.training_fit.launchers.common import (
    attention_name,
    base_format,
    optimizer_settings,
    processes_per_node,
)
from fitgauge.services.training_fit.launchers.deepspeed import DEEPSPEED, deepspeed_config
from fitgauge.services.training_fit.launchers.file_formats import written, yaml_of
from fitgauge.services.training_fit.launchers.run_settings import TRAINER_NAMES, RunNames
from fitgauge.services.training_fit.launchers.tool import (
    ADAPTERS,
    PREFERENCE,
    SUPERVISED,
    Default,
    Tool,
    lacking,
)
from fitgauge.services.training_fit.launchers.trainer import unsupported_by_trainer

_FILE = "axolotl.yaml"
_OWN_OPTIMIZERS = ("muon",)
_DATA = {
    "dpo": "chat_template.default",
    "simpo": "chat_template.default",
    "orpo": "chat_template.argilla",
    "kto": "chatml.argilla",
}
"""Formats of preferences: prompt_strategies/dpo, orpo and kto; docs/rlhf.qmd."""


def axolotl_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """Return the YAML, and `axolotl train`."""
    settings: dict[str, object] = {"base_model": path_of(model)}
    supervised = setup.algorithm == "sft"
    settings |= {} if supervised else {"rl": setup.algorithm}
    settings |= {"remove_unused_columns": False} if setup.algorithm == "kto" else {}
    if setup.algorithm == "dpo" and setup.reference == "none":
        settings["precompute_ref_log_probs"] = True
    settings |= _adapters(model, workload)
    settings |= {
        "datasets": [{"path": "DATASET", "type": _DATA.get(setup.algorithm, "alpaca")}],
        "sequence_len": workload.sequence_length,
        **({"sample_packing": workload.packed, "pad_to_sequence_len": True} if supervised else {}),
        "micro_batch_size": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        "num_epochs": 1,
        "learning_rate": 0.0002,
        **_optimizer(workload),
        **_precision(workload),
        "gradient_checkpointing": workload.activation_checkpointing != "none",
        "activation_offloading": workload.activation_offload,
        "attn_implementation": attention_name(workload),
        "torch_compile": workload.compile,
        **_kernels(workload),
        **_sharding(workload),
    }
    parts = [written(_FILE, yaml_of(settings))]
    if workload.framework == "deepspeed":
        parts.append(written(DEEPSPEED, deepspeed_config(workload) + "\n"))
    several = ""
    if workload.gpus > 1:
        several = f" --launcher accelerate -- --num_processes={processes_per_node(workload)}"
    return "\n".join([*parts, f"axolotl train {_FILE}{several}"])


def _adapters(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    if not workload.uses_adapters:
        return {}
    stored = base_format(workload)
    in_4bit = stored in ("nf4", "nf4_double", "fp4")
    config: dict[str, object] = {
        "adapter": "qlora" if in_4bit else "lora",  # which refuses 8 bit (schemas/peft.py)
        "load_in_4bit": in_4bit,
        "load_in_8bit": stored == "int8",
        "lora_r": workload.lora_rank,
        "lora_alpha": workload.lora_rank,
        "lora_dropout": workload.lora_dropout or 0,
    }
    if stored in ("nf4", "fp4"):
        config["bnb_config_kwargs"] = {
            "bnb_4bit_use_double_quant": False,
            "bnb_4bit_quant_type": stored,
        }
    config |= {"peft_use_dora": True} if workload.method == "dora" else {}
    config |= {"peft_autocast_adapter_dtype": False} if workload.precision == "bf16" else {}
    if workload.lora_targets != "all_linear":
        config["lora_target_modules"] = target_modules(model.spec, workload)
    elif workload.quantize_experts:  # refuses lora_target_linear (schemas/validation.py)
        config["lora_target_modules"] = whole_names(model.spec, workload)
    else:
        config["lora_target_linear"] = True
    if workload.lora_experts:
        config["lora_target_parameters"] = list(EXPERT_PARAMETERS)
    return config | ({"quantize_moe_experts": True} if workload.quantize_experts else {})


def _optimizer(workload: TrainingWorkload) -> dict[str, object]:
    """Return the Trainer's optimizer, or one of its own (schemas/enums.py,
    CustomSupportedOptimizers)."""
    if workload.optimizer in _OWN_OPTIMIZERS:
        return {"optimizer": workload.optimizer}
    settings = optimizer_settings(workload)
    return {{"optim": "optimizer"}.get(name, name): value for name, value in settings.items()}


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    yield from unsupported_by_trainer(model, workload, setup, _OWN_OPTIMIZERS)
    if workload.kernels == "lora" and base_format(workload) == "int8":
        message = "axolotl's kernels of adapters refuse an 8-bit base: the command has them off."
        yield lacking("kernels", message)


def _precision(workload: TrainingWorkload) -> dict[str, object]:
    """bf16 loads a checkpoint in bf16, and full training then keeps it so; fp32 weights are
    neither's."""
    if workload.precision == "mixed_fp16":
        return {"fp16": True, "bf16": False}
    return {
        "bf16": workload.precision in ("mixed_bf16", "bf16", "fp8"),
        **({"fp8": True} if workload.precision == "fp8" else {}),
    }


def _kernels(workload: TrainingWorkload) -> dict[str, object]:
    fused, liger = workload.loss == "fused", workload.kernels == "liger"
    config: dict[str, object] = (
        {"chunked_cross_entropy": True} if workload.loss in ("chunked", "recomputed") else {}
    )
    if liger:
        config["plugins"] = ["axolotl.integrations.liger.LigerPlugin"]
        config |= {
            "liger_rope": True,
            "liger_rms_norm": True,
            "liger_glu_activation": True,
            "liger_fused_linear_cross_entropy": fused,
        }
    elif fused:
        config["plugins"] = ["axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"]
    if workload.uses_adapters:
        config |= dict.fromkeys(
            ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel"),
            workload.kernels == "lora" and base_format(workload) != "int8",
        )
    return config


def _sharding(workload: TrainingWorkload) -> dict[str, object]:
    if workload.framework == "deepspeed":
        return {"deepspeed": DEEPSPEED}
    degrees = {
        "tensor_parallel_size": workload.tensor_parallel,
        "context_parallel_size": workload.context_parallel,
    }
    config: dict[str, object] = {name: degree for name, degree in degrees.items() if degree > 1}
    if workload.framework == "fsdp":
        config["fsdp_version"] = workload.fsdp_version
        config["fsdp_config"] = {
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "reshard_after_forward": workload.zero_stage == 3,
            "offload_params": workload.offload != "none",
        }
        if workload.data_parallel_replicate > 1:
            config["dp_replicate_size"] = workload.data_parallel_replicate
    return config


AXOLOTL = Tool(
    name="axolotl",
    packs=True,
    title="axolotl",
    phrases=("axolotl",),
    sign=re.compile(r"\baxolotl\b|^sequence_len:|^base_model:", re.M | re.I),
    version="0.18",
    loads_by_transformers=True,
    framework="transformers",
    shards_with=("deepspeed", "fsdp"),
    command=axolotl_command,
    run_names=RunNames("yaml", {**TRAINER_NAMES, "epochs": "num_epochs"}),
    algorithms=PREFERENCE - {"reward"},
    # context parallelism is a ring of flash attention (utils/schemas/validation.py)
    supports=lambda workload: workload.context_parallel == 1 or workload.attention == "flash",
    kernels="lora",
    # core/trainers/dpo/__init__.py, set_training_args_kwargs: DPO alone
    computes_reference_first=lambda workload, algorithm: algorithm == "dpo",
    unsupported=_unsupported,
    sets_allocator=True,
    defaults=(
        Default("precision", "bf16",
            "src/axolotl/utils/config/__init__.py, torch_dtype with bf16: auto", ("full",)),
        Default("precision", "mixed_bf16", "src/axolotl/utils/schemas/config.py, bf16: auto",
            ADAPTERS),
        Default("base_precision", "half",
            "src/axolotl/loaders/model.py, _configure_embedding_dtypes: put back to 16 bit",
            ADAPTERS),
        Default("base_precision", "half",
            "src/axolotl/monkeypatch/accelerate/fsdp2.py, fsdp2_prepare_model: shards stay as"
            " loaded", ("full",)),
        Default("fused_experts", True,
            "src/axolotl/monkeypatch/moe_quant.py, replace_parameter_4bit", ("qlora",)),
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
                ("lora", "qlora"), algorithms=SUPERVISED),
        Default("fsdp_version", 2,
            "src/axolotl/utils/schemas/config.py, check_multigpu_lora_kernels: refuses FSDP1",
                gpus="several"),
        Default("lora_rank", 32, "examples/llama-3: lora_r (none in the schema)", ADAPTERS),
        Default("lora_targets", "all_linear", "examples/llama-3: lora_target_linear", ADAPTERS),
        Default("expandable_segments", True,
            "src/axolotl/utils/__init__.py, set_pytorch_cuda_alloc_conf"),
    ),
)  # fmt: skip
