"""torchtune: a recipe, the configuration of a model, and what it says otherwise. Source:
torchtune 0.7, recipes and recipes/configs."""

from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined
from fitgauge.services.training_fit.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import on_node

_OPTIMIZERS = {
    "adamw": "torch.optim.AdamW", "adamw_8bit": "bitsandbytes.optim.AdamW8bit",
    "paged_adamw": "bitsandbytes.optim.PagedAdamW",
    "paged_adamw_8bit": "bitsandbytes.optim.PagedAdamW8bit", "sgd": "torch.optim.SGD",
    "adafactor": "torch.optim.Adafactor",
    "lion": "bitsandbytes.optim.Lion", "lion_8bit": "bitsandbytes.optim.Lion8bit",
    "muon": "torch.optim.Muon",
}  # fmt: skip
_LOSSES = {
    "full": "torch.nn.CrossEntropyLoss",
    "chunked": "torchtune.modules.loss.LinearCrossEntropyLoss",
}
_OWN_NAMES = {"o_proj": "output_proj"}
_MLP = ("gate_proj", "up_proj", "down_proj")


def torchtune_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`tune run` of the recipe; CONFIG is that of the model and method (`tune ls`)."""
    several = workload.framework == "fsdp"
    kind = "full" if not workload.uses_adapters else "lora"
    what = "dpo" if setup.algorithm == "dpo" else "finetune"
    words: list[object] = [
        "tune",
        "run",
        *(["--nproc_per_node", on_node(workload)] if several else []),
    ]
    words += [
        f"{kind}_{what}_{'distributed' if several else 'single_device'}",
        "--config",
        "CONFIG",
    ]
    settings: dict[str, object] = {
        "tokenizer.max_seq_len": workload.sequence_length,
        "dataset.packed": True,
        "batch_size": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        "dtype": "fp32" if workload.precision == "fp32" else "bf16",
        "optimizer": _OPTIMIZERS.get(workload.optimizer, workload.optimizer),
        "enable_activation_checkpointing": workload.activation_checkpointing != "none",
        "enable_activation_offloading": workload.activation_offload,
        "compile": workload.compile,
    }
    if setup.algorithm == "sft":
        settings["loss"] = _LOSSES.get(workload.loss, _LOSSES["chunked"])
    if workload.optimizer == "adamw":
        settings["optimizer.fused"] = workload.optimizer_implementation == "fused"
    if workload.uses_adapters:
        names = [_OWN_NAMES.get(name, name) for name in _targets(model, workload)]
        attention = [name for name in names if name not in _MLP]
        settings |= {
            "model.lora_rank": workload.lora_rank,
            "model.lora_attn_modules": f"[{','.join(attention)}]",
        }
        settings |= {
            "model.apply_lora_to_mlp": any(name in _MLP for name in names),
            "model.use_dora": workload.method == "dora",
        }
    else:
        settings["optimizer_in_bwd"] = workload.optimizer_in_backward
    if several:
        settings["fsdp_cpu_offload"] = workload.offload != "none"
        settings["fsdp_reshard_after_forward"] = workload.zero_stage == 3
        settings |= (
            {"custom_sharded_layers": "[tok_embeddings,output]"}
            if workload.shard_embeddings
            else {}
        )
        settings |= (
            {"tensor_parallel_dim": workload.tensor_parallel}
            if workload.tensor_parallel > 1
            else {}
        )
    return joined([*words, *(f"{name}={value}" for name, value in settings.items())])


def _targets(model: Model, workload: TrainingWorkload) -> list[str]:
    if workload.lora_targets == "all_linear":
        return ["q_proj", "k_proj", "v_proj", "o_proj", *_MLP]
    return target_modules(model.spec, workload)
