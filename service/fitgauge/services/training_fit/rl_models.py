"""Stages of training with several models, and the engine that samples on the same GPUs."""

from dataclasses import dataclass

from fitgauge.catalog.engines import Engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.fit import fit_probability
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.training.algorithms.phases import algorithm_stages
from fitgauge.engine.training.algorithms.rollout import steps_sampled
from fitgauge.engine.training.algorithms.setup import Rollout, Setup
from fitgauge.engine.training.estimate import TrainingStage
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import impossible_degrees
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.fit.workload import serving_workload
from fitgauge.services.training_fit.launchers.registry import tool_named


@dataclass(frozen=True, slots=True)
class RlModels:
    """The models that a request names besides the policy."""

    reward: Model | None = None
    """The reward model; None for the policy's architecture."""
    critic: Model | None = None
    """The critic; None for the policy's architecture."""
    teacher: Model | None = None
    """The model that a student is distilled from."""

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self != ALONE


ALONE = RlModels()
"""Without named models."""


class Algorithms:
    """Estimates preference and RL training of resolved models. Pure arithmetic: no I/O, no
    await."""

    def __init__(self, profile: TrainingProfile, engines: Engines) -> None:
        self._profile = profile
        self._engines = engines
        self._preparer = WeightCache(64)

    def stages(
        self,
        model: Model,
        models: RlModels,
        workload: TrainingWorkload,
        setup: Setup,
        accelerator: Accelerator,
    ) -> tuple[tuple[TrainingStage, ...], float]:
        """Return every stage, and the probability that the rollout engine starts in its share of
        the GPU (1 without one).

        Raises InvalidRequestError where the engine refuses the model, and for named models with
        pipeline parallelism."""
        if workload.pipeline_parallel > 1 and models.any:
            detail = "A named model besides the policy is not modelled with pipeline parallelism."
            raise impossible_degrees(
                detail,
                "Send pipeline_parallel 1, or leave the other models out.",
                "pipeline_parallel",
            )
        estimate = self._rollout(model, workload, setup, accelerator)
        stages = algorithm_stages(
            model.spec,
            workload,
            setup,
            self._profile,
            accelerator.usable.expected,
            rollout=estimate,
            reward=_spec(models.reward),
            critic=_spec(models.critic),
            teacher=_spec(models.teacher),
        )
        return stages, (
            1.0 if estimate is None else fit_probability(estimate.fullest.required, estimate.budget)
        )

    def _rollout(
        self, model: Model, workload: TrainingWorkload, setup: Setup, accelerator: Accelerator
    ) -> Estimate | None:
        """Return the serving estimate of the engine on the training GPUs, for one sequence of
        prompt and completion."""
        rollout = setup.rollout
        if rollout is None or not rollout.serves:
            return None
        quantization = "nf4" if workload.method == "qlora" else "bf16"
        profile = self._engines.profile(rollout.engine, None)
        request = _serving(model, workload, setup, rollout, quantization)
        serving = serving_workload(
            request, model.spec, accelerator, rollout.tensor_parallel, profile
        )
        prepared = self._preparer.prepare(model, quantization, serving.engine)
        return ENGINES[serving.engine].estimate(
            model.spec, prepared.sharded, serving, accelerator, profile
        )


def _serving(
    model: Model, workload: TrainingWorkload, setup: Setup, rollout: Rollout, quantization: str
) -> FitRequest:
    return FitRequest(
        model=model.id,
        gpu="",
        engine=rollout.engine,
        quantization=quantization,
        context_length=setup.prompt_length + setup.completion_length,
        concurrency=1,
        tensor_parallel=rollout.tensor_parallel,
        pipeline_parallel=1,
        gpu_memory_utilization=rollout.memory_utilization,
        max_batched_tokens=tool_named(setup.trainer).rollout.batched_tokens,
        max_num_seqs=_sequences(workload, setup, rollout) if setup.trainer == "trl" else None,
    )


def _sequences(workload: TrainingWorkload, setup: Setup, rollout: Rollout) -> int:
    """Return requests at once under TRL: micro-batch x tensor parallel x steps of one generation
    (trl/trainer/grpo_trainer.py, max_num_seqs)."""
    steps = steps_sampled(workload, setup)
    return max(1, workload.micro_batch_size * rollout.tensor_parallel * steps)


def _spec(model: Model | None) -> ModelSpec | None:
    return None if model is None else model.spec
