"""Names of the modules with adapters, for commands."""

import re

from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.quantization.scheme import is_nominal
from fitgauge.engine.training.states.parameters import linears, merged, targeted
from fitgauge.engine.training.workload import TrainingWorkload

USUAL_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
"""Linears of attention as most models name them."""
EXPERT_PARAMETERS = ("experts.gate_up_proj", "experts.down_proj")
"""Routed experts as transformers 5 stores them: one parameter of all (integrations/moe.py)."""
_TOWERS = "visual|vision|audio|image"
"""Parts of the names transformers gives to towers."""


def target_modules(spec: ModelSpec, workload: TrainingWorkload) -> list[str]:
    """Return PEFT's target_modules: one regular expression for a model whose tower gets no
    adapters, since PEFT would match linears of these names, and with all-linear every one, in the
    tower too (peft/tuners/tuners_utils.py, check_target_module_exists)."""
    has_tower = not spec.reads_text_alone and spec.task == "generate"
    if has_tower and not (workload.images and workload.train_vision_tower):
        return [f"(?!.*({_TOWERS})).*\\.({'|'.join(map(re.escape, linear_names(spec, workload)))})"]
    if workload.lora_targets == "all_linear":
        return ["all-linear"]
    if isinstance(workload.lora_targets, tuple):
        return list(workload.lora_targets)
    return list(USUAL_ATTENTION) if is_nominal(spec) else linear_names(spec, workload)


def whole_names(spec: ModelSpec, workload: TrainingWorkload) -> list[str]:
    """Return the linears with adapters by the whole name within their layer where that has
    several parts, but those of attention."""
    return sorted(
        {
            _last(name) if "att" in name.lower() else name
            for name in _linears(spec)
            if targeted(name, workload.lora_targets)
        }
    )


def linear_names(spec: ModelSpec, workload: TrainingWorkload) -> list[str]:
    """Return the linears with adapters by the last part of their name, or by the whole name where
    others share that part."""
    every = _linears(spec)
    others = {_last(name) for name in every if not targeted(name, workload.lora_targets)}
    return sorted(
        {
            name if _last(name) in others else _last(name)
            for name in every
            if targeted(name, workload.lora_targets)
        }
    )


def _linears(spec: ModelSpec) -> set[str]:
    """Return the names of the language model's linears within their layer."""
    return {
        tensor.name.removesuffix(".weight")
        for block in spec.blocks
        if block.part in (Part.LANGUAGE, Part.ENCODER)
        for tensor in linears(block, merged(block))
    }


def _last(name: str) -> str:
    return name.rpartition(".")[2]
