"""NeMo: Megatron-Bridge, a recipe of which takes the settings of a YAML file. Source:
Megatron-Bridge, main of August 2026, tutorials/recipes/llama/03_finetune_with_yaml.py and
src/megatron/bridge/training/utils/omegaconf_utils.py, process_config_with_overrides; the names of
the settings: src/megatron/bridge/training/config.py, ConfigContainer, on Megatron-Core's
transformer_config.py, optimizer_config.py and distributed_data_parallel_config.py; which of them a
flag of Megatron-LM's is: scripts/translate_mlm_to_bridge.py."""

import re

from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import Part
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload, recomputed_modules
from fitgauge.services.training_fit.launchers.common import processes_per_node, sequences_per_step
from fitgauge.services.training_fit.launchers.file_formats import written, yaml_of
from fitgauge.services.training_fit.launchers.megatron import fused_adapters, megatron_modules
from fitgauge.services.training_fit.launchers.run_settings import RunNames
from fitgauge.services.training_fit.launchers.tool import ADAPTERS, Default, Tool
from fitgauge.services.training_fit.megatron import uneven

_FILE = "nemo.yaml"
_SCRIPT = "train_nemo.py"
_PRECISIONS = {"mixed_bf16": "bf16_mixed", "fp8": "bf16_with_fp8_delayed_scaling_mixed"}
"""src/megatron/bridge/training/mixed_precision.py; under its fp8 parameters are fp8 too
(fp8_param_gather)."""
_OPTIMIZERS = {"adamw": "adam", "sgd": "sgd", "sgd_momentum": "sgd"}
_ATTENTION = {"flash": "flash", "sdpa": "fused", "eager": "unfused", "flex": "auto"}
"""megatron/core/transformer/enums.py, AttnBackend."""


def nemo_supports(workload: TrainingWorkload) -> bool:
    """Return whether a recipe of texts has these settings under the names that are known here."""
    return (
        workload.framework == "megatron"
        and workload.precision in _PRECISIONS
        and workload.fp8_parameters == (workload.precision == "fp8")
        and workload.gradient_dtype in (None, "fp32")
        and workload.optimizer in _OPTIMIZERS
        and workload.loss in ("full", "in_place")
        and workload.pipeline_schedule in ("1f1b", "interleaved")
        and workload.base_quantization is None
        and not workload.images
    )


def nemo_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """Return the YAML, the script that gives it to a recipe, and what starts the script; RECIPE is
    the model's (src/megatron/bridge/recipes), CHECKPOINT its weights as
    examples/conversion/convert_checkpoints.py writes them."""
    settings: dict[str, object] = {
        "model": _model(model, workload),
        "train": {
            "micro_batch_size": workload.micro_batch_size,
            "global_batch_size": sequences_per_step(workload),
        },
        "dataset": _dataset(workload),
        "optimizer": _optimizer(workload),
        "ddp": {"use_distributed_optimizer": workload.zero_stage > 0},
        "mixed_precision": _PRECISIONS[workload.precision],
        "checkpoint": {"pretrained_checkpoint": "CHECKPOINT"},
    }
    scheme = ""
    if workload.uses_adapters:
        scheme = f'peft_scheme="{workload.method}"'
        modules = megatron_modules(workload)  # none named: every linear, as a recipe has it
        settings["peft"] = {
            "dim": workload.lora_rank,
            "dropout": workload.lora_dropout,
            **({"target_modules": modules} if modules else {}),
        }
    return "\n".join(
        [
            written(_FILE, yaml_of(settings)),
            written(_SCRIPT, _script(scheme)),
            f"torchrun --nproc-per-node {processes_per_node(workload)} {_SCRIPT}",
        ]
    )


def _dataset(workload: TrainingWorkload) -> dict[str, object]:
    """Return how samples are packed, of which a micro-batch is one. Recipes pack to a length of
    their own, which is the one that is trained on; a packing that is off must have no length
    (src/megatron/bridge/data/builders/gpt_sft.py)."""
    length, packs = workload.sequence_length, workload.micro_batch_size == 1
    return {
        "seq_length": length,
        "enable_offline_packing": packs,
        "offline_packing_specs": {"packed_sequence_size": length} if packs else None,
    }


