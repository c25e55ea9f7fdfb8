"""Draw cases from a seed: architecture, number format, degrees and context."""

import copy
import hashlib
import json
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from fitgauge.engine.serving.vllm.architectures import LATER, SETTLED

MODELS = Path(__file__).parents[2] / "service/fitgauge/catalog/data/models.jsonl"
CASES = 125
"""Cases of a seed. Some are left out: those that no vLLM answers, because a config of today lacks a
field that its class reads."""
TIMES = 3
"""The most that an architecture is drawn."""
LAYERS = (4, 6, 8)
"""Layers of a drawn config: as few as hold every kind of layer."""

_GROUP = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group"}
_DYNAMIC = {"symmetric": True, "strategy": "token", "dynamic": True}


def _packed(group: int) -> dict[str, Any]:
    return _compressed("pack-quantized", {**_GROUP, "group_size": group}, None)


def _compressed(
    form: str, weights: dict[str, Any], inputs: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
        },
    }


_CHANNEL = {"num_bits": 8, "symmetric": True, "strategy": "channel", "dynamic": False}
FORMATS: dict[str, dict[str, Any]] = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True,
        "version": "gemm"},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    "gptq 8 bit": {"quant_method": "gptq", "bits": 8, "group_size": 128, "desc_act": False,
        "sym": True},
    "gptq, activation order": {"quant_method": "gptq", "bits": 4, "group_size": 128,
        "desc_act": True, "sym": True},
    "fp8": {"quant_method": "fp8", "activation_scheme": "dynamic"},
    "fp8 blocks": {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
        "weight_block_size": [128, 128]},
    "w4a16 of 128": _packed(128),
    "w4a16 of 32": _packed(32),
    "fp8 channels": _compressed("float-quantized", {**_CHANNEL, "type": "float"},
        {"num_bits": 8, "type": "float", **_DYNAMIC}),
    "int8 channels": _compressed("int-quantized", {**_CHANNEL, "type": "int"},
        {"num_bits": 8, "type": "int", **_DYNAMIC}),
}  # fmt: skip
"""Quantization as publishers of checkpoints write it."""

_KEPT_IN_16_BIT = (
    "lm_head",
    "re:.*(visual|vision|audio|tower|projector|merger|connector|mm_).*",
    "re:.*(mlp|block_sparse_moe|feed_forward).(gate|router)$",
)
"""What publishers leave out, in compressed-tensors' way of writing: the head, towers, routers."""
_MODULES_IN_16_BIT = (
    "lm_head", "visual", "vision_tower", "vision_model", "audio_tower", "multi_modal_projector",
    "mm_projector", "embed_vision", "embed_audio",
)  # fmt: skip
"""The same in the way of AWQ and FP8. GPTQ lists nothing: vLLM reads from the weights' names which
are 16 bit, so that it is not drawn for models with a tower."""


class Model(NamedTuple):
    """A bundled model."""

    name: str
    config: dict[str, Any]
    quantization: dict[str, Any] | None
    """Its hf_quant_config.json."""


def cases(seed: int) -> list[dict[str, Any]]:
    """Return the cases of a seed for vLLM."""
    return draw_cases(seed, SETTLED | LATER, _case)


def draw_cases(
    seed: int,
    architectures: Collection[str],
    case: Callable[[random.Random, str, Model], dict[str, Any]],
    count: int = CASES,
) -> list[dict[str, Any]]:
    """Return `count` cases of a seed over the bundled models of `architectures`.

    Each is drawn by itself, so that a model more in the catalog changes few of them."""
    published = _models(architectures)
    draws = {
        (architecture, time): random.Random(f"{seed} {architecture} {time}")
        for architecture in published
        for time in range(TIMES)
    }
    order = sorted(draws, key=lambda one: (draws[one].random(), one))[:count]
    drawn = []
    for architecture, time in order:
        draw = draws[architecture, time]
        salt = draw.random()
        of_class = published[architecture]
        model = min(of_class, key=lambda one: random.Random(f"{salt} {one.name}").random())
        drawn.append(_with_id(case(draw, architecture, model), seed))
    return drawn


