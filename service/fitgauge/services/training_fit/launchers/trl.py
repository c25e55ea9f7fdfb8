"""TRL's scripts, or transformers' examples for encoders, under `accelerate launch`. Source: TRL
1.10, trl/scripts and trl/trainer."""

import re
from collections.abc import Iterator, Sequence

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.rollout import steps_sampled
from fitgauge.engine.training.algorithms.setup import Algorithm, Setup
from fitgauge.engine.training.autograd.layers.stacks import speech
from fitgauge.engine.training.states.sharding import is_sharded
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy
from fitgauge.services.common.shell import flags, path_of, switch, turned_on
from fitgauge.services.training_fit.launchers.accelerate import accelerate_flags, mesh_environment
from fitgauge.services.training_fit.launchers.adapter_names import EXPERT_PARAMETERS, target_modules
from fitgauge.services.training_fit.launchers.common import (
    DTYPES,
    attention_name,
    base_format,
    optimizer_settings,
)
from fitgauge.services.training_fit.launchers.run_settings import TRAINER_FLAGS
from fitgauge.services.training_fit.launchers.tool import (
    ADAPTERS,
    FUSED_FROM,
    SUPERVISED,
    Change,
    Default,
    Launcher,
    Tool,
    lacking,
)
from fitgauge.services.training_fit.launchers.trainer import fused_by_liger, unsupported_by_trainer
from fitgauge.services.training_fit.launchers.words_as_files import (
    ConfigFiles,
    flags_of,
    place_of,
    settings_file,
)

_SCRIPTS = {
    "sft": ("-m", "trl.scripts.sft"), "dpo": ("-m", "trl.scripts.dpo"),
    "kto": ("-m", "trl.scripts.kto"),
    "reward": ("-m", "trl.scripts.reward"), "grpo": ("-m", "trl.scripts.grpo"),
    "rloo": ("-m", "trl.scripts.rloo"),
    "orpo": ("examples/scripts/orpo.py",), "simpo": ("examples/scripts/cpo.py",),
    "ppo": ("examples/scripts/ppo/ppo.py",), "gkd": ("examples/scripts/gkd.py",),
}  # fmt: skip
"""trl/scripts and examples/scripts of its repository."""
_BETA = 0.04
_REDUCES_EACH = '{"gradient_accumulation_kwargs": {"sync_each_batch": true}}'
Flags = dict[str, object]


def trl_command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return the words of `accelerate launch` with the script."""
    return [
        *mesh_environment(workload),
        "accelerate",
        "launch",
        *accelerate_flags(workload),
        *script_flags(model, workload, setup),
    ]


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    yield from unsupported_by_trainer(model, workload, setup)
    if workload.framework == "fsdp" and workload.tensor_parallel > 1:
        yield lacking(
            "tensor_parallel",
            "TRL loads every tensor whole, of which accelerate divides none: load the model with"
            f" DistributedConfig(tp_size={workload.tensor_parallel}) in code.",
        )
    yield from fused_by_liger(workload)
    if model.spec.task == "encode" and model.spec.architecture.endswith("Model"):
        yield lacking(
            "model",
            "An embedding model: the command trains a classifier on it. sentence-transformers"
            " trains embeddings on pairs, of which each text is a sequence of the micro-batch.",
        )
    if workload.uses_adapters and model.spec.task != "generate" and setup.algorithm == "sft":
        yield lacking(
            "method",
            "transformers' example script has no adapters: wrap its model with"
            " peft.get_peft_model.",
        )
    if workload.uses_adapters and workload.quantize_experts and model.spec.routed_experts:
        yield lacking(
            "quantize_experts",
            "TRL has no flag that quantizes experts: axolotl has quantize_moe_experts, Unsloth"
            " quantizes them by default.",
        )


def computes_reference_first(workload: TrainingWorkload, algorithm: Algorithm) -> bool:
    """Return whether DPO and KTO take `precompute_ref_log_probs`: Liger's loss refuses it
    (trl/trainer/dpo_trainer.py, kto_trainer.py)."""
    return algorithm in ("dpo", "kto") and not _uses_liger(workload)


def _uses_liger(workload: TrainingWorkload) -> bool:
    return workload.loss == "fused" or workload.kernels == "liger"


def script_flags(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return what `accelerate launch` starts: the script of the algorithm, or of a model that
    encodes texts, and its flags."""
    if model.spec.task != "generate" and setup.algorithm == "sft":
        return _encoder(model, workload)
    settings = {
        "--model_name_or_path": path_of(model),
        "--dataset_name": "DATASET",
        **_lengths(workload, setup),
        "--packing": turned_on(workload.packed and setup.algorithm == "sft"),
        **_trainer(workload),
        "--attn_implementation": attention_name(workload),
        "--dtype": DTYPES.get(precision_policy(workload).weights, "bfloat16"),
        **_loss(workload, setup),
        "--activation_offloading": turned_on(workload.activation_offload),
        **_algorithm(model, workload, setup),
        **_adapters(model, workload, setup),
    }
    return [*_SCRIPTS[setup.algorithm], *flags(settings)]


