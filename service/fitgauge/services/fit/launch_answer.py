"""The launch of an answer: the command of what was judged, where it runs."""

from collections.abc import Iterator

from msgspec import structs

from fitgauge.engine.serving.launch import HEAD
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.schemas import Assumption, Launch
from fitgauge.services.fit.launch import launch, nodes_of
from fitgauge.services.fit.limits import cache_tokens_of
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.workload import serving_workload


def launch_of(checked: FitEstimate) -> Launch | None:
    """Return how to start it, without settings that only repeat the engine's own; None where it
    does not fit or is unsupported."""
    if checked.verdict == "does_not_fit" or checked.refused is not None:
        return None
    query, workload, request = checked.query, checked.workload, checked.request
    for name in ("gpu_memory_utilization", "max_num_seqs", "max_batched_tokens"):
        if getattr(request, name) is not None:
            without = structs.replace(
                request, **{name: None}, tensor_parallel=workload.tensor_parallel
            )
            default = serving_workload(
                without, query.spec, query.accelerator, query.count, query.profile
            )
            if getattr(default, name) == getattr(workload, name):
                request = structs.replace(request, **{name: None})
    is_fixed = checked.estimate.given_pool_bytes is not None
    return launch(
        query.loaded,
        request,
        workload,
        pool_tokens=cache_tokens_of(checked) if is_fixed else None,
        weights=checked.prepared.sharded,
        nodes=nodes_of(workload, query.accelerator),
    )


def nodes_assumed(checked: FitEstimate) -> Iterator[Assumption]:
    """Yield how many machines the GPUs are taken to be in, and how the others are started."""
    over_nodes = ENGINES[checked.workload.engine].over_nodes
    nodes = nodes_of(checked.workload, checked.query.accelerator)
    if over_nodes is None or nodes == 1:
        return
    each = checked.workload.gpus // nodes
    others = over_nodes(checked.workload, nodes).others
    yield Assumption(
        "gpu_count",
        checked.count,
        f"{nodes} machines of {each} GPUs; the command starts the first, at {HEAD}: run it on the"
        f" others {others}.",
    )
