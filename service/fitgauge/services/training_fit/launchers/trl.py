"""TRL's scripts, or transformers' examples for encoders, under `accelerate launch`. Source: TRL
1.10, trl/scripts and trl/trainer."""

from collections.abc import Sequence

from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import Part
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.rollout import steps_sampled
from fitgauge.engine.training.algorithms.setup import Algorithm, Setup
from fitgauge.engine.training.autograd.layers.stacks import speech
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy
from fitgauge.services.common.shell import path_of, switch
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
    "ppo": ("examples/scripts/ppo/ppo.py",),
}  # fmt: skip
"""trl/scripts and examples/scripts of its repository."""
_BETA = 0.04


def trl_command(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return the words of `accelerate launch` with the script."""
    return [
        *mesh_environment(workload),
        "accelerate",
        "launch",
        *accelerate_flags(workload),
        *script_flags(model, workload, setup),
    ]


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> list[Note]:
    notes = unsupported_by_trainer(model, workload, setup) + fused_by_liger(workload)
    if workload.uses_adapters and workload.quantize_experts and model.spec.routed_experts:
        notes.append(
            lacking(
                "quantize_experts",
                "TRL has no flag that quantizes experts: axolotl has quantize_moe_experts, Unsloth"
                " quantizes them by default.",
            )
        )
    return notes


def computes_reference_first(workload: TrainingWorkload, algorithm: Algorithm) -> bool:
    """Return whether DPO and KTO take `precompute_ref_log_probs`: Liger's loss refuses it
    (trl/trainer/dpo_trainer.py, kto_trainer.py)."""
    return algorithm in ("dpo", "kto") and not _uses_liger(workload)


def _uses_liger(workload: TrainingWorkload) -> bool:
    return workload.loss == "fused" or workload.kernels == "liger"


def script_flags(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return the script and its flags."""
    if model.spec.task != "generate" and setup.algorithm == "sft":
        return _encoder(model, workload)
    flags: list[object] = [
        *_SCRIPTS[setup.algorithm],
        "--model_name_or_path",
        path_of(model),
        "--dataset_name",
        "DATASET",
    ]
    flags += _lengths(workload, setup)
    flags += _trainer(workload)
    flags += ["--attn_implementation", attention_name(workload)]
    flags += ["--dtype", DTYPES.get(precision_policy(workload).weights, "bfloat16")]
    if setup.algorithm == "sft" and workload.loss != "fused" and workload.kernels != "liger":
        in_chunks = workload.loss in ("chunked", "recomputed")
        flags += ["--loss_type", "chunked_nll" if in_chunks else "nll"]
    if workload.activation_offload:
        flags += ["--activation_offloading", "true"]
    return [*flags, *_algorithm(model, workload, setup), *_adapters(model, workload, setup)]


def _lengths(workload: TrainingWorkload, setup: Setup) -> list[object]:
    if setup.algorithm == "ppo":
        return ["--response_length", setup.completion_length]
    return (
        ["--max_completion_length", setup.completion_length]
        if setup.sampled
        else ["--max_length", workload.sequence_length]
    )


def _trainer(workload: TrainingWorkload) -> list[object]:
    """TrainingArguments. TRL turns bf16 autocast on by itself: what trains without it must turn
    it off (trl/trainer/base_config.py)."""
    flags: list[object] = ["--per_device_train_batch_size", workload.micro_batch_size]
    flags += ["--gradient_accumulation_steps", workload.micro_batches]
    if (
        workload.framework == "fsdp" and workload.micro_batches > 1
    ):  # the Trainer would keep whole gradients from one to the next
        flags += [
            "--accelerator_config",
            '{"gradient_accumulation_kwargs": {"sync_each_batch": true}}',
        ]
    flags += ["--gradient_checkpointing", switch(workload.activation_checkpointing != "none")]
    for name, value in optimizer_settings(workload).items():
        flags += [f"--{name}", value]
    if workload.precision == "mixed_fp16":
        flags += ["--fp16", "true"]
    else:
        mixed = workload.precision == "mixed_bf16" or (
            workload.framework == "deepspeed" and workload.precision == "bf16"
        )
        flags += ["--bf16", switch(mixed)]
    if _uses_liger(workload):
        flags += ["--use_liger_kernel", "true"]
    if workload.compile:
        flags += ["--torch_compile", "true"]
    return flags


def _algorithm(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """Return what the algorithm's script has flags for. A reference is loaded where beta is
    above 0."""
    match setup.algorithm:
        case "dpo" | "kto":
            if setup.reference == "none":
                return ["--precompute_ref_log_probs", "true"]
            # Liger's losses refuse the routers' loss, which is on by default (dpo_trainer.py)
            routed = model.spec.routed_experts > 0 and _uses_liger(workload)
            return ["--router_aux_loss_coef", 0] if routed else []
        case "simpo":
            return ["--loss_type", "simpo", "--cpo_alpha", 0]
        case "ppo":
            return ["--sft_model_path", path_of(model), "--reward_model_path", "REWARD_MODEL"]
        case "grpo" | "rloo":
            flags: list[object] = [
                "--num_generations",
                setup.group_size,
                "--beta",
                0 if setup.reference == "none" else _BETA,
            ]
            flags += (
                ["--reward_model_name_or_path", "REWARD_MODEL"]
                if setup.rewarded
                else ["--reward_funcs", "accuracy_reward"]
            )
            steps = steps_sampled(workload, setup)
            flags += ["--steps_per_generation", steps] if steps > workload.micro_batches else []
            return flags + _rollout(setup)
        case _:
            return []


def _rollout(setup: Setup) -> list[object]:
    rollout = setup.rollout
    if rollout is None:
        return ["--use_vllm", "true", "--vllm_mode", "server"]
    if not rollout.serves:
        return []
    return [
        "--use_vllm", "true", "--vllm_mode", "colocate",
        "--vllm_gpu_memory_utilization", rollout.memory_utilization,
        "--vllm_tensor_parallel_size", rollout.tensor_parallel,
        "--vllm_max_model_length", setup.prompt_length + setup.completion_length,
        "--vllm_enable_sleep_mode", switch(rollout.sleep != "off"),
    ]  # fmt: skip


def _adapters(model: Model, workload: TrainingWorkload, setup: Setup) -> list[object]:
    """PEFT and bitsandbytes. Source: trl/trainer/model_config.py."""
    if not workload.uses_adapters:
        return []
    flags: list[object] = ["--use_peft", "true", "--lora_r", workload.lora_rank]
    flags += ["--lora_dropout", f"{workload.lora_dropout:g}"]
    flags += ["--lora_target_modules", *target_modules(model.spec, workload)]
    if workload.lora_experts:
        flags += ["--lora_target_parameters", *EXPERT_PARAMETERS]
    flags += ["--lora_task_type", "SEQ_CLS"] if setup.algorithm == "reward" else []
    if workload.method == "dora":
        flags += ["--use_dora", "true"]
    quantization = base_format(workload)
    if quantization == "int8":
        flags += ["--load_in_8bit", "true"]
    elif quantization in ("nf4", "nf4_double", "fp4"):
        flags += ["--load_in_4bit", "true", "--bnb_4bit_quant_type", quantization[:3]]
        flags += ["--use_bnb_nested_quant", "true"] if quantization == "nf4_double" else []
        if (
            workload.framework == "fsdp"
        ):  # shards packed weights as numbers of the format of the rest (PEFT's guide on FSDP)
            weights = precision_policy(workload).weights
            flags += ["--bnb_4bit_quant_storage", DTYPES.get(weights, "bfloat16")]
    return flags


def _encoder(model: Model, workload: TrainingWorkload) -> list[object]:
    """Return the command of transformers' example script for a model without a causal head.
    Source: transformers examples/pytorch."""
    script, length = "text-classification/run_classification.py", "--max_seq_length"
    if model.spec.task == "encoder_decoder":
        script, length = "summarization/run_summarization.py", "--max_source_length"
        if speech(model.spec):
            script, length = (
                "speech-recognition/run_speech_recognition_seq2seq.py",
                "--generation_max_length",
            )
    elif any(block.part is Part.VISION for block in model.spec.blocks):
        script = "contrastive-image-text/run_clip.py"
    flags: list[object] = [
        f"examples/pytorch/{script}",
        "--model_name_or_path",
        path_of(model),
        "--dataset_name",
        "DATASET",
        "--do_train",
    ]
    return [*flags, length, workload.sequence_length, *_trainer(workload)]


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
    title="TRL",
    version="1.10",
    loads_by_transformers=True,
    framework="transformers",
    shards_with=("deepspeed", "fsdp"),
    files=_files,
    computes_reference_first=computes_reference_first,
    # Liger's losses of dpo_trainer.py, kto_trainer.py and grpo_trainer.py
    fuses_loss=frozenset({"sft", "dpo", "kto", "grpo"}),
    defaults=(
        Default("optimizer_implementation", "fused", FUSED_FROM),
        Default("precision", "mixed_bf16",
            "trl/trainer/utils.py, create_model_from_path: dtype float32; base_config.py: bf16"),
        Default("activation_checkpointing", "full",
            "trl/trainer/base_config.py, gradient_checkpointing"),
        Default("loss", "fused", "trl/trainer/sft_config.py, loss_type with use_liger_kernel: nll",
            supervised=True, kernels="liger"),
        Default("loss", "recomputed", "trl/trainer/sft_config.py, loss_type: chunked_nll",
            supervised=True),
        Default("lora_rank", 16, "trl/trainer/model_config.py, lora_r", ADAPTERS),
        Default("lora_dropout", 0.05, "trl/trainer/model_config.py, lora_dropout", ADAPTERS),
    ),
)  # fmt: skip
TRL_LAUNCHER = Launcher("TRL", trl_command, _unsupported, TRAINER_FLAGS)