def _loss(workload: TrainingWorkload, setup: Setup) -> Flags:
    if setup.algorithm != "sft" or _uses_liger(workload):
        return {}
    return {"--loss_type": "chunked_nll" if workload.loss in ("chunked", "recomputed") else "nll"}


def _lengths(workload: TrainingWorkload, setup: Setup) -> Flags:
    if setup.algorithm == "ppo":
        return {"--response_length": setup.completion_length}
    if setup.sampled:
        return {"--max_completion_length": setup.completion_length}
    return {"--max_length": workload.sequence_length}


def _trainer(workload: TrainingWorkload) -> Flags:
    """TrainingArguments. TRL turns bf16 autocast on by itself: what trains without it must turn
    it off (trl/trainer/base_config.py)."""
    in_fp16 = workload.precision == "mixed_fp16"
    in_bf16 = workload.precision == "mixed_bf16" or (
        workload.framework == "deepspeed" and workload.precision == "bf16"
    )
    # without it the Trainer would keep whole gradients from one micro-batch to the next
    reduces_each = workload.framework == "fsdp" and workload.micro_batches > 1
    return {
        "--per_device_train_batch_size": workload.micro_batch_size,
        "--gradient_accumulation_steps": workload.micro_batches,
        "--accelerator_config": _REDUCES_EACH if reduces_each else None,
        "--gradient_checkpointing": switch(workload.activation_checkpointing != "none"),
        **{f"--{name}": value for name, value in optimizer_settings(workload).items()},
        "--fp16": turned_on(in_fp16),
        "--bf16": None if in_fp16 else switch(in_bf16),
        "--use_liger_kernel": turned_on(_uses_liger(workload)),
        "--torch_compile": turned_on(workload.compile),
    }


def _algorithm(model: Model, workload: TrainingWorkload, setup: Setup) -> Flags:
    """Return what the algorithm's script has flags for. A reference is loaded where beta is
    above 0."""
    match setup.algorithm:
        case "dpo" | "kto":
            if setup.reference == "none":
                return {"--precompute_ref_log_probs": "true"}
            # Liger's losses refuse the routers' loss, which is on by default (dpo_trainer.py)
            routed = model.spec.routed_experts > 0 and _uses_liger(workload)
            return {"--router_aux_loss_coef": 0 if routed else None}
        case "simpo":
            return {"--loss_type": "simpo", "--cpo_alpha": 0}
        case "gkd":
            return {"--teacher_model_name_or_path": setup.teacher}
        case "ppo":
            return {"--sft_model_path": path_of(model), "--reward_model_path": "REWARD_MODEL"}
        case "grpo" | "rloo":
            steps = steps_sampled(workload, setup)
            return {
                "--num_generations": setup.group_size,
                "--beta": 0 if setup.reference == "none" else _BETA,
                "--reward_model_name_or_path": "REWARD_MODEL" if setup.rewarded else None,
                "--reward_funcs": None if setup.rewarded else "accuracy_reward",
                "--steps_per_generation": steps if steps > workload.micro_batches else None,
                **_rollout(setup),
            }
        case _:
            return {}


def _rollout(setup: Setup) -> Flags:
    rollout = setup.rollout
    if rollout is None:
        return {"--use_vllm": "true", "--vllm_mode": "server"}
    if not rollout.serves:
        return {}
    return {
        "--use_vllm": "true",
        "--vllm_mode": "colocate",
        "--vllm_gpu_memory_utilization": rollout.memory_utilization,
        "--vllm_tensor_parallel_size": rollout.tensor_parallel,
        "--vllm_max_model_length": setup.prompt_length + setup.completion_length,
        "--vllm_enable_sleep_mode": switch(rollout.sleep != "off"),
    }


