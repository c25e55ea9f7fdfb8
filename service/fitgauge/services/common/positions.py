"""How an answer says that a launch scales a model's rotary positions."""

from collections.abc import Iterator

from fitgauge.engine.model.families.long_contexts import long_context
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.serving.rope_scaling import OPTION
from fitgauge.engine.serving.workload import Workload
from fitgauge.services.common.schemas import Assumption, FitRequest


def scaling_notes(spec: ModelSpec, workload: Workload) -> Iterator[Note]:
    """Yield the warning of a launch that scales positions.

    Source: QwenLM/Qwen3 docs/source/deployment/vllm.md, "Context Length"."""
    if workload.rope_scaling_factor > 1:
        yield Note(
            "positions-scaled",
            OPTION,
            f"The command stretches the {spec.max_context_length:,} positions of the config by"
            " YaRN: the same factor for every request, which may cost quality on short texts.",
        )


def scaling_assumed(
    request: FitRequest, spec: ModelSpec, workload: Workload
) -> Iterator[Assumption]:
    """Yield the factor of a launch whose request sends none."""
    factor = int(workload.rope_scaling_factor)
    if request.rope_scaling_factor is None and factor > 1 and long_context(spec):
        message = (
            f"`{OPTION}` not set: assuming YaRN with factor {factor}, which the publisher states"
            " for this context."
        )
        yield Assumption(OPTION, factor, message)
