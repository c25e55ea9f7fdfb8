"""Parts of a training answer: summary, phases and the size of a checkpoint."""

from msgspec import UNSET

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import Model
from fitgauge.engine.quantity import gib
from fitgauge.engine.training.estimate import TrainingStage
from fitgauge.engine.training.phases import PhaseName
from fitgauge.engine.training.states.offload import checkpoint_bytes
from fitgauge.services.common import responses
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.rl_models import RlModels
from fitgauge.services.training_fit.schemas import PhaseAnswer

_WHEN: dict[PhaseName, str] = {
    "rollout": "while completions are sampled",
    "log_probs": "while log-probabilities are computed",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer_step": "in the optimizer step",
    "critic_update": "while the critic is trained",
}


def checkpoint_size(model: Model, trained: TrainingEstimate, models: RlModels) -> int:
    """Return the disk of a checkpoint to resume from, of the policy and of a trained critic
    [bytes]."""
    policy = checkpoint_bytes(model.spec, trained.workload)
    if not trained.setup.criticized:
        return policy
    return policy + checkpoint_bytes((models.critic or model).spec, trained.workload)


def phase_answers(stage: TrainingStage, full: bool) -> list[PhaseAnswer]:
    """Return the phases of a step on one stage; `full`: with formulas and sources."""
    return [
        PhaseAnswer(
            name=name,
            bytes=size,
            terms=(
                responses.term_answers(stage.phase_terms[name], full)
                if name in stage.phase_terms
                else UNSET
            ),
        )
        for name, size in stage.phases.items()
    ]


def summary(model: Model, cards: str, trained: TrainingEstimate, accelerator: Accelerator) -> str:
    """Return the verdict in one or two sentences."""
    workload, fullest = trained.workload, trained.fullest
    each = " per GPU" if workload.gpus > 1 else ""
    required, usable = gib(fullest.need.expected), gib(accelerator.usable.expected)
    training = (
        f"{_method(trained)} with {workload.micro_batch_size} x {workload.sequence_length:,} tokens"
    )
    largest = " and ".join(term.name.replace("_", " ") for term in fullest.terms[:2])
    if trained.verdict == "fits":
        peak = _WHEN[max(fullest.phases, key=lambda name: fullest.phases[name])]
        shown = gib(fullest.required.expected)
        reserved = (
            f"; the GPU will show {shown}, with what PyTorch's allocator reserves"
            if shown != required
            else ""
        )
        return (
            f"{model.id} fits on {cards}: {training} needs {required}{each} of {usable}, most of it"
            f" {peak}{reserved}."
        )
    if trained.verdict == "tight":
        return (
            f"{model.id} on {cards} is tight ({trained.probability:.0%} likely): {training} needs"
            f" {required}{each} of {usable}; the largest terms are {largest}."
        )
    return (
        f"{model.id} does not fit on {cards}: {training} needs {required}{each}, {usable} are"
        f" usable; the largest terms are {largest}."
    )


def _method(trained: TrainingEstimate) -> str:
    method = {"full": "full fine-tuning", "lora": "LoRA", "dora": "DoRA", "qlora": "QLoRA"}[
        trained.workload.method
    ]
    algorithm = trained.setup.algorithm
    if algorithm == "sft":
        return method
    return f"{'reward model' if algorithm == 'reward' else algorithm.upper()} training ({method})"
