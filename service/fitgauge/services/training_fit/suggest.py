"""The limits of a training answer, and the smallest changes that make it run and fit. Every
candidate is estimated before it is returned."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import gib, largest_where
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.releases import LAST_BY_THE_HOST
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common.host_memory import exceeds_host
from fitgauge.services.common.host_schemas import HostMemory
from fitgauge.services.common.responses import COUNTS, MOST_SUGGESTIONS
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.common.smallest import gpus_of
from fitgauge.services.common.unsupported import IMPOSSIBLE, to_send
from fitgauge.services.training_fit import loading
from fitgauge.services.training_fit.candidates import (
    Change,
    Fields,
    Ladder,
    ladders,
    sharded_by_trl,
)
from fitgauge.services.training_fit.degree_candidates import degrees_that_fit
from fitgauge.services.training_fit.launchers.command import launch
from fitgauge.services.training_fit.launchers.registry import tool_running
from fitgauge.services.training_fit.launchers.unsloth import FAMILIES
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.support import refusal

_MOST_BATCH = 65_536
_STEP = 256
"""Tokens between the lengths of sequences that are tried; contexts are multiples of it, and
context parallelism divides it."""
_LONGEST = 131_072
"""Tokens that are tried of a model without a limit."""
_WHOLE_LOGITS = ("transformers", "deepspeed", "fsdp")
"""Frameworks whose own loss is over whole logits."""
_UNSLOTH_MAKERS = ("NVIDIA", "AMD", "Intel", "custom")
"""Makers whose GPUs run Unsloth's kernels; on Apple's it trains by MLX. Source: its README."""
_DEGREES = ("data_parallel", "data_parallel_replicate", "context_parallel", "expert_parallel")


class _Result(NamedTuple):
    """An estimated suggestion."""

    suggestion: Suggestion
    """The suggestion."""
    always: bool
    """Whether it belongs to the answer even where others are smaller."""


@dataclass(frozen=True, slots=True)
class SettingsSearch:
    """Estimates a request under other settings."""

    estimate: Callable[[TrainingRequest, int], TrainingEstimate]
    """Of a changed request, on so many GPUs."""
    estimate_workload: Callable[[TrainingWorkload], TrainingEstimate]
    """Of a changed workload, on as many GPUs."""
    request: TrainingRequest
    """With the method that is answered."""
    chosen: Fields
    """What was chosen for the caller, and is sent with every change: the method."""
    model: Model
    """The model to train."""
    accelerator: Accelerator
    """The GPU."""
    profile: TrainingProfile
    """Coefficients of the training estimate."""
    trained: TrainingEstimate
    """The request itself, estimated."""

    def max_micro_batch_size(self) -> int:
        """Return the most sequences of a micro-batch that fit as the answer shards the model; 0
        without any."""

        def fits(batch: int) -> bool:
            workload = structs.replace(self.trained.workload, micro_batch_size=batch)
            return self.estimate_workload(workload).verdict == "fits"

        most = 1
        while most < _MOST_BATCH and fits(most):
            most *= 2
        return largest_where(most, fits)

    def max_sequence_length(self) -> int | None:
        """Return the tokens of the longest sequences that fit as the answer shards the model, up to
        the model's context; 0 where none do. None where sequences are no single length: of
        sampled completions, and of samples of varying length."""
        workload, context = self.trained.workload, self.model.spec.max_context_length
        if self.trained.setup.sampled or workload.varies or workload.logits_tokens is not None:
            return None

        def fits(length: int) -> bool:
            longer = structs.replace(workload, sequence_length=length)
            return self.estimate_workload(longer).verdict == "fits"

        own = workload.sequence_length if self.trained.verdict == "fits" else 0
        longest = max(context or _LONGEST, own)
        if fits(longest):
            return longest
        steps = largest_where(longest // _STEP, lambda steps: fits(steps * _STEP))
        return max(steps * _STEP, own)

    def min_gpu_count(self) -> int | None:
        """Return the fewest GPUs on which it fits with nothing else changed, up to 64 or as many
        as there are; None without any."""

        def fits(count: int) -> bool:
            changed = self._changed({"gpu_count": count})
            return changed is not None and changed.verdict == "fits"

        too_few = 0
        for count in sorted({*COUNTS, self.trained.count}):
            if fits(count):
                while count - too_few > 1:
                    middle = (count + too_few) // 2
                    too_few, count = (too_few, middle) if fits(middle) else (middle, count)
                return count
            too_few = count
        return None

    def suggestions(
        self, refused: UnsupportedError | None, min_gpu_count: int | None = None
    ) -> list[Suggestion]:
        """Return the smallest changes that make it run and fit. `min_gpu_count`: as above."""
        if refused is not None:
            return self._supported(refused)
        if self.trained.verdict == "fits":
            return []
        results: list[_Result] = []
        for ladder in self._ladders(min_gpu_count):
            if ladder.last_resort and any(_fits_here(one.suggestion) for one in results):
                continue
            best = self._first_that_fits(ladder)
            if best is not None and not any(
                _dominates(other.suggestion, best) for other in results
            ):
                results.append(_Result(best, ladder.always))
        return _shortlist([one for one in results if not self._outdone(one.suggestion, results)])

    def _outdone(self, one: Suggestion, results: Sequence[_Result]) -> bool:
        """Return whether it is another method on more GPUs, of which the one that is asked for
        takes no more."""
        own = [
            gpus_of(result.suggestion)
            for result in results
            if result.suggestion.verdict == "fits" and not self._is_of_another(result.suggestion)
        ]
        return self._is_of_another(one) and any(0 < count <= gpus_of(one) for count in own)

    def _is_of_another(self, one: Suggestion) -> bool:
        """Return whether a suggestion changes the method."""
        own = self.trained.workload.method
        return one.request.get("method", own) != own

    def _ladders(self, min_gpu_count: int | None) -> Iterator[Ladder]:
        trained = self.trained
        if trained.workload.framework == "megatron" and trained.setup.algorithm == "sft":
            degrees = degrees_that_fit(
                self.model.spec, trained.workload, self.profile, self.accelerator, trained.count
            )
            for words, fields in degrees:
                yield Ladder((Change(words, fields),), always=True)
        tool = tool_running(self.request, trained.setup.algorithm)
        every = ladders(
            trained.workload,
            trained.setup,
            trained.count,
            tool=tool,
            mixture=self.model.spec.routed_experts > 0,
            unsloth=self.accelerator.vendor in _UNSLOTH_MAKERS
            and self.model.spec.model_type in FAMILIES,
            min_gpu_count=min_gpu_count,
        )
        for ladder in every:
            changes = ladder.changes if tool.shards else map(sharded_by_trl, ladder.changes)
            yield ladder._replace(changes=tuple(changes))

    def _first_that_fits(self, ladder: Ladder) -> Suggestion | None:
        """Return the first change of a ladder that fits, else the first that is tight where the
        request is not even that; None without either."""
        tight = None
        for change in ladder.changes:
            fields = self._without_needless(change.fields)
            changed = self._changed(fields)
            if changed is None or changed.verdict == "does_not_fit":
                continue
            if changed.verdict == "fits":
                return self._suggestion(change.words, fields, changed)
            if tight is None and self.trained.verdict == "does_not_fit":
                tight = self._suggestion(change.words, fields, changed)
        return tight

    def _without_needless(self, fields: Fields) -> Fields:
        """Return the fields of a change without the GPUs that there are and the degrees that are
        left to them, with the loss of today where another framework would bring its own."""
        request = self.request
        shards = fields.get("framework") == "fsdp"
        needed = {
            name: value
            for name, value in fields.items()
            if not (shards and name in _DEGREES and getattr(request, name) is None)
            and not (name == "gpu_count" and value == self.trained.count)
        }
        names_none = request.framework is None and request.trainer is None
        if names_none and request.loss is None and fields.get("framework") in _WHOLE_LOGITS:
            needed = {"loss": self.trained.workload.loss} | needed
        return self.chosen | needed

    def _changed(self, fields: Fields) -> TrainingEstimate | None:
        """Return the estimate with some fields changed; None where they are impossible."""
        changed = structs.replace(self.request, **fields)
        try:
            estimate = self.estimate(changed, changed.gpu_count or self.trained.count)
        except IMPOSSIBLE:
            return None
        if exceeds_host(estimate.host_memory, self.request.host_memory_gib):
            return None
        return None if refusal(estimate.workload, self.accelerator) else estimate

    def _suggestion(self, words: str, fields: Fields, changed: TrainingEstimate) -> Suggestion:
        """Return a change and its result, with all that it changes in words."""
        workload, before = changed.workload, self.trained.workload
        if changed.tool is None and any(
            loading.uncounted(self.model.spec, workload, self.accelerator)
        ):
            words += f", loaded by transformers {LAST_BY_THE_HOST}"
            fields = fields | {"transformers_version": LAST_BY_THE_HOST}
        if changed.is_sharded_instead and before.framework != "fsdp":
            words += f", shard over {workload.gpus} GPUs with FSDP"
        host = changed.host_memory
        fits = changed.verdict in ("fits", "tight")
        return Suggestion(
            change=words if host is None else f"{words}: {_host(host)}",
            verdict=changed.verdict,
            required_bytes=changed.need,
            request=fields,
            launch=launch(self.model, workload, changed.setup, changed.tool) if fits else None,
            host_memory=host,
        )

    def _supported(self, refused: UnsupportedError) -> list[Suggestion]:
        """Return what the GPU can run instead, whether it fits or not."""
        supported = {name: value for name, value in to_send(refused).items() if value is not None}
        fields = self.chosen | supported
        changed = self._changed(fields)
        if changed is None:
            return []
        change = " and ".join(f"use {name} {value}" for name, value in supported.items())
        return [self._suggestion(change, fields, changed)]


def _host(host: HostMemory) -> str:
    """Return the host memory of a change in words."""
    if host.total_bytes == host.per_gpu_bytes:
        return f"{gib(host.total_bytes)} of host memory"
    return f"{gib(host.per_gpu_bytes)} of host memory per GPU, {gib(host.total_bytes)} in all"


def _dominates(other: Suggestion, one: Suggestion) -> bool:
    """Return whether another suggestion fits in as few bytes with a part of these changes."""
    return (
        other.verdict == "fits"
        and other.required_bytes <= one.required_bytes
        and other.request.items() <= one.request.items()
    )


def _fits_here(one: Suggestion) -> bool:
    """Return whether a change fits on as many GPUs."""
    return one.verdict == "fits" and "gpu_count" not in one.request


def _shortlist(results: Sequence[_Result]) -> list[Suggestion]:
    """Return the suggestions worth showing: those that fit before tight ones, other methods and
    more GPUs among them, in the order in which they were tried."""
    ranked = sorted(
        range(len(results)),
        key=lambda number: (
            results[number].suggestion.verdict != "fits",
            not results[number].always,
            number,
        ),
    )
    return fitting_first(
        [results[number].suggestion for number in sorted(ranked[:MOST_SUGGESTIONS])]
    )


def fitting_first(
    suggestions: Sequence[Suggestion], most: int = MOST_SUGGESTIONS
) -> list[Suggestion]:
    """Return those that fit before tight ones, so many at most."""
    return sorted(suggestions, key=lambda one: one.verdict != "fits")[:most]
