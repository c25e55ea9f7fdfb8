"""check_training_fit: will this model fit on this GPU when it is trained?"""

from copy import copy
from itertools import chain
from typing import Literal

from msgspec import UNSET, structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.lookup import GpuMatch
from fitgauge.engine.accelerator import Accelerator, shared
from fitgauge.engine.model.spec import Model
from fitgauge.engine.quantity import GIB, gib
from fitgauge.engine.serving.fit import Verdict, fit_probability, verdict
from fitgauge.engine.training.estimate import TrainingStage, training_stages
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.phases import PhaseName
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.states.offload import checkpoint_bytes
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import responses as answers
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.responses import COUNTS, MOST_SUGGESTIONS
from fitgauge.services.common.schemas import Launch, Limits, Suggestion
from fitgauge.services.training_fit import images as training_images
from fitgauge.services.training_fit import megatron
from fitgauge.services.training_fit import parsing as words
from fitgauge.services.training_fit import rl_setup as algorithm_setups
from fitgauge.services.training_fit.candidates import Fields, candidates, more_cards
from fitgauge.services.training_fit.degree_candidates import degrees_that_fit
from fitgauge.services.training_fit.framework_variants import (
    open_settings,
    other_choices,
    reduces,
    widened,
)
from fitgauge.services.training_fit.launchers.command import launch_command
from fitgauge.services.training_fit.launchers.registry import with_tool_defaults
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.rl_models import ALONE, Algorithms, RlModels
from fitgauge.services.training_fit.saved_tensors import saved_segments
from fitgauge.services.training_fit.schemas import (
    PhaseAnswer,
    TrainingAnswer,
    TrainingPerGpu,
    TrainingRequest,
)
from fitgauge.services.training_fit.support import Refusal, refusal
from fitgauge.services.training_fit.warnings import HOPELESS, desktops, notes
from fitgauge.services.training_fit.workload import in_its_formats, training_gpus, training_workload

_MOST_BATCH = 65_536