def _adapters(model: Model, workload: TrainingWorkload, setup: Setup) -> Flags:
    """PEFT and bitsandbytes. Source: trl/trainer/model_config.py."""
    if not workload.uses_adapters:
        return {}
    stored = base_format(workload)
    in_4bit = stored in ("nf4", "nf4_double", "fp4")
    # shards packed weights as numbers of the format of the rest (PEFT's guide on FSDP)
    packed_as = DTYPES.get(precision_policy(workload).weights, "bfloat16")
    return {
        "--use_peft": "true",
        "--lora_r": workload.lora_rank,
        "--lora_dropout": f"{workload.lora_dropout:g}",
        "--lora_target_modules": target_modules(model.spec, workload),
        "--lora_target_parameters": EXPERT_PARAMETERS if workload.lora_experts else None,
        "--lora_task_type": "SEQ_CLS" if setup.algorithm == "reward" else None,
        "--use_dora": turned_on(workload.method == "dora"),
        "--load_in_8bit": turned_on(stored == "int8"),
        "--load_in_4bit": turned_on(in_4bit),
        "--bnb_4bit_quant_type": stored[:3] if stored and in_4bit else None,
        "--use_bnb_nested_quant": turned_on(stored == "nf4_double"),
        # what shards takes no bytes (PEFT's guides to FSDP and DeepSpeed, on QLoRA)
        "--bnb_4bit_quant_storage": (
            packed_as if in_4bit and is_sharded("weights", workload) else None
        ),
    }


def _encoder(model: Model, workload: TrainingWorkload) -> list[object]:
    """Return the command of transformers' example script for a model without a causal head.
    Source: transformers examples/pytorch."""
    script, length = "text-classification/run_classification.py", "--max_seq_length"
    if speech(model.spec) and model.spec.task == "encoder_decoder":
        script = "speech-recognition/run_speech_recognition_seq2seq.py"
        length = "--generation_max_length"
    elif model.spec.task == "encoder_decoder":
        script, length = "summarization/run_summarization.py", "--max_source_length"
    elif model.spec.sees_images:
        script = "contrastive-image-text/run_clip.py"
    elif workload.loss != "none":
        script = "language-modeling/run_mlm.py"
    settings = {
        "--model_name_or_path": path_of(model),
        "--dataset_name": "DATASET",
        "--do_train": True,
        length: workload.sequence_length,
        **_trainer(workload),
    }
    return [f"examples/pytorch/{script}", *flags(settings)]


def _files(before: Sequence[str], words: Sequence[str]) -> ConfigFiles | None:
    """Read TRL's scripts. Source: trl/scripts/utils.py, TrlParser.parse_args_and_config."""
    place = place_of(words, lambda word: word.startswith("trl.scripts."))
    if place is None:
        return None
    settings = flags_of(words[place + 1 :])
    for name in _LISTS & settings.keys():
        settings[name] = settings[name] if isinstance(settings[name], list) else [settings[name]]
    start = [*words[: place + 1], "--config", "trl.yaml"]
    return settings_file(before, start, "trl.yaml", settings)


_LISTS = frozenset(("reward_funcs",))
"""Settings of TRL that are lists with one value too (trl/scripts/grpo.py)."""

TRL = Tool(
    name="trl",
    packs=True,
    title="TRL",
    phrases=("trl", "sfttrainer", "sft trainer"),
    sign=re.compile(r"\btrl\.scripts\.|\btrl (?:sft|dpo|kto|grpo|reward)\b"),
    version="1.10",
    loads_by_transformers=True,
    framework="transformers",
    shards_with=("deepspeed", "fsdp"),
    files=_files,
    computes_reference_first=computes_reference_first,
    # Liger's losses of dpo_trainer.py, kto_trainer.py and grpo_trainer.py
    fuses_loss=frozenset({"sft", "dpo", "kto", "grpo"}),
    moved=(
        Default("base_precision", "fp32",
            "trl/models/utils.py, prepare_peft_model; peft/utils/other.py,"
            " prepare_model_for_kbit_training: what is not quantized in fp32",
            ("qlora",), until=Change((2025, 12, 4), (0, 26)), spanned=True, dense=True),
    ),
    defaults=(
        Default("optimizer_implementation", "fused", FUSED_FROM),
        Default("precision", "mixed_bf16",
            "trl/trainer/utils.py, create_model_from_path: dtype float32; base_config.py: bf16"),
        Default("activation_checkpointing", "full",
            "trl/trainer/base_config.py, gradient_checkpointing"),
        Default("loss", "fused", "trl/trainer/sft_config.py, loss_type with use_liger_kernel: nll",
            algorithms=SUPERVISED, kernels="liger"),
        Default("loss", "recomputed", "trl/trainer/sft_config.py, loss_type: chunked_nll",
            algorithms=SUPERVISED),
        Default("lora_rank", 16, "trl/trainer/model_config.py, lora_r", ADAPTERS),
        Default("lora_dropout", 0.05, "trl/trainer/model_config.py, lora_dropout", ADAPTERS,
            without_experts=True),
    ),
)  # fmt: skip
TRL_LAUNCHER = Launcher("TRL", trl_command, _unsupported, TRAINER_FLAGS)
