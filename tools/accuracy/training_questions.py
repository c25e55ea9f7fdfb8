"""Published training runs as questions of the API: `question` of a row of training_gpu.jsonl, in
the words of POST /v1/training-fit.

`training_gpu_questions.jsonl` asks a run with the settings that its source states; of the others,
what a row leaves open and its project decides stands in `PROJECTS`, with where the project says so.
Releases come from the row in either case.
"""

import json
import re
from pathlib import Path
from typing import Any

Row = dict[str, Any]

MODELS = {
    "llama 3 8b": "meta-llama/Meta-Llama-3-8B", "llama3-8b": "meta-llama/Meta-Llama-3-8B",
    "llama 3.1 8b": "meta-llama/Llama-3.1-8B",
    "llama 3 70b": "meta-llama/Meta-Llama-3-70B", "llama 3.1 70b": "meta-llama/Llama-3.1-70B",
    "llama3-70b": "meta-llama/Meta-Llama-3-70B",
    "llama 3.1 405b": "meta-llama/Llama-3.1-405B", "llama-7b": "meta-llama/Llama-2-7b-hf",
    "llama2 7b": "meta-llama/Llama-2-7b-hf",
    "llama-2 70b": "meta-llama/Llama-2-70b-hf",
    "nousresearch/llama-2-70b-hf": "meta-llama/Llama-2-70b-hf",
    "thebloke/mistral-7b-v0.1-gptq": "mistralai/Mistral-7B-v0.1",
    "thebloke/llama-2-70b-gptq": "meta-llama/Llama-2-70b-hf",
}  # fmt: skip
"""Loose names, and quantized repositories by their base: the number format is asked for beside."""
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
FRAMEWORKS = {
    **dict.fromkeys(("transformers", "trl", "axolotl", "unsloth", "torchtune"), "transformers"),
    **dict.fromkeys(("fsdp", "fsdp2", "torchtitan"), "fsdp"),
    "deepspeed": "deepspeed",
    "megatron": "megatron",
}
PROJECTS: dict[str, Row] = {
    # recipes/configs/llama3*/*.yaml: fused AdamW, chunked loss, activation checkpointing
    "pytorch/torchtune": {
        "optimizer_implementation": "fused",
        "loss": "chunked",
        "activation_checkpointing": "full",
        "fsdp_version": 2,
    },
    # torchtitan/config: AdamW fused; embedding and head are units of their own now and the
    # allocator's segments grow (run_train.sh, since PR 643 of October 2024), neither yet in PR 165
    # (March 2024)
    "pytorch/torchtitan#": {
        "optimizer_implementation": "fused",
        "activation_checkpointing": "selective",
    },
    "pytorch/torchtitan ": {
        "optimizer_implementation": "fused",
        "activation_checkpointing": "selective",
        "shard_embeddings": True,
        "expandable_segments": True,
    },
    # axolotl/utils/config: bf16 weights with `bf16: true`; utils/__init__.py,
    # set_pytorch_cuda_alloc_conf
    "axolotl-ai-cloud/axolotl": {"precision": "bf16", "expandable_segments": True},
    # recipes of Automodel: torch_dtype bf16, torch.optim.AdamW
    "NVIDIA-NeMo/Automodel": {"precision": "bf16"},
}
_CONTEXT = re.compile(r"(\d+) MB of it is CUDA context")
"""MiB that a process held before its first tensor, printed beside the run."""
_TRANSFORMERS = re.compile(r"transformers (\d[\d.]*\d)")
_LAYERS_ALONE = "pytorch/torchtitan#"
"""Runs of threads of 2024 and March 2025, before torchtitan compiled the loss with the layers."""
_WHOLE_LOSS = "meta-pytorch/torchtune#"
"""A run of May 2024: torchtune's recipes took the loss of whole logits until its release 0.3 of
September 2024."""
_FMS = "foundation-model-stack/fms-acceleration"
"""A benchmark whose plugins decide what its rows do not print: its bitsandbytes plugin quantizes
scales too (framework_plugin_bnb.py, bnb_4bit_use_double_quant), and of Liger it takes the loss
alone (fast_kernels_liger.yaml, fast_loss: fused_ce_liger), beside Unsloth's norm and rotation."""
_GPU = re.compile(
    r"^(A100|A800|H100|H20|H200|B200|A6000|RTX A6000|L40S?|V100|T4|RTX"
    r" \d{4}|GB200|A10G?)\b[^(,]*|^\d+ ?GB"
)


