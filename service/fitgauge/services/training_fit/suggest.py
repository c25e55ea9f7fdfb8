"""The limits of a training answer, and the smallest changes that make it run and fit. Every
candidate is estimated before it is returned."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.fit import Verdict
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.services.common.responses import COUNTS, MOST_SUGGESTIONS
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.training_fit.candidates import Fields, candidates, more_cards
from fitgauge.services.training_fit.degree_candidates import degrees_that_fit
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.support import Refusal, refusal

_MOST_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class SettingsSearch:
    """Estimates a request under other settings."""

    estimate: Callable[[TrainingRequest, int], TrainingEstimate]
    """Of a changed request, on so many GPUs."""
    request: TrainingRequest
    spec: ModelSpec
    accelerator: Accelerator
    profile: TrainingProfile
    trained: TrainingEstimate
    """The request itself, estimated."""

    def max_micro_batch_size(self) -> int:
        """Return the most sequences of a micro-batch whose expected need fits; 0 without any."""

        def fits(batch: int) -> bool:
            changed = self.estimate(
                structs.replace(self.request, micro_batch_size=batch), self.trained.count
            )
            return changed.fullest.need.expected <= self.accelerator.usable.expected

        low, high = 0, 1
        while high <= _MOST_BATCH and fits(high):
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return min(low, _MOST_BATCH)

    def min_gpu_count(self) -> int | None:
        """Return the least of 1, 2, 4, ... 64 GPUs on which it fits when only data parallelism
        grows, with a copy each or, under transformers, in FSDP's shards; None without any."""
        request, trained = self.request, self.trained
        degrees = (
            "gpu_count",
            "data_parallel",
            "data_parallel_replicate",
            "rollout_tensor_parallel",
        )
        free = structs.replace(request, **dict.fromkeys(degrees))
        requests = [free]
        if (
            trained.workload.framework == "transformers"
            and trained.asked.zero_stage == request.zero_stage
        ):
            requests.append(
                structs.replace(free, trainer=trained.asked.trainer, framework="fsdp", zero_stage=3)
            )
        for count in sorted({*COUNTS, trained.count}):
            for grown in requests:
                try:
                    if self.estimate(grown, count).verdict == "fits":
                        return count
                except IMPOSSIBLE:
                    continue
        return None

    def suggestions(self, refused: Refusal | None) -> list[Suggestion]:
        """Return the smallest changes that make it run and fit."""
        if refused is not None:
            return self._supported(refused)
        trained = self.trained
        if trained.verdict == "fits":
            return []
        results: list[Suggestion] = []
        for change, fields in self._candidates():
            fitting = [one for one in results if one.verdict == "fits"]
            if "sequence_length" in fields and fitting:
                continue
            again = self._estimate_with(fields)
            if (
                again is None
                or again.verdict in ("does_not_fit", trained.verdict)
                or refusal(again.workload, self.accelerator) is not None
            ):
                continue
            required = again.fullest.required.expected
            grows = more_cards(fields, trained.count)
            second_tight = (
                grows
                and again.verdict == "tight"
                and any(more_cards(other.request, trained.count) for other in results)
            )
            if not second_tight and not any(_dominates(one, fields, required) for one in results):
                one = Suggestion(
                    change=change,
                    verdict=again.verdict,
                    required_bytes=required,
                    request=dict(fields),
                )
                results.append(one)
                fitting += [one] if one.verdict == "fits" else []
            if len(fitting) == MOST_SUGGESTIONS or (again.verdict == "fits" and grows):
                break
        results.sort(key=lambda suggestion: suggestion.verdict != "fits")
        return results[:MOST_SUGGESTIONS]

    def _candidates(self) -> Iterator[tuple[str, Fields]]:
        trained = self.trained
        if trained.workload.framework == "megatron" and trained.setup.algorithm == "sft":
            yield from degrees_that_fit(
                self.spec, trained.workload, self.profile, self.accelerator, trained.count
            )
        yield from candidates(
            trained.workload, trained.setup, trained.count, mixture=experts(self.spec) > 0
        )

    def _estimate_with(self, fields: Fields) -> TrainingEstimate | None:
        """Return the estimate with some fields changed; None where they are impossible."""
        changed = structs.replace(self.request, **fields)
        try:
            return self.estimate(changed, changed.gpu_count or self.trained.count)
        except IMPOSSIBLE:
            return None

    def _supported(self, refused: Refusal) -> list[Suggestion]:
        """Return what the GPU can run instead, whether it fits or not."""
        fields: Fields = {refused.field: refused.value}
        again = self._estimate_with(fields)
        if again is None:
            return []
        verdict: Verdict | Literal["unsupported"] = (
            again.verdict if refusal(again.workload, self.accelerator) is None else "unsupported"
        )
        return [
            Suggestion(
                change=f"use {refused.field} {refused.value}",
                verdict=verdict,
                required_bytes=again.fullest.required.expected,
                request=fields,
            )
        ]


def _dominates(other: Suggestion, fields: Fields, required: int) -> bool:
    """Return whether another suggestion fits in as few bytes with a part of these changes."""
    return (
        other.verdict == "fits"
        and other.required_bytes <= required
        and other.request.items() <= fields.items()
    )
