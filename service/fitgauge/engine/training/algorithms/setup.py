"""What preference and RL training add to a training question, with every default filled in."""

from typing import Literal

import msgspec

Algorithm = Literal[
    "sft", "reward", "dpo", "kto", "orpo", "simpo", "ppo", "grpo", "rloo", "gkd"
]  # fmt: skip
"""gkd: distillation from a teacher's whole distributions."""
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
    """The engine that samples on the same GPUs."""

    engine: RolloutEngine
    """Which engine samples."""
    memory_utilization: float
    """Share of a GPU that it may take."""
    tensor_parallel: int = 1
    """Ranks that share one copy of it."""
    shares_weights: bool = False
    """Whether it reads the frozen weights that are trained on, instead of a copy."""
    sleep: Sleep = "off"
    """What it frees while the policy is trained: level_1 moves weights to host memory and drops the
    cache, level_2 drops both (source: vllm/device_allocator/cumem.py)."""

    @property
    def serves(self) -> bool:
        """Whether a serving engine samples, not the training library itself."""
        return self.engine != OWN_ROLLOUT


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """An RL algorithm with its models."""

    algorithm: Algorithm
    """The algorithm."""
    trainer: Trainer
    """The tool that runs it."""
    reference: Reference
    """Where the reference's weights are: `adapter` is the policy's frozen base with the adapter
    off; `none`: no reference, or log-probabilities computed beforehand."""
    rewarded: bool = False
    """Whether a reward model is on the GPUs."""
    criticized: bool = False
    """Whether a critic is on the GPUs."""
    teacher: str = ""
    """The model that a student is distilled from, which takes the reference's place."""
    shards_teacher: bool = True
    """Whether FSDP divides it."""
    group_size: int = 1
    """Completions of one prompt."""
    prompt_length: int = 0
    """Tokens of a prompt."""
    completion_length: int = 0
    """Tokens of a completion."""
    rollout: Rollout | None = None
    """The engine that samples; None: none on these GPUs."""
    rests: Literal["nothing", "optimizer", "all"] = "nothing"
    """Training states that leave the GPU while nothing is trained (verl: param_offload and
    optimizer_offload; OpenRLHF: --ds.enable_sleep)."""

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
