"""Tables of n-grams, which vLLM keeps in pinned host memory from 0.30 on, SGLang 0.5.23 too."""

import re

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.errors import InvalidRequestError

MODEL = "Qwen/Qwen3.8-Flash-Next"
TABLE = 16 * 20_000_000 * 160 * 2
"""The table in bf16 [bytes]: of each of 16 heads as many rows as a prime next to 20,000,000."""


def weights(answer) -> int:
    return next(term.bytes for term in answer.terms if term.name == "weights")


@pytest.mark.parametrize("ranks", [4, 8])
def test_the_table_leaves_the_gpus_for_host_memory(check_fit, ranks):
    """vllm 0.30.0 envs.py, VLLM_PLE_CPU_OFFLOAD; before, every rank loads its rows onto its
    GPU."""
    asked = {"model": MODEL, "gpu": f"{ranks}xH200", "quantization": "fp8"}
    before, after = (check_fit(**asked, engine_version=one) for one in ("0.29", "0.30"))
    assert weights(before) - weights(after) == pytest.approx(TABLE / ranks, rel=1e-4)
    assert before.host_memory is None
    assert after.host_memory.per_gpu_bytes == pytest.approx(TABLE / ranks, rel=1e-4)
    assert after.host_memory.total_bytes == ranks * after.host_memory.per_gpu_bytes
    assert "host memory" in after.summary


def test_replicas_of_a_node_share_one_table(check_fit):
    """config/engram.py, resolve_dp_shared_memory."""
    asked = {"model": MODEL, "gpu": "8xH200", "quantization": "fp8", "tensor_parallel": 4}
    answer = check_fit(**asked, data_parallel=2)
    assert answer.host_memory.total_bytes == pytest.approx(TABLE, rel=1e-4)


def test_a_machine_without_memory_for_it_does_not_run_it(check_fit):
    asked = {"model": MODEL, "gpu": "4xH100", "quantization": "fp8"}
    assert check_fit(**asked, host_memory_gib=256).verdict == "fits"
    answer = check_fit(**asked, host_memory_gib=96)
    assert answer.verdict == "unsupported"
    assert "host memory" in answer.summary


def test_where_the_memory_is_one_the_table_stays_counted(check_fit):
    answer = check_fit(model=MODEL, gpu="4xGB10", quantization="nvfp4")
    assert answer.host_memory is None
    assert weights(answer) > TABLE / 4


def test_a_pod_asks_for_the_memory_of_the_table(check_fit):
    asked = {"model": MODEL, "gpu": "4xH100", "quantization": "fp8", "detail": "full"}
    answer = check_fit(**asked)
    sizes = re.findall(r'memory: "(\d+)G', answer.launch.kubernetes)
    assert int(sizes[0]) * 1e9 > TABLE


def test_one_gpu_holds_a_checkpoint_whose_table_is_in_host_memory(check_fit):
    """One of 96 GB serves one in nvfp4, as two posted runs do (v123, v124 of
    tools/accuracy/serving.jsonl)."""
    answer = check_fit(model=MODEL, gpu="RTX PRO 6000", quantization="nvfp4", settings="auto")
    assert answer.verdict == "fits"
    assert answer.limits.min_gpu_count == 1
    assert answer.host_memory.total_bytes > 90 * GIB


def test_sglang_keeps_it_there_too_and_offloads_no_layers_with_it(check_fit):
    """sglang 0.5.23 model_overrides/qwen4_exp.py; memory_hook.py, handle_offload_compatibility."""
    asked = {"model": MODEL, "gpu": "4xH200", "engine": "sglang"}
    answer = check_fit(**asked)
    before = check_fit(**asked, engine_version="0.5.10")
    assert weights(before) - weights(answer) == pytest.approx(TABLE / 4, rel=1e-4)
    assert answer.host_memory.total_bytes == pytest.approx(TABLE, rel=1e-4)
    assert check_fit(**asked, engine_version="0.5.10").host_memory is None
    assert check_fit(**{**asked, "gpu": "4xMI300X"}).host_memory is None
    with pytest.raises(InvalidRequestError):
        check_fit(**asked, cpu_offload_gib=10)