def question(row: Row) -> Row | None:
    """Return the question a run answers; None where it cannot be asked: no exact length, an
    unknown model, number format or method."""
    model, framework = _model(row), _framework(row)
    precision = _precision(row) or _project(row).get("precision")
    how = row["method"].split(" ")[0]
    settings = str(
        row.get("activation_checkpointing") or _project(row).get("activation_checkpointing")
    )
    if row.get("length_kind") != "exact" or model is None or framework is None or precision is None:
        return None
    if (
        how not in ("full", "lora", "qlora")
        or "embedding" in row["method"]
        or not settings.startswith(("none", "full", "selective"))
    ):
        return None
    fields: Row = {
        "model": model,
        "gpu": _gpu(row),
        "gpu_count": row.get("gpu_count") or 1,
        "method": how,
        "framework": framework,
        "precision": precision,
        "sequence_length": row["sequence_length"],
        "micro_batch_size": row["micro_batch_size"],
        "micro_batches": row.get("gradient_accumulation") or 1,
        "activation_checkpointing": settings.split(" ")[0],
        "activation_offload": bool(row.get("activation_offloading")) or "offloading" in settings,
        "attention": "eager" if row.get("attention") in ("eager", "unfused") else "flash",
        "optimizer": _optimizer(str(row.get("optimizer") or "adamw").lower()),
        "loss": _loss(str(row.get("fused_loss"))),
        "compile": (
            bool(row.get("compile")) or "cross_entropy_loss_fusion" in str(row.get("fused_loss"))
        ),
        "optimizer_in_backward": bool(row.get("optimizer_in_backward")),
        **_sharding(row, framework),
    }
    for field in (
        "lora_rank",
        "tensor_parallel",
        "pipeline_parallel",
        "context_parallel",
        "expert_parallel",
    ):
        if row.get(field):
            fields[field] = row[field]
    if str(row.get("offload")).startswith(("cpu", "optimizer")):
        fields["offload"] = str(row["offload"]).split(" ")[0]
    if how != "full" and row.get("lora_targets"):
        fields["lora_targets"] = _targets(row["lora_targets"])
        fields["lora_experts"] = "expert" in row["lora_targets"]
    if "gptq" in str(row.get("quantization")):
        fields["quantization"] = "gptq"
    if "incl. MoE experts" in str(row.get("quantization")):
        fields["quantize_experts"] = True
    if row.get("sequence_parallel_megatron"):
        fields["sequence_parallel"] = True
    if row.get("allocator") == "expandable_segments":
        fields["expandable_segments"] = True
    if context := _CONTEXT.search(
        str(row.get("unit_note")) + str(row["measured"].get("as_printed"))
    ):
        fields["runtime_gib"] = round(int(context.group(1)) / 1024, 3)
    return fields | _project(row)


def _project(row: Row) -> Row:
    known_settings = next(
        (settings for name, settings in PROJECTS.items() if row["source"].startswith(name)), {}
    )
    own_name = {"loss": "fused_loss", "activation_checkpointing": "activation_checkpointing"}
    return {
        field: value
        for field, value in known_settings.items()
        if row.get(own_name.get(field, "")) is None
    }


def _model(row: Row) -> str | None:
    name = re.sub(r" \(.*", "", row["model"]).strip()
    model_id = MODELS.get(name.lower())
    request = HUB_ID.search(row["model"])
    return model_id or (request.group() if request and "custom" not in row["model"] else None)


def _gpu(row: Row) -> str:
    """Return the GPU that the source names; where it names none, the usual 80 GB, or 141 GB where
    more was read than those hold."""
    match = _GPU.search(str(row.get("gpu") or ""))
    if "H100 (95.04 GiB)" in str(row.get("gpu")):
        return "H100 96GB"
    if match:
        return match.group().replace("GB card", "GB").strip()
    if "184 GiB" in str(row.get("gpu")):
        return "GB200"
    read = max(
        (size for size in row["measured"].values() if isinstance(size, (int, float))), default=0
    )
    return "141GB" if read > 80 else "80GB"