def _with_id(case: dict[str, Any], seed: int) -> dict[str, Any]:
    """Name a case by what it holds, so that its answer can be cached."""
    digest = hashlib.sha256(json.dumps(case).encode()).hexdigest()
    return {"id": f"{seed}-{digest[:12]}", **case}


def _case(draw: random.Random, architecture: str, model: Model) -> dict[str, Any]:
    config = with_layers(model.config, draw.choice(LAYERS))
    form, _ = draw_format(draw, config, None)
    case: dict[str, Any] = {
        "architecture": architecture,
        "like": model.name,
        "format": form,
        "config": config,
        "tensor_parallel": draw.choice((1, 1, 2, 2, 4, 8, 16)),
        "context_length": draw.choice((2048, 8192)),
        "pool_gib": 40,
    }
    if draw.random() < 0.25:
        case["pipeline_parallel"] = draw.choice((2, 2, 4))
    if draw.random() < 0.2:
        case["kv_cache_dtype"] = "fp8"
    if draw.random() < 0.2 and case["tensor_parallel"] > 1:
        case["expert_parallel"] = True
    return case


def draw_format(
    draw: random.Random, config: dict[str, Any], published: dict[str, Any] | None
) -> tuple[str, dict[str, Any] | None]:
    """Return a format's name and hf_quant_config.json; a drawn one is written into `config`."""
    if published or "quantization_config" in config or draw.random() >= 0.5:
        return "as published", published
    sees = "vision_config" in config
    form = draw.choice([f for f in sorted(FORMATS) if not (sees and f.startswith("gptq"))])
    config["quantization_config"] = _quantization(form)
    return form, None


def _quantization(form: str) -> dict[str, Any]:
    settings = copy.deepcopy(FORMATS[form])
    match settings["quant_method"]:
        case "compressed-tensors":
            settings["ignore"] = list(_KEPT_IN_16_BIT)
        case "awq" | "fp8":
            settings["modules_to_not_convert"] = list(_MODULES_IN_16_BIT)
    return settings


def with_layers(config: dict[str, Any], layers: int | None) -> dict[str, Any]:
    """Return a config with fewer layers in its language model (None: with all); lists of one entry
    a layer are shortened with it."""
    config = copy.deepcopy(config)
    if layers is None:
        return config
    for part in (config, config.get("text_config"), config.get("llm_config")):
        if not isinstance(part, dict):
            continue
        before = part.get("num_hidden_layers")
        if not isinstance(before, int) or before <= layers:
            continue
        part["num_hidden_layers"] = layers
        if part.get("num_kv_shared_layers"):
            part["num_kv_shared_layers"] = _sharing(part["layer_types"], layers)
        for key, value in part.items():
            if isinstance(value, list | str) and len(value) == before:
                part[key] = value[:layers]
        if part.get("num_nextn_predict_layers"):
            part["num_nextn_predict_layers"] = 0
    return config


def _sharing(kinds: list[str], layers: int) -> int:
    """Return how many of the first layers may read another's cache: those after the first of every
    kind."""
    return max(0, layers - 1 - max(kinds.index(kind) for kind in set(kinds)))


def _models(architectures: Collection[str]) -> dict[str, list[Model]]:
    """Return the bundled models of these architectures by architecture."""
    models: dict[str, list[Model]] = {}
    for line in MODELS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "inner_hidden_size" in row["config"]:
            continue  # ChatGLM-6B: built as ChatGLM 2, whose weights are never loaded here
        model = Model(row["id"], row["config"], row.get("quantization"))
        for architecture in model.config.get("architectures") or ():
            if architecture in architectures:
                models.setdefault(architecture, []).append(model)
    return models
