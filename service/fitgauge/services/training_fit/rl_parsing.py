"""Spellings of algorithms, trainers, references and rollout engines."""

from collections.abc import Mapping

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.training.algorithms.setup import (
    NO_ROLLOUT,
    OWN_ROLLOUT,
    Algorithm,
    Reference,
    RolloutEngine,
    Sleep,
    Trainer,
)
from fitgauge.services.training_fit.launchers.registry import find_tool, tool_named
from fitgauge.services.training_fit.parsing import parse_choice

_ALGORITHMS: Mapping[str, Algorithm] = {
    "sft": "sft", "supervised": "sft", "finetuning": "sft", "pretraining": "sft",
    "reward": "reward", "rewardmodel": "reward",
    "rm": "reward", "rewardmodeling": "reward", "dpo": "dpo", "ipo": "dpo", "kto": "kto",
    "orpo": "orpo", "simpo": "simpo",
    "cpo": "simpo", "ppo": "ppo", "rlhf": "ppo", "grpo": "grpo", "drgrpo": "grpo", "dapo": "grpo",
    "gspo": "grpo", "rloo": "rloo",
    "reinforce": "rloo",
    **dict.fromkeys(("gkd", "distillation", "distill", "knowledgedistillation", "kd"), "gkd"),
}  # fmt: skip
_REFERENCES: Mapping[str, Reference] = {
    "resident": "resident", "gpu": "resident", "offloaded": "offloaded", "offload": "offloaded",
    "cpu": "offloaded", "adapter": "adapter",
    "shared": "adapter", "peft": "adapter", "none": "none", "precomputed": "none",
}  # fmt: skip
_ROLLOUTS: Mapping[str, RolloutEngine] = {
    NO_ROLLOUT: NO_ROLLOUT, "server": NO_ROLLOUT,
    OWN_ROLLOUT: OWN_ROLLOUT, "hf": OWN_ROLLOUT, "generate": OWN_ROLLOUT,
    **{
        word: row.name
        for row in ENGINES.values()
        if row.rollout_aliases is not None
        for word in (*row.words, *row.rollout_aliases)
    },
}  # fmt: skip
_SLEEPS: Mapping[str, Sleep] = {
    "off": "off", "false": "off", "0": "off", "level1": "level_1", "1": "level_1", "on": "level_1",
    "true": "level_1", "level2": "level_2",
    "2": "level_2",
}  # fmt: skip


def algorithm(text: str | None) -> Algorithm:
    """Return the algorithm of this name, sft by default. Raises InvalidRequestError for an
    unknown one."""
    return parse_choice(text, _ALGORITHMS, "algorithm") or "sft"


def trainer(text: str | None, framework: str | None) -> Trainer:
    """Return whose preference and RL training runs: the trainer's, else that of a tool named as
    the framework, else TRL's.

    Raises InvalidRequestError for an unknown one.
    """
    tool = find_tool(framework) if text is None else tool_named(text)
    return "trl" if tool is None else tool.trainer


def reference(text: str | None) -> Reference | None:
    """Return where the reference model is; None without a text. Raises InvalidRequestError for an
    unknown place."""
    return parse_choice(text, _REFERENCES, "reference")


def rollout_engine(text: str | None) -> RolloutEngine | None:
    """Return the engine that samples; None without a text. Raises InvalidRequestError for an
    unknown one."""
    return parse_choice(text, _ROLLOUTS, "rollout_engine")


def sleep(text: str | None) -> Sleep | None:
    """Return the sleep level; None without a text. Raises InvalidRequestError for an unknown
    one."""
    return parse_choice(text, _SLEEPS, "rollout_sleep")
