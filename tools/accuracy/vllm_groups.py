"""vLLM's profiles: the releases each holds from, and what its source says where no log tells."""

from typing import NamedTuple

from accuracy.quantiles import derived
from fitgauge.engine.serving.profile import SecondRunner

Versions = tuple[tuple[int, int], tuple[int, int]]


class Group(NamedTuple):
    """A profile to write: the release it holds from, and the releases whose logs may tell of
    each coefficient."""

    since: tuple[int, int]
    newest: str
    utilization: float
    sampler: Versions
    process: Versions
    graphs_in_budget: bool
    second: SecondRunner
    second_graphs: bool
    source: str


SORTED, TRITON = ((0, 4), (0, 17)), ((0, 17), (9, 9))
SYMMETRIC = (0, 17)
"""From this profile on, what ranks hold differs by GPUs: symmetric memory is the default
(symm_mem.py of 0.19; logs of 0.11 show none)."""

DENSE_SECOND = "vllm 0.25.0, 0.28.0 config/vllm.py, use_v2_model_runner"
GROUPS = (
    Group(
        (0, 4),
        "0.7.3",
        0.9,
        SORTED,
        SORTED,
        False,
        "none",
        False,
        "vllm 0.6.6 worker/worker.py, determine_num_available_blocks",
    ),
    Group(
        (0, 8),
        "0.16.0",
        0.9,
        SORTED,
        ((0, 8), (0, 17)),
        False,
        "none",
        False,
        "vllm 0.8.5, 0.11.0, 0.14.1 v1/worker/gpu_worker.py",
    ),
    Group(
        (0, 17),
        "0.19.1",
        0.9,
        TRITON,
        ((0, 17), (0, 25)),
        False,
        "none",
        False,
        "vllm 0.17.0, 0.19.0 v1/worker/gpu_worker.py",
    ),
    Group(
        (0, 20),
        "0.20.2",
        0.92,
        TRITON,
        ((0, 17), (0, 25)),
        False,
        "none",
        False,
        "vllm 0.20.0, 0.20.2 config/cache.py",
    ),
    Group(
        (0, 21),
        "0.24.0",
        0.92,
        TRITON,
        ((0, 17), (0, 25)),
        True,
        "none",
        False,
        "vllm 0.25.0 v1/worker/gpu_worker.py",
    ),
    Group((0, 25), "0.28.0", 0.92, TRITON, ((0, 17), (9, 9)), True, "dense", False, DENSE_SECOND),
    Group(
        (0, 29),
        "0.30.0",
        0.92,
        TRITON,
        ((0, 17), (9, 9)),
        True,
        "all",
        True,
        "vllm 0.29.0 config/vllm.py, use_v2_model_runner",
    ),
    Group(
        (0, 31),
        "0.32.0",
        0.92,
        TRITON,
        ((0, 17), (9, 9)),
        True,
        "all",
        True,
        "vllm 0.31.0, 0.32.0 v1/worker/gpu/model_runner.py",
    ),
    Group(
        (0, 33),
        "0.33.0",
        0.92,
        TRITON,
        ((0, 17), (9, 9)),
        True,
        "drafts",
        True,
        "vllm 0.33.0 v1/worker/gpu/model_runner.py",
    ),
)

SAMPLERS = {
    SORTED: derived(
        8.5,
        9.6,
        10.2,
        "v1/sample/ops/topk_topp_sampler.py (0.11): logits, a float32 copy, sorted values, indices,"
        " sort workspace",
    ),
    TRITON: derived(
        3.5,
        3.63,
        4.0,
        "v1/sample/ops/topk_topp_triton.py (0.19): 16-bit and float32 logits, probabilities, noise,"
        " a row a multiprocessor",
    ),
}
LOGITS_ONLY = derived(
    0.5,
    0.5,
    1.6,
    "vllm v1/worker/gpu/model_runner.py, _dummy_sampler_run (0.25, 0.28, 0.32): logits in 16 bits,"
    " in float32 where processed",
)
WARMED = (0, 33)
LOGITS_WARM = derived(
    3.5,
    3.5,
    3.6,
    "vllm v1/worker/gpu/model_runner.py, _dummy_sampler_run (0.33): 16 bits, float32,"
    " FlashInfer's masked logits and probabilities",
)
COPIES = derived(
    3,
    4,
    7,
    "assumed (service/fitgauge/catalog/data/engines.json): residual, normalised input, attention's"
    " output and MLP's output of one layer, 16 bits each",
)

FREE_OF_GB10 = (
    (112.71, 119.7), (114.54, 121.69), (112.9, 121.63), (111.18, 121.63), (110.73, 121.63),
    (109.53, 121.69), (104.87, 121.63), (104.55, 121.63), (104.46, 121.69), (103.02, 121.69),
    (102.79, 121.63), (101.49, 121.63), (101.28, 121.63), (99.33, 121.69),
)  # fmt: skip
"""(free, total) [GiB] of "Free memory on device" lines of GB10 in public repositories, where no
other service is named; most are of starts that were refused, which lack more than the others."""

UNIFIED = {
    "low": 0.058,
    "expected": 0.1,
    "high": 0.165,
    "runs": len(FREE_OF_GB10),
    "source": (
        'public vLLM start-ups on GB10 ("Free memory on device (112.71/119.7 GiB) on startup"),'
        " tools/accuracy/calibrate.py"
    ),
}
"""What is held of unified memory, as a share of it. `expected` is the sixth of the fourteen, as
refused starts are printed more often than the others."""
