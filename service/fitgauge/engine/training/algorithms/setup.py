"""What preference and RL training add to a training question, with every default filled in."""

from typing import Literal

import msgspec

Algorithm = Literal["sft", "reward", "dpo", "kto", "orpo", "simpo", "ppo", "grpo", "rloo"]
Trainer = Literal["trl", "verl", "openrlhf"]
Reference = Literal["resident", "offloaded", "adapter", "none"]
RolloutEngine = str
"""The name of a serving engine, OWN_ROLLOUT, or NO_ROLLOUT."""
OWN_ROLLOUT: RolloutEngine = "transformers"
"""The training library samples itself, by transformers' generate."""
NO_ROLLOUT: RolloutEngine = "none"
"""Completions are sampled elsewhere."""
Sleep = Literal["off", "level_1", "level_2"]

PAIRS: frozenset[Algorithm] = frozenset({"reward", "dpo", "orpo", "simpo"})
"""Chosen and rejected go through the model in one batch of twice the size. Source:
trl/trainer/dpo_trainer.py (`input_ids` of 2B rows), reward_trainer.py, experimental/orpo and cpo
(concatenated_forward)."""
REFERRING: frozenset[Algorithm] = frozenset({"dpo", "kto", "ppo"})
"""Algorithms with a reference by default. GRPO and RLOO have one where beta is above 0
(trl/trainer/grpo_config.py: 0.0 by default; rloo_config.py: 0.05); ORPO and SimPO have none
(trl/experimental/orpo, cpo)."""
SAMPLED: frozenset[Algorithm] = frozenset({"ppo", "grpo", "rloo"})
"""Algorithms that train on completions they sample themselves."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that samples on the same cards. `memory_utilization`: the share of a card it
    may take; `tensor_parallel`: ranks that share one copy of it; `sleep`: what it lets go of
    while the policy is trained (level_1: weights to host memory, cache dropped; level_2: both
    dropped; source: vllm/device_allocator/cumem.py)."""

    engine: RolloutEngine
    memory_utilization: float
    tensor_parallel: int = 1
    sleep: Sleep = "off"

    @property
    def serves(self) -> bool:
        """Whether a serving engine samples, not the training library itself."""
        return self.engine != OWN_ROLLOUT


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """An algorithm with its models. `reference`: where its weights are (`adapter`: the policy's
    frozen base, with the adapter off; `none`: no reference, or log-probabilities computed
    beforehand). `rewarded`, `criticized`: whether a reward model and a critic are on the cards.
    `group_size`: completions of one prompt; lengths in tokens. `rests`: training states leave
    the card while nothing is trained (verl: param_offload and optimizer_offload; OpenRLHF:
    --ds.enable_sleep)."""

    algorithm: Algorithm
    trainer: Trainer
    reference: Reference
    rewarded: bool = False
    criticized: bool = False
    group_size: int = 1
    prompt_length: int = 0
    completion_length: int = 0
    rollout: Rollout | None = None
    rests: Literal["nothing", "optimizer", "all"] = "nothing"

    @property
    def paired(self) -> bool:
        """Whether a micro-batch of n samples is one of 2n sequences."""
        return self.algorithm in PAIRS

    @property
    def sampled(self) -> bool:
        """Whether completions are sampled in training."""
        return self.algorithm in SAMPLED

    @property
    def own_process(self) -> bool:
        """Whether the rollout engine has a CUDA context of its own.

        TRL builds vLLM inside the training process (trl/generation/vllm_generation.py,
        external_launcher), and so does verl (verl/workers/rollout/vllm_rollout); OpenRLHF's is a
        Ray actor (openrlhf/trainer/ray/vllm_engine.py), and verl's SGLang a server."""
        return self.trainer == "openrlhf" or (
            self.rollout is not None and self.rollout.engine == "sglang"
        )
