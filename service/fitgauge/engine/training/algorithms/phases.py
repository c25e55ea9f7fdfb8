"""The phases of a step of preference or RL training: whose states, whose passes and how much of the
rollout engine share the GPU in each.

The models share a GPU one after another, so a GPU must hold the worst phase, not the sum of all.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.kv_cache import cache_bytes
from fitgauge.engine.training.algorithms import rollout as engine
from fitgauge.engine.training.algorithms.passes import gathered_bytes, inference_bytes, whole_bytes
from fitgauge.engine.training.algorithms.roles import (
    critic_workload,
    frozen_workload,
    policy_workload,
)
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.amounts import Amount, Phase, amount, in_words
from fitgauge.engine.training.autograd.operations import FLOAT
from fitgauge.engine.training.autograd.passes import activations
from fitgauge.engine.training.estimate import TrainingStage, training_stage
from fitgauge.engine.training.parallel.fsdp import computed
from fitgauge.engine.training.phases import Stage, headless, stages
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.workload import PhaseName, TrainingWorkload

_SHARED = ("weights", "gradients", "master_weights", "optimizer_states")
_UPDATED = ("master_weights", "optimizer_states")
_LEARNING: tuple[PhaseName, ...] = (
    "log_probs",
    "forward",
    "backward",
    "optimizer_step",
    "critic_update",
)


def algorithm_stages(
    spec: ModelSpec,
    workload: TrainingWorkload,
    setup: Setup,
    profile: TrainingProfile,
    usable_bytes: int | None = None,
    *,
    rollout: Estimate | None = None,
    reward: ModelSpec | None = None,
    critic: ModelSpec | None = None,
    teacher: ModelSpec | None = None,
) -> tuple[TrainingStage, ...]:
    """Return every pipeline stage of the algorithm. `rollout`: the serving estimate of the
    engine on these GPUs; `reward`, `critic`, `teacher`: models of their own, None for the policy's
    architecture. A model of its own needs a policy without pipeline parallelism."""
    policy = policy_workload(workload, setup)
    trained = headless(spec) if setup.algorithm == "reward" else spec
    others = (teacher or spec, headless(reward or spec), headless(critic or spec))
    cast = _Cast(spec, workload, setup, *others)
    other_models = _other_models(setup, rollout)
    result = []
    for stage in stages(trained, policy):
        whole = replace(
            stage, phases=tuple(cast.phases(stage)), host=stage.host + cast.host(stage, rollout)
        )
        result.append(
            training_stage(trained, policy, profile, whole, usable_bytes, outside=other_models)
        )
    return tuple(result)


def _other_models(setup: Setup, estimate: Estimate | None) -> dict[PhaseName, tuple[Term, ...]]:
    """Return what the rollout engine holds in each phase."""
    if estimate is None or setup.rollout is None:
        return {}
    resting = engine.asleep(estimate, setup, setup.rollout)
    held: dict[PhaseName, tuple[Term, ...]] = dict.fromkeys(_LEARNING, resting)
    held["rollout"] = engine.awake(estimate, setup)
    return held


class _Cast:
    """The models other than the policy, and the phases they take part in."""

    def __init__(
        self,
        spec: ModelSpec,
        workload: TrainingWorkload,
        setup: Setup,
        referred: ModelSpec,
        reward: ModelSpec,
        critic: ModelSpec,
    ) -> None:
        self.spec, self.setup, self.policy = spec, setup, policy_workload(workload, setup)
        self.reference = frozen_workload(workload, setup, reference=True)
        self.judge = frozen_workload(workload, setup, reference=False)
        self.referred, self.reward, self.critic = referred, reward, critic
        self.references = (
            stages(referred, self.reference) if setup.reference in ("resident", "offloaded") else ()
        )
        self.rewards = stages(reward, self.judge) if setup.rewarded else ()
        self.critics = stages(critic, critic_workload(workload, setup)) if setup.criticized else ()

    def phases(self, stage: Stage) -> Iterable[Phase]:
        """Yield the phases of one stage in their order."""
        resident = self._resident(stage.number)
        critic = self._critic_states(stage.number)
        joint = self.setup.trainer == "trl"
        if self.setup.sampled:
            yield Phase(
                name="rollout",
                parts=(*self._resting(stage), *resident, *critic, *self._generation()),
            )
        if gathered := self._gathered():
            yield Phase(name="rollout", parts=(*self._resting(stage), *resident, *gathered))
        if self.setup.sampled or self.references or self.setup.reference == "adapter":
            yield Phase(
                name="log_probs",
                parts=(
                    *self._before_inference(stage),
                    *resident,
                    *critic,
                    *self._scores(1),
                    self._inference(),
                ),
            )
        for phase in stage.phases:
            if phase.name == "loading":
                yield phase
                continue
            together = (
                self._critic(phase.name, stage.number)
                if joint
                else ()
                if self.setup.rests != "nothing"
                else critic
            )
            yield Phase(name=phase.name, parts=(*phase.parts, *resident, *together))
        if self.critics and not joint:
            own = _of_critic(self.critics[stage.number].highest.parts)
            yield Phase(name="critic_update", parts=(*self._resting(stage), *resident, *own))

    def host(self, stage: Stage, rollout: Estimate | None) -> int:
        """Return the bytes in host memory: offloaded frozen models, resting states, a rollout
        engine asleep at level 1."""
        size = 0
        if self.setup.reference == "offloaded" and self.references:
            size += _size(self.references[stage.number], ("weights",))
        if self.rewards and self._reward_offloaded:
            size += _size(self.rewards[stage.number], ("weights",))
        if self.setup.rests != "nothing":
            size += _size(stage, _UPDATED) + (
                _size(stage, ("weights",)) if self.setup.rests == "all" else 0
            )
        if rollout is not None and self.setup.rollout is not None:
            size += engine.host_bytes(rollout, self.setup.rollout)
        return size

    @property
    def _reward_offloaded(self) -> bool:
        """verl keeps frozen models in host memory (verl/workers/fsdp_workers.py, CPUOffload);
        elsewhere as the reference is kept."""
        return self.setup.reference == "offloaded"

    def _resident(self, number: int) -> list[Amount]:
        """Frozen weights that stay on the GPU."""
        result = []
        if self.references and self.setup.reference == "resident":
            result.append(
                in_words(
                    "teacher_weights" if self.setup.teacher else "reference_weights",
                    _size(self.references[number], ("weights",)),
                    "the teacher, frozen"
                    if self.setup.teacher
                    else "the reference, laid out as the policy",
                )
            )
        if self.rewards and not self._reward_offloaded:
            result.append(
                in_words(
                    "reward_weights",
                    _size(self.rewards[number], ("weights",)),
                    "the reward model, frozen",
                )
            )
        return result

    def _critic_states(self, number: int) -> list[Amount]:
        """Return what a critic keeps on the GPU while another model is at work."""
        if not self.critics:
            return []
        return _of_critic(self._resting(self.critics[number]))

    def _critic(self, phase: str, number: int) -> Iterable[Amount]:
        """Return a critic that is trained in the same pass (trl/experimental/ppo/ppo_trainer.py,
        PolicyAndValueWrapper)."""
        return _of_critic(
            next((p.parts for s in self.critics[number:] for p in s.phases if p.name == phase), ())
        )

    def _resting(self, stage: Stage) -> list[Amount]:
        """Return a model that is trained, while it is not: its states, with gradients where they
        have a buffer that stays (Megatron's main gradients, ZeRO-3's partitions), without those
        that rest in host memory."""
        gone = {"nothing": (), "optimizer": _UPDATED, "all": _SHARED}[self.setup.rests]
        buffered = self.policy.framework == "megatron" or (
            self.policy.framework == "deepspeed" and self.policy.zero_stage == 3
        )
        standing = ("weights", *_UPDATED, *(("gradients",) if buffered else ()))
        return [
            part
            for part in stage.phases[0].parts
            if part.name in standing and part.name not in gone
        ]

    def _before_inference(self, stage: Stage) -> list[Amount]:
        """Return the policy while log-probabilities are computed: its weights; DPO's reference
        runs while the policy's activations are kept (trl/trainer/dpo_trainer.py, _compute_loss),
        that of sampled completions before any are made."""
        forward = next(phase for phase in stage.phases if phase.name == "forward")
        if self.setup.sampled:
            weights = [part for part in forward.parts if part.name == "weights"]
            return weights + [part for part in self._resting(stage) if part.name != "weights"]
        if self.policy.pipeline_parallel > 1:
            return list(forward.parts)
        between = activations(self.spec, computed(self.policy)).between
        saved = in_words(
            "activations", between, "what the policy's forward pass saved for its backward pass"
        )
        return [*(part for part in forward.parts if part.name != "activations"), saved]

    def _inference(self) -> Amount:
        """Return the highest moment of any model's pass under no_grad."""
        passes = [inference_bytes(self.referred, self.reference)]
        if self.rewards:
            passes.append(inference_bytes(self.reward, self.judge))
        if self.critics:
            passes.append(inference_bytes(self.critic, self.judge))
        offloaded = (
            self.setup.reference == "offloaded"
            and self.policy.zero_stage < 3
            and self.policy.framework != "fsdp"
        )
        size = max(passes) + (gathered_bytes(self.spec, self.reference) if offloaded else 0)
        return in_words(
            "inference_activations",
            size,
            "a pass under no_grad: the widest layer or the logits, and units gathered for it",
        )

    def _generation(self) -> list[Amount]:
        """Return what sampling with the training library itself takes: the cache, and under
        ZeRO-3 the whole model."""
        engine_setup = self.setup.rollout
        if engine_setup is None or engine_setup.serves:
            return []
        steps = engine.steps_sampled(self.policy, self.setup)
        sequences = self.policy.micro_batch_size * steps
        tokens = self.setup.prompt_length + self.setup.completion_length
        size = cache_bytes(
            self.spec, tokens, sequences, dtype="BF16", tensor_parallel=self.policy.tensor_parallel
        )
        result = [
            in_words(
                "rollout_kv_cache",
                size,
                f"{sequences} sequences of {tokens} tokens in transformers' own cache",
            ),
            *self._scores(2),
        ]
        return [*result, *self._whole_for_generation()]

    def _gathered(self) -> list[Amount]:
        """Return what a student samples with for half of its steps, beyond what its step needs
        (trl/experimental/gkd/gkd_trainer.py, lmbda; without a cache where layers are
        checkpointed)."""
        return self._whole_for_generation() if self.setup.algorithm == "gkd" else []

    def _whole_for_generation(self) -> list[Amount]:
        if self.policy.framework != "deepspeed" or self.policy.zero_stage < 3:
            return []
        formula = "the whole model, gathered for generation (ds3_gather_for_generation)"
        return [in_words("rollout_weights", whole_bytes(self.spec, self.policy), formula)]

    def _scores(self, copies: int) -> list[Amount]:
        """Logits of every sampled token in fp32, which TRL's PPO keeps until it has their
        log-probabilities: as they came and put together, then put together alone
        (trl/experimental/ppo/ppo_trainer.py, batch_generation: `logitss`, `padded_logitss`)."""
        engine_setup = self.setup.rollout
        if self.setup.algorithm != "ppo" or engine_setup is None or engine_setup.serves:
            return []
        tokens = (
            self.policy.micro_batch_size * self.policy.micro_batches * self.setup.completion_length
        )
        formula = f"{copies} x {tokens} sampled tokens x {self.spec.vocabulary_size} words x 4 B"
        size = copies * tokens * self.spec.vocabulary_size * FLOAT
        return [amount("rollout_logits", size, formula)]


def _size(stage: Stage, names: Sequence[str]) -> int:
    return sum(part.size.expected for part in stage.phases[0].parts if part.name in names)


def _of_critic(parts: Iterable[Amount]) -> list[Amount]:
    return [Amount(f"critic_{part.name}", part.size, part.formula) for part in parts]
