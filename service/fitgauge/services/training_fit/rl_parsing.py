"""What people write for an algorithm, a trainer, a reference or a rollout engine, and what is
meant."""

from collections.abc import Mapping

from fitgauge.engine.training.algorithms.setup import (
    Algorithm,
    Reference,
    RolloutEngine,
    Sleep,
    Trainer,
)
from fitgauge.services.training_fit.launchers.registry import BY_WORD, tool_named, word_of
from fitgauge.services.training_fit.parsing import parse_choice

_ALGORITHMS: Mapping[str, Algorithm] = {
    "sft": "sft", "supervised": "sft", "finetuning": "sft", "pretraining": "sft",
    "reward": "reward", "rewardmodel": "reward",
    "rm": "reward", "rewardmodeling": "reward", "dpo": "dpo", "ipo": "dpo", "kto": "kto",
    "orpo": "orpo", "simpo": "simpo",
    "cpo": "simpo", "ppo": "ppo", "rlhf": "ppo", "grpo": "grpo", "drgrpo": "grpo", "dapo": "grpo",
    "gspo": "grpo", "rloo": "rloo",
    "reinforce": "rloo",
}  # fmt: skip
_REFERENCES: Mapping[str, Reference] = {
    "resident": "resident", "gpu": "resident", "offloaded": "offloaded", "offload": "offloaded",
    "cpu": "offloaded", "adapter": "adapter",
    "shared": "adapter", "peft": "adapter", "none": "none", "precomputed": "none",
}  # fmt: skip
_ROLLOUTS: Mapping[str, RolloutEngine] = {
    "none": "none", "server": "none", "transformers": "transformers", "hf": "transformers",
    "generate": "transformers", "vllm": "vllm",
    "sglang": "sglang", "colocate": "vllm",
}  # fmt: skip
_SLEEPS: Mapping[str, Sleep] = {
    "off": "off", "false": "off", "0": "off", "level1": "level_1", "1": "level_1", "on": "level_1",
    "true": "level_1", "level2": "level_2",
    "2": "level_2",
}  # fmt: skip


def algorithm(text: str | None) -> Algorithm:
    """Return the algorithm that is meant, sft where nothing is said. Raises InvalidRequestError
    for an unknown one."""
    return parse_choice(text, _ALGORITHMS, "algorithm") or "sft"


def trainer(text: str | None, framework: str | None) -> Trainer:
    """Return whose preference and RL training is meant: that of the tool that is asked for, else of
    the one named as the framework, else trl's.

    Raises InvalidRequestError for an unknown one.
    """
    tool = BY_WORD.get(word_of(framework or "")) if text is None else tool_named(text)
    return "trl" if tool is None else tool.trainer


def reference(text: str | None) -> Reference | None:
    """Return where the reference is to be; None where nothing is said. Raises
    InvalidRequestError for an unknown place."""
    return parse_choice(text, _REFERENCES, "reference")


def rollout_engine(text: str | None) -> RolloutEngine | None:
    """Return the engine that samples; None where nothing is said. Raises InvalidRequestError for
    an unknown one."""
    return parse_choice(text, _ROLLOUTS, "rollout_engine")


def sleep(text: str | None) -> Sleep | None:
    """Return how deep it sleeps; None where nothing is said. Raises InvalidRequestError for an
    unknown level."""
    return parse_choice(text, _SLEEPS, "rollout_sleep")
