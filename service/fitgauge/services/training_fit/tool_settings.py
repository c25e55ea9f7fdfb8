"""Settings of a training as its tools write them: flags of a command, YAML, TOML or JSON, overrides
and keyword arguments of a script. The names are those of the launchers."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit import parsing

Read = Callable[[str], object]
"""Reads a value; None, or ValueError or InvalidRequestError, for one that says nothing."""
_NAME = r"[A-Za-z_][\w.-]{0,80}+"
_VALUE = r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|\[[^\]\n]{0,400}\]|[^\s,;(){}\[\]\"']{1,200}+"
_PAIR = re.compile(
    rf"(?<![\w./-])(?:(?P<flag>--{_NAME})(?:[ \t=]+(?P<given>(?!-)(?:{_VALUE})))?"
    rf"|[\"']?(?P<name>{_NAME})[\"']?[ \t]*[:=][ \t]*(?P<value>{_VALUE}|\{{)?"
    r"|(?P<spoken>[a-z]+_\w{1,60}+)[ \t]+(?P<number>\d+(?:\.\d+)?)\b)"
)
_OPENED = re.compile(r"[{}]")


class _Setting(NamedTuple):
    name: str
    """Lower-case, with underscores, under the names of the objects around it."""
    value: str
    """Empty of a switch."""


def _word(text: str) -> str:
    return text.strip().strip("\"'")


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


def _optimizer(text: str) -> str:
    return parsing.optimizer(text.rpartition(".")[2])


def _implementation(text: str) -> str | None:
    return "fused" if text.lower().endswith("_fused") else None


def _targets(text: str) -> object:
    names = re.findall(r"[\w-]+", text)
    return names if text[:1] == "[" else "all_linear" if text in ("all", "all-linear") else None


def _stage(text: str) -> int | None:
    match = re.search(r"(?:z|zero|stage)[-_]?([0-3])(?!\d)", text.lower())
    return int(match[1]) if match else None


_ATTENTION = _one_of(
    eager="eager", sdpa="sdpa", flash_attention_2="flash", flash_attention_3="flash", fa2="flash",
    fa3="flash", flash_attn="flash", flex_attention="flex",
)  # fmt: skip
_CHECKPOINTING = (
    "gradient_checkpointing use_gradient_checkpointing enable_activation_checkpointing"
    " enable_gradient_checkpointing fsdp_activation_checkpointing"
)
_NAMES: Mapping[tuple[str, Read], str] = {
    ("micro_batch_size", _whole):
        "per_device_train_batch_size micro_batch_size train_micro_batch_size_per_gpu"
        " per_gpu_train_batch_size micro_train_batch_size ppo_micro_batch_size_per_gpu"
        " local_batch_size",
    ("eval_batch_size", _whole): "per_device_eval_batch_size",
    ("micro_batches", _whole): "gradient_accumulation_steps",
    ("sequence_length", _whole):
        "max_seq_length cutoff_len sequence_len seq_length tokenizer.max_seq_len training.seq_len"
        " seq_len max_context_length max_length max_len",
    ("prompt_length", _whole): "max_prompt_length",
    ("completion_length", _whole): "max_completion_length max_response_length",
    ("group_size", _whole): "num_generations rollout.n n_samples_per_prompt",
    ("lora_rank", _whole): "lora_r lora_rank loraconfig.r get_peft_model.r",
    ("lora_dropout", float): "lora_dropout",
    ("lora_targets", _targets): "lora_target_modules target_modules lora_target",
    ("lora_targets", _where_on("all_linear")): "lora_target_linear",
    ("optimizer", _optimizer): "optim optimizer",
    ("optimizer_implementation", _implementation): "optim",
    ("zero_stage", _whole): "zero_optimization.stage zero_stage",
    ("zero_stage", _stage): "deepspeed deepspeed_config deepspeed_config_file",
    ("framework", _where_on("deepspeed")):
        "deepspeed deepspeed_config deepspeed_config_file use_deepspeed zero_optimization.stage",
    ("framework", _where_on("fsdp")): "fsdp use_fsdp fsdp_version",
    ("framework", _one_of(fsdp="fsdp", deepspeed="deepspeed")): "distributed_type",
    ("fsdp_version", _whole): "fsdp_version",
    ("offload", _one_of(cpu="cpu", nvme="nvme")): "offload_param.device offload_param_device",
    ("offload", _one_of(cpu="optimizer", nvme="nvme")):
        "offload_optimizer.device offload_optimizer_device",
    ("offload", _where_on("cpu")): "fsdp_offload_params",
    ("offload", _where_on("optimizer")): "adam_offload",
    ("activation_checkpointing", _where_on("full")): _CHECKPOINTING,
    ("activation_checkpointing", _where_off("full")): "disable_gradient_checkpointing",
    ("activation_checkpointing", _one_of(full="full", selective="selective")):
        "recompute_granularity",
    ("activation_checkpointing", _where_on("selective")): "recompute_activations",
    ("activation_checkpointing", _where_off("none")): _CHECKPOINTING,
    ("activation_checkpointing", _where_on("none")): "disable_gradient_checkpointing",
    ("attention", _ATTENTION): "attn_implementation attn_impl flash_attn",
    ("attention", _where_on("flash")): "flash_attention",
    ("precision", _where_on("mixed_fp16")): "fp16 fp16.enabled",
    ("precision", _where_on("bf16")): "pure_bf16",
    ("kernels", _where_on("liger")): "use_liger_kernel enable_liger_kernel use_liger",
    ("loss", _where_on("fused")): "use_liger_kernel enable_liger_kernel use_liger",
    ("loss", _one_of(chunked_nll="recomputed", nll="full")): "loss_type",
    ("compile", _where_on(True)): "torch_compile",
    ("packed", _where_on(True)): "packing sample_packing",
    ("method", _where_on("dora")): "use_dora peft_use_dora",
    ("method", _where_on("qlora")): "load_in_4bit",
    ("method", lambda text: "qlora" if text == "4" else None): "quantization_bit quant_bits",
    ("method", _one_of(full="full", lora="lora", qlora="qlora", freeze=None)):
        "finetuning_type tuner_type train_type adapter",
    ("method", _where_on("full")): "full_finetuning",
    ("method", _where_on("lora")): "use_peft",
    ("tensor_parallel", _whole):
        "tensor_model_parallel_size tensor_parallel_degree tp_size",
    ("pipeline_parallel", _whole):
        "pipeline_model_parallel_size pipeline_parallel_degree pp_size",
    ("context_parallel", _whole): "context_parallel_size context_parallel_degree cp_size",
    ("expert_parallel", _whole): "expert_model_parallel_size expert_parallel_degree ep_size",
    ("sequence_parallel", _where_on(True)): "sequence_parallel",
    ("rollout_memory_utilization", float):
        "vllm_gpu_memory_utilization rollout.gpu_memory_utilization",
    ("rollout_engine", _one_of(colocate="vllm", server="none")): "vllm_mode",
    ("algorithm", _one_of(grpo="grpo", rloo="rloo")): "adv_estimator",
    ("algorithm", _one_of(dpo="dpo", kto="kto", orpo="orpo", simpo="simpo", grpo="grpo")):
        "rl rlhf_type rlhf",
    ("algorithm", _one_of(dpo="dpo", kto="kto", rm="reward", ppo="ppo")): "stage",
}  # fmt: skip
"""A field with how its value is read: the names that tools have for it. Of several that say
something the first row counts."""
_BY_NAME: Mapping[str, tuple[tuple[str, Read], ...]] = {
    name: tuple(key for key, names in _NAMES.items() if name in names.split())
    for names in _NAMES.values()
    for name in names.split()
}
_CALLED = re.compile(r"\b(LoraConfig|get_peft_model)\s*\(")
_TRAINERS = re.compile(
    r"\btrl(?:\.scripts\.| )(?P<script>dpo|kto|grpo|rloo|reward)\b"
    r"|\b(?P<class>DPO|KTO|GRPO|RLOO|ORPO|Reward)(?:Config|Trainer)\b"
)
"""What trains by another algorithm than sft: TRL's scripts and classes."""
_SIGNS: Mapping[tuple[str, str], re.Pattern[str]] = {
    ("trainer", "unsloth"): re.compile(r"\bFastLanguageModel\b|\bunsloth\b", re.IGNORECASE),
    ("trainer", "axolotl"): re.compile(r"\baxolotl\b|^sequence_len:|^base_model:", re.M | re.I),
    ("trainer", "llama-factory"): re.compile(r"\bllama-?_?factory|\bfinetuning_type\b", re.I),
    ("trainer", "ms-swift"): re.compile(r"\bswift (?:sft|rlhf|pt)\b"),
    ("trainer", "torchtune"): re.compile(r"\btune run\b|\btorchtune\b", re.IGNORECASE),
    ("trainer", "torchtitan"): re.compile(r"\btorchtitan\b|\brun_train\.sh\b", re.IGNORECASE),
    ("trainer", "litgpt"): re.compile(r"\blitgpt\b", re.IGNORECASE),
    ("trainer", "nemo-automodel"): re.compile(r"\bnemo_automodel\b|\bautomodel \S+\.ya?ml\b"),
    ("trainer", "verl"): re.compile(r"\bactor_rollout_ref\.|\bverl\.trainer\b"),
    ("trainer", "openrlhf"): re.compile(r"\bopenrlhf\.cli\b"),
    ("framework", "megatron"): re.compile(r"\bpretrain_gpt\.py\b|\bmegatron (?:sft|rlhf|pt)\b"),
    ("trainer", "trl"): re.compile(r"\btrl\.scripts\.|\btrl (?:sft|dpo|kto|grpo|reward)\b"),
    ("method", "lora"): re.compile(r"\btune run\b[^\n]*?\blora_|\bLoraConfig\(|\bget_peft_model\("),
    ("method", "full"): re.compile(r"\btune run\b[^\n]*?\bfull_finetune"),
}
"""What only a tool's own text has, the most telling first."""


