"""A training question whose algorithm has more than one model: its stages, and the engine that
samples on the same cards."""

from dataclasses import dataclass

from fitgauge.catalog.engines import Engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import Model, ModelSpec
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.fit import fit_probability
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.training.algorithms.phases import algorithm_stages
from fitgauge.engine.training.algorithms.setup import Rollout, Setup
from fitgauge.engine.training.estimate import TrainingStage
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.fit.workload import serving_workload

_BATCHED_TOKENS = {"trl": 4096, "verl": 8192, "openrlhf": None}
"""trl/generation/vllm_generation.py; verl/trainer/config/rollout/rollout.yaml; OpenRLHF leaves
it to vLLM."""


@dataclass(frozen=True, slots=True)
class RlModels:
    """The models a question names beside its policy; None for the policy's architecture."""

    reward: Model | None = None
    critic: Model | None = None


ALONE = RlModels()
"""No models of their own."""


class Algorithms:
    """Estimates preference and RL training of models that are at hand. Pure arithmetic: no I/O,
    no await."""

    def __init__(self, profile: TrainingProfile, engines: Engines) -> None:
        self._profile = profile
        self._engines = engines
        self._preparer = WeightCache(64)

    def stages(
        self,
        model: Model,
        cast: RlModels,
        workload: TrainingWorkload,
        setup: Setup,
        accelerator: Accelerator,
    ) -> tuple[tuple[TrainingStage, ...], float]:
        """Return every stage, and the chance that the rollout engine starts in its share of the
        card (1 where there is none).

        Raises InvalidRequestError where the engine refuses the model, or models of their own
        meet pipeline parallelism."""
        if workload.pipeline_parallel > 1 and (cast.reward or cast.critic):
            detail = (
                "A reward model or critic of its own is not sized with pipeline parallelism here."
            )
            raise InvalidRequestError(
                detail,
                hint="Send pipeline_parallel 1, or leave reward_model and critic_model out.",
                field="pipeline_parallel",
            )
        estimate = self._rollout(model, workload, setup, accelerator)
        found = algorithm_stages(
            model.spec,
            workload,
            setup,
            self._profile,
            accelerator.usable.expected,
            rollout=estimate,
            reward=_spec(cast.reward),
            critic=_spec(cast.critic),
        )
        return found, (
            1.0 if estimate is None else fit_probability(estimate.fullest.required, estimate.budget)
        )

    def _rollout(
        self, model: Model, workload: TrainingWorkload, setup: Setup, accelerator: Accelerator
    ) -> Estimate | None:
        """Return the serving estimate of the engine on the training cards: one sequence of
        prompt and completion must find room."""
        given = setup.rollout
        if given is None or given.engine not in ("vllm", "sglang"):
            return None
        quantization = "nf4" if workload.method == "qlora" else "bf16"
        profile = self._engines.profile(given.engine, None)
        asked = _serving(model, workload, setup, given, quantization)
        serving = serving_workload(asked, model.spec, accelerator, given.tensor_parallel, profile)
        prepared = self._preparer.prepare(model, quantization, serving.engine)
        return ENGINES[serving.engine].estimate(
            model.spec, prepared.laid, serving, accelerator, profile
        )


def _serving(
    model: Model, workload: TrainingWorkload, setup: Setup, given: Rollout, quantization: str
) -> FitRequest:
    return FitRequest(
        model=model.id,
        gpu="",
        engine=given.engine,
        quantization=quantization,
        context_length=setup.prompt_length + setup.completion_length,
        concurrency=1,
        tensor_parallel=given.tensor_parallel,
        pipeline_parallel=1,
        gpu_memory_utilization=given.memory_utilization,
        max_batched_tokens=_BATCHED_TOKENS[setup.trainer],
        max_num_seqs=_sequences(workload, given) if setup.trainer == "trl" else None,
    )


def _sequences(workload: TrainingWorkload, given: Rollout) -> int:
    """Return requests at once under TRL: micro-batch x tensor parallel x steps of one generation
    (trl/trainer/grpo_trainer.py, max_num_seqs)."""
    return max(1, workload.micro_batch_size * given.tensor_parallel * workload.micro_batches)


def _spec(model: Model | None) -> ModelSpec | None:
    return None if model is None else model.spec