class TrainingFitService:
    """Answers training questions about models that are at hand. Pure arithmetic: no I/O, no
    await."""

    def __init__(self, profile: TrainingProfile, engines: Engines) -> None:
        self._profile = profile
        self._algorithms = Algorithms(profile, engines)
        self._checkpoint: Checkpoint = no_checkpoint

    def with_checkpoint(self, checkpoint: Checkpoint) -> "TrainingFitService":
        """Return the same, with a checkpoint that is called before every estimate."""
        training = copy(self)
        training._checkpoint = checkpoint
        return training

    def answer(
        self, request: TrainingRequest, model: Model, found: GpuMatch, cast: RlModels = ALONE
    ) -> TrainingAnswer:
        """Return the TrainingAnswer. `cast`: the models named beside the policy.

        Raises InvalidRequestError where the question is impossible, with what to send instead.
        """
        count = training_gpus(request, found.count)
        accelerator = shared(found.accelerator, int((request.other_memory_gib or 0) * GIB))
        trained = self.check(request, model, accelerator, count, cast)
        fullest, workload = trained.fullest, trained.workload
        refused, full = refusal(workload, accelerator), request.detail == "full"
        cards, others = (
            answers.cards_in_words(accelerator, count),
            self._otherwise(request, trained, model, accelerator, cast),
        )
        suggestions = self._suggestions(request, model, accelerator, trained, cast, refused)
        understood_as = _understood(trained, accelerator, model)
        hopeless = trained.verdict == "does_not_fit" and not suggestions and not refused
        return TrainingAnswer(
            verdict="unsupported" if refused else trained.verdict,
            summary=(
                f"{model.id} cannot be trained so on {cards}: {refused}"
                if refused
                else _summary(model, cards, trained, accelerator)
            ),
            fit_probability=None if refused else round(trained.probability, 4),
            model=answers.model_answer(model),
            gpu=answers.gpu_answer(accelerator, count),
            per_gpu=TrainingPerGpu(
                usable_bytes=accelerator.usable.expected,
                required_bytes=widened(fullest.required, [other.required for other in others]),
                allocated_bytes=widened(fullest.allocated, [other.allocated for other in others]),
                reserved_bytes=widened(fullest.reserved, [other.reserved for other in others]),
                headroom_bytes=accelerator.usable.expected - fullest.need.expected,
                rank=fullest.stage,
                host_bytes=fullest.host_bytes,
                nvme_bytes=fullest.nvme_bytes,
            ),
            terms=answers.term_answers(fullest.terms, full),
            phases=_phases(fullest, full),
            limits=Limits(
                max_micro_batch_size=self._largest(request, model, accelerator, count, cast),
                min_gpu_count=self._fewest(request, model, accelerator, trained, cast),
            ),
            suggestions=suggestions,
            warnings=[
                *notes(request, model, found, trained, understood_as),
                *desktops(request, accelerator, trained),
                *([HOPELESS] * hopeless),
            ],
            understood_as=understood_as,
            launch=Launch(command=launch_command(model, workload, trained.setup, trained.tool)),
            checkpoint_bytes=_checkpoint_bytes(model, trained, cast),
            ranks=(
                answers.training_rank_answers(trained.stages, accelerator.usable)
                if full and workload.pipeline_parallel > 1
                else UNSET
            ),
            saved=saved_segments(model.spec, workload) if full else UNSET,
        )

    def check(
        self,
        request: TrainingRequest,
        model: Model,
        accelerator: Accelerator,
        count: int,
        cast: RlModels = ALONE,
    ) -> TrainingEstimate:
        """Return the estimate behind `answer`. Raises InvalidRequestError where the question is
        impossible.

        Several cards under transformers hold a copy each (DDP), or, where that does not fit and
        nothing was said about it, shards (FSDP)."""
        request = with_tool_defaults(
            in_its_formats(request, accelerator), words.method(request.method), count, model.spec
        )
        workload = training_workload(request, model.spec, count)
        trained = self._estimated(request, workload, model, accelerator, count, cast)
        left_open = (
            request.zero_stage is None
            and request.data_parallel is None
            and workload.framework == "transformers"
        )
        if (
            trained.verdict != "does_not_fit"
            or not left_open
            or workload.data_parallel == 1
            or workload.data_parallel != workload.gpus
        ):
            return trained
        return self._estimated(
            request,
            structs.replace(workload, framework="fsdp", zero_stage=3),
            model,
            accelerator,
            count,
            cast,
        )

    def _estimated(
        self,
        request: TrainingRequest,
        workload: TrainingWorkload,
        model: Model,
        accelerator: Accelerator,
        count: int,
        cast: RlModels,
    ) -> TrainingEstimate:
        self._checkpoint()
        setup, starts = algorithm_setups.setup(request, workload, model.spec), 1.0
        if setup.algorithm == "sft":
            stages = training_stages(
                model.spec, workload, self._profile, accelerator.usable.expected
            )
        else:
            stages, starts = self._algorithms.stages(model, cast, workload, setup, accelerator)
        most = max(stages, key=lambda stage: stage.need.expected)
        probability = min(starts, fit_probability(most.need, accelerator.usable))
        return TrainingEstimate(
            workload, setup, stages, probability, verdict(probability), count, request
        )

    def _otherwise(
        self,
        request: TrainingRequest,
        trained: TrainingEstimate,
        model: Model,
        accelerator: Accelerator,
        cast: RlModels,
    ) -> list[TrainingStage]:
        """Return the fullest stage under every choice that the question leaves to a framework's
        version."""
        choices = other_choices(trained.asked, trained.workload)
        return [
            self._estimated(trained.asked, choice, model, accelerator, trained.count, cast).fullest
            for choice in choices
        ]

    def _largest(
        self,
        request: TrainingRequest,
        model: Model,
        accelerator: Accelerator,
        count: int,
        cast: RlModels,
    ) -> int:
        """Return the most sequences of a micro-batch whose expected need is within the card; 0
        where not even one."""

        def fits(batch: int) -> bool:
            changed = self.check(
                structs.replace(request, micro_batch_size=batch), model, accelerator, count, cast
            )
            return changed.fullest.need.expected <= accelerator.usable.expected

        low, high = 0, 1
        while high <= _MOST_BATCH and fits(high):
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return min(low, _MOST_BATCH)

    def _fewest(
        self,
        request: TrainingRequest,
        model: Model,
        accelerator: Accelerator,
        trained: TrainingEstimate,
        cast: RlModels,
    ) -> int | None:
        """Return the least of 1, 2, 4, ... 64 cards that hold it when data parallelism alone
        grows, with a copy each or, under transformers, in FSDP's shards; None where none of them
        does."""
        freed = ("gpu_count", "data_parallel", "data_parallel_replicate", "rollout_tensor_parallel")
        open_to = structs.replace(request, **dict.fromkeys(freed))
        ways = [open_to]
        if (
            trained.workload.framework == "transformers"
            and trained.asked.zero_stage == request.zero_stage
        ):
            ways.append(
                structs.replace(
                    open_to, trainer=trained.asked.trainer, framework="fsdp", zero_stage=3
                )
            )
        for count in sorted({*COUNTS, trained.count}):
            for grown in ways:
                try:
                    if self.check(grown, model, accelerator, count, cast).verdict == "fits":
                        return count
                except InvalidRequestError:
                    continue
        return None

    def _suggestions(
        self,
        request: TrainingRequest,
        model: Model,
        accelerator: Accelerator,
        trained: TrainingEstimate,
        cast: RlModels,
        refused: Refusal | None,
    ) -> list[Suggestion]:
        """Return the smallest changes that make it run and fit, each estimated anew."""
        if refused is not None:
            return self._instead(request, model, accelerator, trained.count, cast, refused)
        if trained.verdict == "fits":
            return []
        found: list[Suggestion] = []
        tried = candidates(
            trained.workload, trained.setup, trained.count, mixture=experts(model.spec) > 0
        )
        if trained.workload.framework == "megatron" and trained.setup.algorithm == "sft":
            tried = chain(
                degrees_that_fit(
                    model.spec, trained.workload, self._profile, accelerator, trained.count
                ),
                tried,
            )
        for change, fields in tried:
            if "sequence_length" in fields and any(
                suggestion.verdict == "fits" for suggestion in found
            ):
                continue
            changed = structs.replace(request, **fields)
            try:
                again = self.check(
                    changed, model, accelerator, changed.gpu_count or trained.count, cast
                )
            except InvalidRequestError:
                continue
            if (
                again.verdict in ("does_not_fit", trained.verdict)
                or refusal(again.workload, accelerator) is not None
            ):
                continue
            required = again.fullest.required.expected
            grows = more_cards(fields, trained.count)
            crowded = (
                grows
                and again.verdict == "tight"
                and any(more_cards(other.request, trained.count) for other in found)
            )
            if not crowded and not any(_asks_less(other, fields, required) for other in found):
                found.append(
                    Suggestion(
                        change=change,
                        verdict=again.verdict,
                        required_bytes=required,
                        request=dict(fields),
                    )
                )
            fitting = [suggestion for suggestion in found if suggestion.verdict == "fits"]
            if len(fitting) == MOST_SUGGESTIONS or (again.verdict == "fits" and grows):
                break
        found.sort(key=lambda suggestion: suggestion.verdict != "fits")
        return found[:MOST_SUGGESTIONS]

    def _instead(
        self,
        request: TrainingRequest,
        model: Model,
        accelerator: Accelerator,
        count: int,
        cast: RlModels,
        refused: Refusal,
    ) -> list[Suggestion]:
        """Return what the card can run in the place of what it cannot, whether it fits or not."""
        fields: Fields = {refused.field: refused.value}
        try:
            again = self.check(structs.replace(request, **fields), model, accelerator, count, cast)
        except InvalidRequestError:
            return []
        found: Verdict | Literal["unsupported"] = (
            again.verdict if refusal(again.workload, accelerator) is None else "unsupported"
        )
        required = again.fullest.required.expected
        return [
            Suggestion(
                change=f"use {refused.field} {refused.value}",
                verdict=found,
                required_bytes=required,
                request=fields,
            )
        ]