def _model(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    """Return the degrees of parallelism, kernels, and what is recomputed."""
    blocks = [block for block in model.spec.blocks if block.part is Part.LANGUAGE]
    routed = any(block.mlp is not None and block.mlp.experts for block in blocks)
    interleaved = workload.pipeline_parallel > 1 and workload.pipeline_schedule == "interleaved"
    settings: dict[str, object] = {
        "seq_length": workload.sequence_length,
        "tensor_model_parallel_size": workload.tensor_parallel,
        "pipeline_model_parallel_size": workload.pipeline_parallel,
        "virtual_pipeline_model_parallel_size": workload.pipeline_chunks if interleaved else None,
        "context_parallel_size": workload.context_parallel,
        "sequence_parallel": workload.sequence_parallel,
        "attention_backend": _ATTENTION[workload.attention],
        "cross_entropy_loss_fusion": workload.compile,
        **_recomputed(workload),
    }
    if routed:
        settings["expert_model_parallel_size"] = workload.expert_parallel
        settings["expert_tensor_parallel_size"] = workload.expert_ways
    if sizes := uneven(workload, model.spec):
        settings["num_layers_in_first_pipeline_stage"] = sizes[0]
        settings["num_layers_in_last_pipeline_stage"] = sizes[-1]
    return settings


def _recomputed(workload: TrainingWorkload) -> dict[str, object]:
    if workload.activation_checkpointing == "none":
        return {"recompute_granularity": None}
    if workload.activation_checkpointing == "selective":
        modules = list(recomputed_modules(workload))
        return {"recompute_granularity": "selective", "recompute_modules": modules}
    return {
        "recompute_granularity": "full",
        "recompute_method": "uniform",
        "recompute_num_layers": 1,
    }


def _optimizer(workload: TrainingWorkload) -> dict[str, object]:
    settings: dict[str, object] = {
        "optimizer": _OPTIMIZERS[workload.optimizer],
        "use_distributed_optimizer": workload.zero_stage > 0,
    }
    if workload.offload != "none":
        settings["use_precision_aware_optimizer"] = True
        settings["optimizer_cpu_offload"] = True
        settings["optimizer_offload_fraction"] = 1.0
    return settings


def _script(scheme: str) -> str:
    """Return the tutorial's script with a recipe to fill in. scheme: the recipe's argument for
    adapters."""
    return f'''"""Train by a recipe of Megatron-Bridge with the settings of {_FILE}."""

import sys

from megatron.bridge.recipes import RECIPE
from megatron.bridge.training.finetune import finetune
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides

if __name__ == "__main__":
    config = process_config_with_overrides(
        RECIPE({scheme}), config_filepath="{_FILE}", cli_overrides=sys.argv[1:] or None
    )
    finetune(config=config, forward_step_func=forward_step)
'''


NEMO = Tool(
    name="nemo",
    packs=True,
    title="NeMo",
    phrases=("nemo framework", "megatron bridge", "nvidia nemo"),
    sign=re.compile(r"\bmegatron\.bridge\b"),
    version="Megatron-Bridge, main of August 2026",
    selective=True,
    writer="megatron",
    framework="megatron",
    command=nemo_command,
    run_names=RunNames(
        "overrides", {"max_steps": "train.train_iters", "save_steps": "checkpoint.save_interval"}
    ),
    supports=nemo_supports,
    unsupported=lambda model, workload, setup: fused_adapters(workload),
    trains_whole=True,  # megatron/bridge/recipes, peft: None
    placeholders="RECIPE and CHECKPOINT",
    defaults=(
        Default("precision", "mixed_bf16",
            "src/megatron/bridge/recipes/common.py, mixed_precision: bf16_mixed"),
        Default("activation_checkpointing", "none",
            "src/megatron/bridge/recipes/llama/h100/llama3.py, recompute_granularity: None"),
        Default("lora_rank", 32, "src/megatron/bridge/recipes/common.py, LoRA: dim", ADAPTERS),
    ),
)  # fmt: skip