def _framework(row: Row) -> str | None:
    sharding = str(row.get("sharding") or "")
    if "no shard" in sharding:
        return "transformers"
    if sharding.startswith("fsdp"):
        return "fsdp"
    automodel = row["framework"] == "nemo" and (row.get("gpu_count") or 1) == 1
    return "transformers" if automodel else FRAMEWORKS.get(row["framework"])


def _precision(row: Row) -> str | None:
    """Trainer's bf16 over bf16 weights keeps them so; Accelerate makes fp32 of all that is
    trained when it shards (accelerate/accelerator.py, prepare_model, FSDP: "upcasting"); PEFT's
    prepare_model_for_kbit_training makes fp32 of all that is not quantized, which nothing that
    shards runs."""
    text = str(row.get("precision"))
    if text.startswith("autocast"):
        sharded = _framework(row) == "fsdp" and row["method"].startswith("full")
        prepared = _framework(row) != "fsdp" and "fp32 upcast" in str(row.get("note"))
        return "mixed_bf16" if sharded or prepared else "bf16"
    if re.match(r"mixed_(bf16|fp16)", text):
        return text[:10]
    return text.split(" ")[0] if re.match(r"(bf16|fp32)\b", text) else None


def _optimizer(text: str) -> str:
    for word, name in (
        ("paged", "paged_adamw"),
        ("8bit", "adamw_8bit"),
        ("adafactor", "adafactor"),
    ):
        if word in text.replace("_", "").replace("-", ""):
            return name
    return "adamw"


def _loss(text: str) -> str:
    if re.search(r"liger|cut.cross", text):
        return "fused"
    if text.startswith("foak"):
        return "in_place"
    if text.startswith("chunked"):
        return "chunked"
    return "full"


def _targets(text: str) -> str | list[str]:
    if re.match(r"q(,k)?,v", text) and len(text) < 12:
        return [f"{name}_proj" for name in text.split(",")]
    return "all_linear"


def _sharding(row: Row, framework: str) -> Row:
    sharding = str(row.get("sharding") or "")
    if framework == "fsdp":
        # torchtune's 70B and 405B configs: custom_sharded_layers
        apart = row["framework"] == "torchtune" and bool(re.search(r"70B|405B", row["model"]))
        return {"fsdp_version": 1 if sharding.startswith("fsdp1") else 2, "shard_embeddings": apart}
    if framework == "deepspeed" and row.get("zero_stage") is not None:
        return {"zero_stage": row["zero_stage"]}
    if framework == "megatron":
        return {"zero_stage": int(bool(row.get("distributed_optimizer")))}
    return {}


def request_of(row: Row, stated: Row | None) -> Row | None:
    """Return the question as the file holds it: as `stated` for the run, on the GPU that its size
    tells where none is printed; else without what is switched off."""
    if stated is not None:
        unprinted = any("card not printed" in text for text in stated["assumed"])
        request = stated["request"] | ({"gpu": _gpu(row)} if unprinted else {})
        return _of_plugins(row, request) | _dated(row)
    request = question(row)
    if request is None:
        return None
    return {field: value for field, value in request.items() if value is not False} | _dated(row)


def _of_plugins(row: Row, request: Row) -> Row:
    """Return the question with what the benchmark's plugins do."""
    if not row["source"].startswith(_FMS):
        return request
    fields = {name: value for name, value in request.items() if name != "kernels"}
    doubled = {"quantization": "nf4_double"} if request.get("quantization") == "nf4" else {}
    return fields | doubled


def _dated(row: Row) -> Row:
    """Return what the release tells: of transformers, torchtitan's compiler, torchtune's loss."""
    version = _TRANSFORMERS.search(str(row.get("framework_version")))
    fields: Row = {"transformers_version": version.group(1)} if version else {}
    if row["source"].startswith("pytorch/torchtitan"):
        fields["compile_loss"] = not row["source"].startswith(_LAYERS_ALONE)
    return fields | ({"loss": "full"} if row["source"].startswith(_WHOLE_LOSS) else {})


def stated_questions() -> dict[str, Row]:
    """Return the questions that sources state, by the run."""
    lines = Path(__file__).with_name("training_gpu_questions.jsonl").read_text().splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def main() -> None:
    """Write every row's question into training_gpu.jsonl; rows that cannot be asked have none."""
    path = Path(__file__).with_name("training_gpu.jsonl")
    stated = stated_questions()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row.pop("question", None)
        request = request_of(row, stated.get(row["id"]))
        if request is not None:
            row["question"] = request
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