def _asks_less(other: Suggestion, fields: Fields, required: int) -> bool:
    """Return whether another suggestion fits in as little with a part of these changes."""
    return (
        other.verdict == "fits"
        and other.required_bytes <= required
        and other.request.items() <= fields.items()
    )


_WHEN: dict[PhaseName, str] = {
    "rollout": "while completions are sampled",
    "log_probs": "while log-probabilities are computed",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer_step": "in the optimizer step",
    "critic_update": "while the critic is trained",
}


def _checkpoint_bytes(model: Model, trained: TrainingEstimate, cast: RlModels) -> int:
    """Of the policy, and of a critic that is trained beside it."""
    own = checkpoint_bytes(model.spec, trained.workload)
    if not trained.setup.criticized:
        return own
    return own + checkpoint_bytes((cast.critic or model).spec, trained.workload)


def _phases(fullest: TrainingStage, full: bool) -> list[PhaseAnswer]:
    named = fullest.phase_terms
    return [
        PhaseAnswer(
            name=name,
            bytes=size,
            terms=(
                UNSET if (terms := named.get(name)) is None else answers.term_answers(terms, full)
            ),
        )
        for name, size in fullest.phases.items()
    ]


def _summary(model: Model, cards: str, trained: TrainingEstimate, accelerator: Accelerator) -> str:
    workload, fullest = trained.workload, trained.fullest
    how = {"full": "full fine-tuning", "lora": "LoRA", "dora": "DoRA", "qlora": "QLoRA"}[
        workload.method
    ]
    if trained.setup.algorithm != "sft":
        algorithm = trained.setup.algorithm
        how = f"{'reward model' if algorithm == 'reward' else algorithm.upper()} training ({how})"
    each = " per GPU" if workload.gpus > 1 else ""
    need, have = gib(fullest.need.expected), gib(accelerator.usable.expected)
    asked = f"{how} with {workload.micro_batch_size} x {workload.sequence_length:,} tokens"
    largest = " and ".join(term.name.replace("_", " ") for term in fullest.terms[:2])
    when = _WHEN[max(fullest.phases, key=lambda name: fullest.phases[name])]
    if trained.verdict == "fits":
        shown = gib(fullest.required.expected)
        beside = (
            ""
            if shown == need
            else f"; the device will show {shown}, with what PyTorch's allocator keeps"
        )
        return (
            f"{model.id} fits on {cards}: {asked} needs {need}{each} of {have}, most of it"
            f" {when}{beside}."
        )
    if trained.verdict == "tight":
        return (
            f"{model.id} on {cards} is tight ({trained.probability:.0%} likely): {asked} needs"
            f" {need}{each} of {have}; {largest} take most."
        )
    return (
        f"{model.id} does not fit on {cards}: {asked} needs {need}{each}, there are {have};"
        f" {largest} take most."
    )