def tool_settings(text: str) -> dict[str, object]:
    """Return the fields of check_training_fit that the settings in a text set, whatever else it
    says; what is out of bounds is left to the request's own check."""
    fields: dict[str, object] = {}
    rank: dict[str, int] = {}
    order = list(_NAMES)
    for setting in _settings(text):
        for key in _meant(setting.name):
            field, read = key
            if field in fields and rank[field] <= order.index(key):
                continue
            try:
                value = read(setting.value)
            except (ValueError, InvalidRequestError):
                continue
            if value is not None:
                fields[field], rank[field] = value, order.index(key)
    if (trainer := _TRAINERS.search(text)) is not None:
        fields.setdefault("algorithm", (trainer["script"] or trainer["class"]).lower())
    if fields.get("algorithm", "sft") != "sft":
        fields.pop("packed", None)  # of supervised training alone
    if fields or _TRAINERS.search(text):
        for (field, value), sign in _SIGNS.items():
            if field not in fields and sign.search(text):
                fields[field] = value
    return fields


def _meant(name: str) -> tuple[tuple[str, Read], ...]:
    """Return what a name means: with as many of the names around it as a row has."""
    while name not in _BY_NAME and "." in name:
        name = name.partition(".")[2]
    return _BY_NAME.get(name, ())


def _settings(text: str) -> Iterator[_Setting]:
    """Yield the settings of a text, those of an object or a call under its name."""
    around: list[str] = []
    place = 0
    calls = [(match.end(), match[1].lower()) for match in _CALLED.finditer(text)][::-1]
    call = ""
    for match in _PAIR.finditer(text):
        for brace in _OPENED.finditer(text, place, match.start()):
            if brace[0] == "}" and around:
                around.pop()
            elif brace[0] == "{":
                around.append("")
        place = match.end()
        written = match["flag"] or match["name"] or match["spoken"]
        name = written.lstrip("-").lower().replace("-", "_")
        value = match["given"] or match["value"] or match["number"]
        if value == "{":
            around.append(name)
            continue
        if value is None and not match["flag"]:
            continue
        while calls and calls[-1][0] <= match.start():
            call = calls.pop()[1]
        within = around[-1] if around else call if name == "r" else ""
        yield _Setting(f"{within}.{name}" if within else name, _word(value or ""))
