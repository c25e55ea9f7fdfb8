"""What vLLM's logs show of a coefficient, run by run."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from accuracy.quantiles import LOGS, Seen, coefficient, derived, interval, whole
from accuracy.truth import GIB, Run, check, model
from accuracy.vllm_groups import (
    COPIES,
    GROUPS,
    LOGITS_ONLY,
    LOGITS_WARM,
    SAMPLERS,
    SORTED,
    TRITON,
    WARMED,
    Group,
    Versions,
)
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.model.spec import Part
from fitgauge.engine.serving.activations import HALF, layer_width
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.compute_capability import shares_memory
from fitgauge.engine.serving.vllm.defaults import first_engine
from fitgauge.engine.serving.vllm.encoder import images
from fitgauge.engine.serving.vllm.profile_run import stage_bytes, workspace_bytes
from fitgauge.engine.serving.vllm.second_runner import runs_second, sampler_states
from fitgauge.engine.serving.vllm.workspaces import retained_workspace
from fitgauge.errors import FitgaugeError
from fitgauge.services.fit.query import FitEstimate

FLOAT = 4
SHARED = "laptop|wsl|desktop|GB10"


def within(run: Run, versions: Versions) -> bool:
    """Return whether a run's release lies in [first, last)."""
    return run.version is not None and versions[0] <= run.version[:2] < versions[1]


def evidence(
    chosen: Sequence[Run], versions: Versions, shows: Callable[[Run, FitEstimate], float | None]
) -> list[Seen]:
    """Return what the chosen runs show of something, within versions."""
    seen = []
    for run in chosen:
        if run.engine != "vllm" or not {"activations", "need", "kv_tokens"} & set(run.scores):
            continue
        if not within(run, versions) or model(run.question["model"]) is None:
            continue
        try:
            result = check(run)
        except FitgaugeError:
            continue
        value = shows(run, result) if result is not None else None
        if value is not None:
            seen.append(Seen(run, value))
    return seen


def sampler_parts(result: FitEstimate, run: Run) -> tuple[float, float, float]:
    """(bytes of the pass that are neither layers' nor sampler's own, layers' width [bytes],
    logits of one copy [bytes])."""
    spec = spec_of(run)
    work, gpu = result.workload, result.estimate.accelerator
    seen = images(spec, work, first_engine=first_engine(gpu, work.engine_version))
    extra = workspace_bytes(gpu) + stage_bytes(spec, work) + (seen.held if seen else 0)
    row = HALF * work.max_batched_tokens
    width = max(
        (
            layer_width(b, spec.hidden_size, work.tensor_parallel)
            for b in spec.blocks
            if b.part is Part.LANGUAGE
        ),
        default=0,
    )
    return (
        extra,
        row * width,
        FLOAT * min(work.max_num_seqs, work.max_batched_tokens) * spec.vocabulary_size,
    )


def spec_of(run: Run) -> Any:
    """Return the architecture of a run's model."""
    resolved = model(run.question["model"])
    assert resolved is not None
    return resolved.spec


def copies_of_logits(run: Run, result: FitEstimate) -> float | None:
    """(activation peak - what is held beside) / one copy of the logits."""
    measured = run.measured.get("activation_gib")
    extra, _, one = sampler_parts(result, run)
    return None if measured is None else float((measured * GIB - extra - held(run, result)) / one)


def held(run: Run, result: FitEstimate) -> float:
    """Hidden states and experts' workspaces alive while the sampler runs [bytes]."""
    spec, work = spec_of(run), result.workload
    workspaces = (
        retained_workspace(spec, work) if work.engine_version >= releases.WORKSPACES_RETAINED else 0
    )
    return (
        HALF
        * spec.hidden_size
        * (work.max_batched_tokens + min(work.max_num_seqs, work.max_batched_tokens))
        + workspaces
    )


def sampler_rules(run: Run, result: FitEstimate) -> bool:
    """Return whether the sampler's peak is the higher one, both by the copies that the source
    shows."""
    spec, work = spec_of(run), result.workload
    _, width, one = sampler_parts(result, run)
    copies = SAMPLERS[SORTED if within(run, SORTED) else TRITON]["expected"]
    layers = width + COPIES["expected"] * HALF * work.max_batched_tokens * spec.hidden_size
    return bool(copies * one + held(run, result) > layers)


def second(run: Run) -> bool:
    """Return whether vLLM ran it with its second model runner."""
    assert run.version is not None
    group = [group for group in GROUPS if group.since <= run.version[:2]][-1]
    return runs_second(spec_of(run), group.second)


def first_runner(run: Run, result: FitEstimate) -> float | None:
    """Return the copies of the logits in the first model runner, where its sampler ruled."""
    return None if second(run) or not sampler_rules(run, result) else copies_of_logits(run, result)


def copies_of_hidden(run: Run, result: FitEstimate) -> float | None:
    """(activation peak - widest product - what is held beside) / one copy of the hidden states,
    where the layers ruled."""
    measured = run.measured.get("activation_gib")
    towers = any(block.part is Part.VISION for block in spec_of(run).blocks)
    if measured is None or towers or second(run) or sampler_rules(run, result):
        return None
    extra, width, _ = sampler_parts(result, run)
    return float(
        (measured * GIB - extra - width)
        / (HALF * result.workload.max_batched_tokens * spec_of(run).hidden_size)
    )


