"""The formula of each training state in words: numbers, format, and over how many ranks."""

from collections.abc import Sequence

from fitgauge.engine.training.states.sharding import ModelState, RankUnit, is_sharded
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy


def state_formulas(
    workload: TrainingWorkload, slices: Sequence[tuple[RankUnit, int]]
) -> dict[str, str]:
    """Return how each state is counted: numbers, format, and over how many ranks."""
    form, ranks = (
        precision_policy(workload),
        workload.data_parallel // workload.data_parallel_replicate * workload.context_parallel,
    )
    trained = sum(count * piece.trained for piece, count in slices)
    weights = (
        f"{sum(count * piece.elements for piece, count in slices)} parameters in {form.weights}"
    )
    if workload.uses_adapters:
        weights = _by_format(slices)

    def over(of: ModelState) -> str:
        return f" over {ranks} ranks" if ranks > 1 and is_sharded(of, workload) else ""

    stepped = sum(count * piece.states.optimizer_states for piece, count in slices) * (
        ranks if is_sharded("states", workload) else 1
    )
    return {
        "weights": f"{weights}{over('weights')}",
        "gradients": f"up to {trained} trained parameters in {form.gradients}{over('gradients')}",
        "master_weights": f"{trained} trained parameters in {form.masters}{over('states')}",
        "optimizer_states": (
            f"{workload.optimizer} of {trained} trained parameters, {stepped / max(1, trained):.5g}"
            f" B each{over('states')}"
        ),
    }


def _by_format(slices: Sequence[tuple[RankUnit, int]]) -> str:
    """Return the numbers in every format that a frozen base and its adapters have, most first."""
    elements: dict[str, int] = {}
    for piece, count in slices:
        for parameter in piece.parameters:
            name = parameter.form.name if parameter.form else parameter.dtype
            name = f"{name} adapters" if parameter.adapter else f"parameters in {name}"
            elements[name] = elements.get(name, 0) + count * parameter.elements
    return " + ".join(
        f"{number} {name}" for name, number in sorted(elements.items(), key=lambda each: -each[1])
    )
