"""Parts of a training answer: summary, memory of a GPU, phases, other methods and the size of a
checkpoint."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import gib
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.estimate import TrainingStage
from fitgauge.engine.training.states.offload import checkpoint_bytes
from fitgauge.engine.training.workload import Method, PhaseName, TrainingWorkload
from fitgauge.services.common import responses
from fitgauge.services.common.fit_schemas import Limits
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.common.smallest import change_here, change_to_fit
from fitgauge.services.training_fit.degree_candidates import degrees_in_words
from fitgauge.services.training_fit.framework_variants import widened
from fitgauge.services.training_fit.result import JudgedMethods, TrainingEstimate
from fitgauge.services.training_fit.rl_models import RlModels
from fitgauge.services.training_fit.schemas import (
    OtherMethod,
    PhaseAnswer,
    TrainingPerGpu,
    TrainingRequest,
)
from fitgauge.services.training_fit.support import refusal

_WHEN: dict[PhaseName, str] = {
    "rollout": "while completions are sampled",
    "log_probs": "while log-probabilities are computed",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer_step": "in the optimizer step",
    "critic_update": "while the critic is trained",
    "loading": "while the base is loaded, before it is sharded",
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


def per_gpu(
    trained: TrainingEstimate, others: Sequence[TrainingStage], accelerator: Accelerator
) -> TrainingPerGpu:
    """Return the memory of the fullest GPU. `others`: its stage under every choice that depends on
    the framework's version, which widen the intervals."""
    stage = trained.fullest
    return TrainingPerGpu(
        usable_bytes=accelerator.usable.expected,
        required_bytes=widened(stage.need, [other.need for other in others]),
        allocated_bytes=widened(stage.allocated, [other.allocated for other in others]),
        reserved_bytes=widened(stage.reserved, [other.reserved for other in others]),
        headroom_bytes=accelerator.usable.expected - stage.need.expected,
        limited_by=trained.limited_by,
        shown_bytes=widened(stage.shown, [other.shown for other in others]),
        rank=stage.stage,
        host_bytes=stage.host_bytes,
        nvme_bytes=stage.nvme_bytes,
    )


def other_methods(
    others: Mapping[Method, TrainingEstimate], accelerator: Accelerator
) -> dict[str, OtherMethod]:
    """Return the same training by the other methods."""
    result: dict[str, OtherMethod] = {}
    for name, one in others.items():
        runs = refusal(one.workload, accelerator) is None
        result[name] = OtherMethod(
            verdict=one.verdict if runs else "unsupported",
            required_bytes=one.need,
            fit_probability=round(one.probability, 4) if runs else None,
        )
    return result


def summary(
    model: Model,
    gpus: str,
    trained: TrainingEstimate,
    accelerator: Accelerator,
    limits: Limits | None,
    changes: Sequence[Suggestion],
) -> str:
    """Return the verdict in a few sentences. changes: those that make it fit."""
    workload, fullest = trained.workload, trained.fullest
    each = " per GPU" if workload.gpus > 1 else ""
    required, usable = gib(trained.need), gib(accelerator.usable.expected)
    training = (
        f"{_method(trained)} with {workload.micro_batch_size} x {workload.sequence_length:,}"
        f" tokens{_sharding(trained)} needs {required}{each} of {usable}"
    )
    largest = " and ".join(term.name.replace("_", " ") for term in fullest.terms[:2])
    decides = f"the largest terms are {largest}"
    if trained.limited_by == "budget" and trained.setup.rollout is not None:
        rollout = trained.setup.rollout
        decides = (
            f"the {rollout.memory_utilization:.0%} of the GPU that {rollout.engine} gets for"
            " sampling decide"
        )
    host, machine = trained.host_memory, trained.request.host_memory_gib
    end = f" {responses.host_in_words(host, machine)}" if host else ""
    if trained.lacks_host:
        decides = "the machine's memory decides"
    if trained.verdict == "fits":
        peak = _WHEN[max(fullest.phases, key=lambda name: fullest.phases[name])]
        shown = gib(fullest.shown.expected)
        reserved = ""
        if shown != required:
            reserved = f"; the GPU will show {shown}, with what PyTorch's allocator reserves"
        more = _more(workload, limits) if limits else ""
        return f"{model.id} fits on {gpus}: {training}, most of it {peak}{reserved}.{more}{end}"
    if trained.verdict == "tight":
        change = change_here(changes)
        likely = f"{trained.probability:.0%} likely"
        sure = f" To be sure, {change}." if change else ""
        return f"{model.id} on {gpus} is tight ({likely}): {training}; {decides}.{sure}{end}"
    head = f"{model.id} does not fit on {gpus}"
    if change := change_to_fit(changes, trained.count):
        head += f"; to fit, {change}. As asked"
    return f"{head}: {training}; {decides}.{end}"


def all_weights(request: TrainingRequest, judged: JudgedMethods) -> str:
    """Return what training all weights takes, as a sentence with a space before it, where a
    question names no method and adapters are judged; empty elsewhere."""
    full = judged.others.get("full")
    if request.method is not None or full is None:
        return ""
    each = " per GPU" if full.workload.gpus > 1 else ""
    return f" No method is named: full fine-tuning needs {gib(full.need)}{each}."


def _more(workload: TrainingWorkload, limits: Limits) -> str:
    """Return what else fits in a micro-batch, each as a sentence with a space before it."""
    most, longest, more = limits.max_micro_batch_size or 0, limits.max_sequence_length or 0, ""
    if most > workload.micro_batch_size:
        more += f" Up to {most} such sequences fit in a micro-batch."
    if longest > workload.sequence_length:
        more += f" Sequences of up to {longest:,} tokens fit."
    return more


def training_in_words(model: Model, trained: TrainingEstimate) -> str:
    """'Training Qwen/Qwen3-8B with 1 x 2,048 tokens'."""
    workload, setup = trained.workload, trained.setup
    kind = "" if setup.algorithm == "sft" else f" ({setup.algorithm.upper()}{_from_teacher(setup)})"
    return (
        f"Training {model.id}{kind} with {workload.micro_batch_size} x"
        f" {workload.sequence_length:,} tokens"
    )


def _sharding(trained: TrainingEstimate) -> str:
    """Return how several GPUs share the model, where the framework leaves that open."""
    workload = trained.workload
    if trained.is_sharded_instead:
        return ", sharded by FSDP,"
    if trained.laid_out:
        return f", {degrees_in_words(workload)},"
    if workload.framework == "transformers" and workload.data_parallel > 1:
        return ", a copy on each GPU (DDP),"
    return ""


def _method(trained: TrainingEstimate) -> str:
    method = {"full": "full fine-tuning", "lora": "LoRA", "dora": "DoRA", "qlora": "QLoRA"}[
        trained.workload.method
    ]
    algorithm = trained.setup.algorithm
    if algorithm == "sft":
        return method
    name = "reward model" if algorithm == "reward" else algorithm.upper()
    return f"{name} training{_from_teacher(trained.setup)} ({method})"


def _from_teacher(setup: Setup) -> str:
    """Return whose distributions a student learns."""
    return f" from {setup.teacher}" if setup.teacher else ""
