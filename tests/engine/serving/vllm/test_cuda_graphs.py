"""Batches that vLLM captures as CUDA graphs, by what vLLM's own configuration lists of them."""

import pytest

from fitgauge.catalog import accelerators
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.serving.vllm import cuda_graphs
from fitgauge.engine.serving.vllm.cuda_graphs import captured, captures_more
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of

H100, B200, RTX_5090 = map(
    accelerators.load().get, ("h100-sxm-80gb", "b200-192gb", "rtx-5090-32gb")
)


def workload(sequences: int, drafted: int = 0, version: tuple[int, ...] = (0, 33)) -> Workload:
    return workload_of(
        version=version, tensor_parallel=1, max_num_seqs=sequences, speculative_tokens=drafted
    )


def sizes(
    gpu: Accelerator, sequences: int, drafted: int = 0, version: tuple[int, ...] = (0, 33)
) -> int:
    graphs = captured(workload(sequences, drafted, version), gpu)
    assert graphs is not None
    return graphs.sizes


@pytest.mark.parametrize(
    ("sequences", "drafted", "elsewhere", "blackwell"),
    [
        (16, 0, 7, 7),
        (100, 0, 29, 29),
        (256, 0, 51, 51),
        (300, 0, 52, 57),
        (1024, 0, 51, 83),
        (16, 3, 19, 19),
        (100, 2, 56, 61),
        (256, 7, 51, 83),
        (512, 2, 60, 97),
    ],
)
def test_as_many_batches_are_captured_as_vllm_lists(sequences, drafted, elsewhere, blackwell):
    """Printed by vLLM 0.33's EngineArgs.create_engine_config on fake GPUs of compute capability
    9.0, 12.0 and 10.0."""
    assert sizes(H100, sequences, drafted) == sizes(RTX_5090, sequences, drafted) == elsewhere
    assert sizes(B200, sequences, drafted) == blackwell
    more = captures_more(workload(sequences, drafted), B200)
    assert more == (blackwell - elsewhere > 0)


def test_data_centre_blackwell_captures_no_more_before_0_28():
    assert sizes(B200, 1024, version=(0, 27)) == 51
    assert sizes(B200, 1024, version=(0, 28)) == 83


def test_batches_are_counted_once_for_questions_that_capture_alike():
    cuda_graphs._sizes.cache_clear()
    for sequences in (1024, 512, 1024):
        captured(workload(sequences), H100)
        captured(workload(sequences), RTX_5090)
    assert cuda_graphs._sizes.cache_info().misses == 1