def process(run: Run, result: FitEstimate) -> float | None:
    """Return what is not PyTorch's on one rank [bytes]; of what was consumed, without the
    sampler's states."""
    if max(result.workload.tensor_parallel, result.workload.pipeline_parallel) > 1:
        return None
    size = non_torch(run)
    if size is None or run.measured.get("non_torch_gib") is not None or not second(run):
        return size
    return max(0.0, size - sampler_states(spec_of(run), result.workload).bytes)


def collectives(baseline: float, symmetric: bool) -> Callable[[Run, FitEstimate], float | None]:
    """Return what ranks hold more than one alone [bytes]; `symmetric`: where GPUs share
    symmetric memory alone."""

    def shows(run: Run, result: FitEstimate) -> float | None:
        several = result.workload.tensor_parallel > 1 and (
            not symmetric or shares_memory(result.estimate.accelerator)
        )
        size = non_torch(run) if several else None
        return None if size is None else max(0.0, size - baseline)

    return shows


def plain_collectives(chosen: Sequence[Run], baseline: float) -> dict[str, Any]:
    """Return what ranks hold more than one alone where GPUs share no symmetric memory [bytes], of
    every release.

    NCCL's buffers do not depend on vLLM's release, so logs that print none tell too; all count,
    as the few differ by GPUs and ranks. Of unified memory the host's part is in what is printed,
    so its logs tell nothing of NCCL."""
    seen = []
    for run in chosen:
        gpu_name = run.question.get("gpu")
        if (
            run.engine != "vllm"
            or (run.question.get("tensor_parallel") or 1) < 2
            or gpu_name is None
        ):
            continue
        accelerator = bundled().find(gpu_name).accelerator
        size = non_torch(run)
        apart = accelerator.vendor == "NVIDIA" and not accelerator.unified_memory
        if size is not None and apart and not shares_memory(accelerator):
            seen.append(Seen(run, max(0.0, size - baseline)))
    return whole(interval(seen))


def context_share(chosen: Sequence[Run]) -> dict[str, Any]:
    """Return what is taken of a GPU before vLLM looks at what is free, as a share of the GPU,
    of every release, where nothing else is on it: no display, no other process, no host."""
    seen = [
        Seen(run, 1 - run.measured["free_at_start_gib"] / run.total_gpu_gib)
        for run in chosen
        if run.engine == "vllm"
        and run.total_gpu_gib
        and run.measured.get("free_at_start_gib")
        and not run.question.get("other_memory_gib")
        and not re.search(SHARED, f"{run.question.get('gpu')} {run.note}", re.IGNORECASE)
    ]
    return interval(seen)


def non_torch(run: Run) -> float | None:
    """Non-torch memory as printed, or what was consumed beyond the weights [bytes]."""
    m = run.measured
    if m.get("non_torch_gib") is not None:
        return float(m["non_torch_gib"] * GIB)
    if m.get("consumed_gib") and m.get("weights_gib"):
        return float((m["consumed_gib"] - m["weights_gib"]) * GIB)
    return None


def graphs(run: Run, result: FitEstimate) -> float | None:
    """Return the estimate of CUDA graphs that vLLM printed [bytes]."""
    value = run.measured.get("graphs_est_gib", run.measured.get("graphs_estimated_gib"))
    return None if value is None else value * GIB


def second_logits(group: Group) -> dict[str, Any] | None:
    """Return the second runner's copies, of releases before and after its warm-up pass (0.28.0,
    0.31.0, 0.32.0 have none, 0.33.0 has)."""
    if group.second == "none":
        return None
    return LOGITS_WARM if group.since >= WARMED else LOGITS_ONLY


def graph_line(seen: list[Seen]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(once, each layer): the line through printed estimates by layers, slope by the median of
    pairwise slopes (Theil and Sen)."""
    points = [(spec_of(one.run).layers, one.value) for one in seen]
    slopes = sorted(
        (y2 - y1) / (x2 - x1)
        for i, (x1, y1) in enumerate(points)
        for x2, y2 in points[i + 1 :]
        if x2 != x1
    )
    slope = max(0.0, slopes[len(slopes) // 2]) if slopes else 0.0
    rest = [Seen(one.run, one.value - slope * spec_of(one.run).layers) for one in seen]
    once = whole(coefficient(rest, derived(2e8, 5e8, 1.1e9, "assumed")))
    each = {
        "low": round(slope),
        "expected": round(slope),
        "high": round(slope),
        "runs": len(seen),
        "source": LOGS,
    }
    return once, each


LATENT_ESTIMATES = {"v030": 1.39, "v066": 1.19, "v067": 1.04}
"""Estimates that vLLM 0.19 printed for models of 27 layers, all of latent attention [GiB]: the only
ones so far, and none of the fit part."""
LATENT_LAYERS = 27


def latent_graphs(once: float) -> dict[str, Any]:
    """Return what a layer of latent attention takes beyond `once`: the median, least and most of
    `LATENT_ESTIMATES`."""
    low, middle, high = sorted(
        (estimate * GIB - once) / LATENT_LAYERS for estimate in LATENT_ESTIMATES.values()
    )
    source = (
        "estimates printed by vLLM 0.19 for DeepSeek-V2-Lite and Kimi-VL (tools/accuracy/"
        "serving.jsonl, v030, v066, v067: held out of the fit), 27 layers each"
    )
    return derived(round(low), round(middle), round(high), source)
