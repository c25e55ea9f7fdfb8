"""ms-swift: flags of `swift sft` and `swift rlhf`. Source: ms-swift 4.6, swift/arguments;
examples/train."""

import re
from collections.abc import Iterator, Mapping, Sequence

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.rollout import steps_sampled
from fitgauge.engine.training.algorithms.setup import Setup, Sleep
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy
from fitgauge.services.common.shell import flags, joined, path_of, switch, turned_on
from fitgauge.services.training_fit.launchers.adapter_names import EXPERT_PARAMETERS, target_modules
from fitgauge.services.training_fit.launchers.common import (
    DTYPES,
    base_format,
    optimizer_settings,
    processes_per_node,
)
from fitgauge.services.training_fit.launchers.deepspeed import DEEPSPEED, deepspeed_config
from fitgauge.services.training_fit.launchers.file_formats import written
from fitgauge.services.training_fit.launchers.run_settings import TRAINER_FLAGS
from fitgauge.services.training_fit.launchers.tool import (
    ADAPTERS,
    FUSED_FROM,
    PREFERENCE,
    SUPERVISED,
    Default,
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

_ATTENTION = {"flash": "flash_attn", "sdpa": "sdpa", "eager": "eager", "flex": "flex_attention"}
_TYPES = {"reward": "rm"}
_OWN_OPTIMIZERS = ("muon",)
_SLEEP: Mapping[Sleep, int] = {"off": 0, "level_1": 1, "level_2": 2}


def ms_swift_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`swift sft`, or `swift rlhf` with its type, on as many processes as there are GPUs of a
    node."""
    words: list[object] = (
        ["env", f"NPROC_PER_NODE={processes_per_node(workload)}"] if workload.gpus > 1 else []
    )
    algorithm = _TYPES.get(setup.algorithm, setup.algorithm)
    words += ["swift", *(["sft"] if algorithm == "sft" else ["rlhf", "--rlhf_type", algorithm])]
    ways = workload.context_parallel
    settings = {
        "--model": path_of(model),
        "--dataset": "DATASET",
        "--torch_dtype": DTYPES.get(precision_policy(workload).weights, "bfloat16"),
        **_adapters(model, workload),
        "--bf16": switch(workload.precision in ("mixed_bf16", "bf16")),
        "--fp16": switch(workload.precision == "mixed_fp16"),
        # of the prompt alone where completions are sampled
        "--max_length": setup.prompt_length if setup.sampled else workload.sequence_length,
        "--packing": switch(workload.packed and workload.attention == "flash"),
        "--per_device_train_batch_size": workload.micro_batch_size,
        "--gradient_accumulation_steps": workload.micro_batches,
        **{f"--{name}": value for name, value in _optimizer(workload).items()},
        "--gradient_checkpointing": switch(workload.activation_checkpointing != "none"),
        "--attn_impl": _ATTENTION[workload.attention],
        "--use_liger_kernel": turned_on(workload.loss == "fused" or workload.kernels == "liger"),
        "--torch_compile": turned_on(workload.compile),
        "--sequence_parallel_size": ways if ways > 1 else None,
        "--teacher_model": setup.teacher or None,
        **(_sampled(workload, setup) if setup.sampled else {}),
        "--fsdp": "fsdp2" if workload.framework == "fsdp" else None,
        "--deepspeed": DEEPSPEED if workload.framework == "deepspeed" else None,
    }
    command = joined([*words, *flags(settings)])
    if workload.framework != "deepspeed":
        return command
    return "\n".join([written(DEEPSPEED, deepspeed_config(workload) + "\n"), command])


def _optimizer(workload: TrainingWorkload) -> dict[str, str]:
    """Return the Trainer's optimizer, or one of its own (swift/optimizers/mapping.py)."""
    if workload.optimizer in _OWN_OPTIMIZERS:
        return {"optimizer": workload.optimizer}
    return optimizer_settings(workload)


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    yield from unsupported_by_trainer(model, workload, setup, _OWN_OPTIMIZERS)
    yield from fused_by_liger(workload)
    if workload.packed and workload.attention != "flash":
        yield lacking("packed", "ms-swift packs samples under flash attention alone.")


def _sampled(workload: TrainingWorkload, setup: Setup) -> dict[str, object]:
    """Completions, their reward, and what samples them (swift/arguments/rlhf_args.py;
    swift/rlhf_trainers/args_mixin.py)."""
    settings: dict[str, object] = {
        "--max_completion_length": setup.completion_length,
        "--reward_model": "REWARD_MODEL" if setup.rewarded else None,
    }
    if setup.algorithm == "ppo":
        return settings
    steps, rollout = steps_sampled(workload, setup), setup.rollout
    settings |= {
        "--reward_funcs": None if setup.rewarded else "accuracy",
        "--num_generations": setup.group_size,
        "--beta": 0 if setup.reference == "none" else None,
        "--steps_per_generation": steps if steps > workload.micro_batches else None,
    }
    if rollout is None or not rollout.serves:
        return settings
    return settings | {
        "--use_vllm": "true",
        "--vllm_mode": "colocate",
        "--vllm_gpu_memory_utilization": rollout.memory_utilization,
        "--vllm_tensor_parallel_size": rollout.tensor_parallel,
        "--vllm_max_model_len": setup.prompt_length + setup.completion_length,
        "--sleep_level": _SLEEP[rollout.sleep],
    }


def _adapters(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    if not workload.uses_adapters:
        return {"--tuner_type": "full"}
    settings: dict[str, object] = {
        "--tuner_type": "lora",
        "--lora_rank": workload.lora_rank,
        "--lora_dropout": f"{workload.lora_dropout:g}",
        "--target_modules": target_modules(model.spec, workload),
        "--target_parameters": EXPERT_PARAMETERS if workload.lora_experts else None,
        "--use_dora": turned_on(workload.method == "dora"),
        "--lora_dtype": "bfloat16" if workload.precision == "bf16" else None,
    }
    stored = base_format(workload)
    if stored == "int8":
        settings |= {"--quant_method": "bnb", "--quant_bits": 8}
    elif stored in ("nf4", "nf4_double", "fp4"):
        settings |= {
            "--quant_method": "bnb",
            "--quant_bits": 4,
            "--bnb_4bit_quant_type": stored[:3],
            "--bnb_4bit_use_double_quant": switch(stored == "nf4_double"),
            # accelerate leaves bytes whole on every rank (utils/fsdp_utils.py, fsdp2_prepare_model)
            "--bnb_4bit_quant_storage": "bfloat16" if workload.framework == "fsdp" else None,
        }
    return settings


def _files(before: Sequence[str], words: Sequence[str]) -> ConfigFiles | None:
    """Read `swift sft` and `swift rlhf`. Source: swift/cli/main.py, parse_yaml_args."""
    place = place_of(words, lambda word: word == "swift")
    if place is None:
        return None
    start = [*words[: place + 2], "swift.yaml"]
    return settings_file(before, start, "swift.yaml", flags_of(words[place + 2 :]))


MS_SWIFT = Tool(
    name="ms-swift",
    packs=True,
    title="ms-swift",
    phrases=("ms swift", "msswift"),
    sign=re.compile(r"\bswift (?:sft|rlhf|pt)\b"),
    version="4.6",
    loads_by_transformers=True,
    framework="transformers",
    shards_with=("deepspeed", "fsdp"),
    aliases=("swift", "swiftsft"),
    command=ms_swift_command,
    files=_files,
    run_names=TRAINER_FLAGS,
    algorithms=PREFERENCE | {"ppo", "grpo", "gkd"},
    shards_teacher=True,  # swift/rlhf_trainers/rollout_mixin.py, _setup_teacher
    unsupported=_unsupported,
    fuses_loss=frozenset({"sft", "grpo"}),  # swift/rlhf_trainers/grpo_trainer.py
    steps_under_deepspeed=True,  # swift/config/zero3.json
    defaults=(
        Default("optimizer_implementation", "fused", FUSED_FROM),
        Default("precision", "bf16",
            "swift/arguments/base_args/model_args.py, torch_dtype: the checkpoint's", ("full",)),
        Default("precision", "mixed_bf16",
            "swift/arguments/base_args/model_args.py, _init_mixed_precision", ADAPTERS),
        Default("base_precision", "half",
            "tuners/lora/model.py, autocast_adapter_dtype: adapters in fp32 with a 16-bit base"
            " (PEFT)", ADAPTERS),
        Default("quantization", "nf4_double",
            "swift/arguments/base_args/quant_args.py, bnb_4bit_use_double_quant", ("qlora",)),
        Default("loss", "fused",
            "transformers integrations/liger.py, apply_liger_kernel: fused_linear_cross_entropy",
            algorithms=SUPERVISED, kernels="liger"),
        Default("activation_checkpointing", "full",
            "swift/trainers/arguments.py, gradient_checkpointing"),
        Default("lora_rank", 8, "swift/arguments/tuner_args.py, lora_rank", ADAPTERS),
        Default("lora_dropout", 0.05, "swift/arguments/tuner_args.py, lora_dropout", ADAPTERS,
            without_experts=True),
        Default("lora_targets", "all_linear",
            "swift/arguments/tuner_args.py, target_modules: all-linear", ADAPTERS),
    ),
)  # fmt: skip
