"""How commands name the modules beside which adapters sit."""

import re

from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.quantization.scheme import is_nominal
from fitgauge.engine.training.states.parameters import linears, merged, targeted
from fitgauge.engine.training.workload import TrainingWorkload

USUAL_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
"""Linears of attention as most models name them."""
_TOWERS = "visual|vision|audio|image"
"""Parts of the names transformers gives to towers."""


def target_modules(spec: ModelSpec, workload: TrainingWorkload) -> list[str]:
    """PEFT's target_modules. Of a model with a tower that has no adapters one regular
    expression, since PEFT would find linears of these names, and with all-linear every one, in
    the tower too (peft/tuners/tuners_utils.py, check_target_module_exists)."""
    seeing = (
        any(block.part in (Part.VISION, Part.AUDIO) for block in spec.blocks)
        and spec.task == "generate"
    )
    if seeing and not (workload.images and workload.train_vision_tower):
        return [f"(?!.*({_TOWERS})).*\\.({'|'.join(map(re.escape, _names(spec, workload)))})"]
    if workload.lora_targets == "all_linear":
        return ["all-linear"]
    if isinstance(workload.lora_targets, tuple):
        return list(workload.lora_targets)
    return list(USUAL_ATTENTION) if is_nominal(spec) else _names(spec, workload)


def _names(spec: ModelSpec, workload: TrainingWorkload) -> list[str]:
    """Return the linears that get an adapter, each by the last part of its name, or by all of it
    where another one ends alike."""
    parts = (Part.LANGUAGE, Part.ENCODER)
    every = {
        tensor.name.removesuffix(".weight")
        for block in spec.blocks
        if block.part in parts
        for tensor in linears(block, merged(block))
    }
    others = {_last(name) for name in every if not targeted(name, workload.lora_targets)}
    return sorted(
        {
            name if _last(name) in others else _last(name)
            for name in every
            if targeted(name, workload.lora_targets)
        }
    )


def _last(name: str) -> str:
    return name.rpartition(".")[2]