def _understood(
    trained: TrainingEstimate, accelerator: Accelerator, model: Model
) -> dict[str, str | int | float | bool]:
    """Return what was understood; what a question leaves to a framework's version stays open, so
    that sent again it gets the same answer."""
    request = trained.asked
    filled = understood(
        trained.workload, accelerator, trained.count, model
    ) | algorithm_setups.understood(request, trained.setup)
    filled |= {
        name: value
        for name in ("runtime_gib", "other_memory_gib")
        if (value := getattr(request, name)) is not None
    }
    opened = open_settings(request, trained.workload)
    return {name: value for name, value in filled.items() if name not in opened}


def understood(
    workload: TrainingWorkload, accelerator: Accelerator, count: int, model: Model
) -> dict[str, str | int | float | bool]:
    """Return the question with every default filled in, as fields to send."""
    targets = workload.lora_targets
    adapted: dict[str, str | int | float | bool] = {}
    if workload.uses_adapters:
        adapted = {
            "lora_rank": workload.lora_rank,
            "lora_targets": targets if isinstance(targets, str) else ",".join(targets),
        }
        if workload.method == "qlora" or workload.quantization:
            adapted["quantization"] = workload.quantization or "nf4"
            adapted |= (
                {"quantize_experts": workload.quantize_experts} if experts(model.spec) else {}
            )
        adapted["base_precision"] = workload.base_precision
    return {
        "model": model.id,
        "gpu": accelerator.name,
        "gpu_count": count,
        "method": workload.method,
        **adapted,
        "precision": workload.precision,
        "framework": workload.framework,
        "optimizer": workload.optimizer,
        "optimizer_implementation": workload.optimizer_implementation,
        "loss": workload.loss,
        "sequence_length": workload.sequence_length,
        "micro_batch_size": workload.micro_batch_size,
        "micro_batches": workload.micro_batches,
        "activation_checkpointing": workload.activation_checkpointing,
        "attention": workload.attention,
        "activation_rule": rule_of(model.spec, workload),
        "zero_stage": workload.zero_stage,
        "offload": workload.offload,
        "tensor_parallel": workload.tensor_parallel,
        "sequence_parallel": workload.sequence_parallel,
        "pipeline_parallel": workload.pipeline_parallel,
        "pipeline_schedule": workload.pipeline_schedule,
        "context_parallel": workload.context_parallel,
        "expert_parallel": workload.expert_parallel,
        **({"expert_tensor_parallel": workload.expert_ways} if experts(model.spec) else {}),
        "data_parallel": workload.data_parallel,
        "data_parallel_replicate": workload.data_parallel_replicate,
        "zero_hpz_partition_size": workload.zero_hpz_partition_size,
        **(
            {"fsdp_version": workload.fsdp_version, "shard_embeddings": workload.shard_embeddings}
            if workload.framework == "fsdp"
            else {}
        ),
        "kernels": workload.kernels,
        "compile": workload.compile,
        "expandable_segments": workload.uses_expandable_segments,
        "activation_offload": workload.activation_offload,
        "optimizer_in_backward": workload.optimizer_in_backward,
        "ema": workload.ema,
        **({"fp8_parameters": workload.fp8_parameters} if workload.precision == "fp8" else {}),
        **(
            {"gradient_dtype": workload.gradient_dtype or "fp32"}
            if workload.gradient_dtype or reduces(workload)
            else {}
        ),
        **megatron.understood(workload, model.spec),
        **training_images.understood(workload, model.spec),
    }
