"""More GPUs than a machine holds: the command of the first machine, and what the others run."""

import shlex

import pytest

from fitgauge.engine.serving.launch import machines
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of


def workload(**degrees: int) -> Workload:
    return workload_of(**degrees)


@pytest.mark.parametrize(
    ("degrees", "node", "count"),
    [
        ({"tensor_parallel": 8}, 8, 1),
        ({"tensor_parallel": 8, "pipeline_parallel": 2}, 8, 2),
        ({"tensor_parallel": 4, "pipeline_parallel": 3}, 8, 3),
        ({"tensor_parallel": 1, "data_parallel": 16}, 8, 2),
        ({"tensor_parallel": 16}, 8, 2),
        ({"tensor_parallel": 8}, 4, 2),
    ],
)
def test_machines_are_of_one_size_and_hold_whole_tensor_groups(degrees, node, count):
    assert machines(workload(**degrees), node) == count


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("vllm", ["--nnodes", "2", "--node-rank", "0", "--master-addr", "HEAD_NODE_IP"]),
        ("sglang", ["--nnodes", "2", "--node-rank", "0", "--dist-init-addr", "HEAD_NODE_IP:20000"]),
    ],
)
def test_the_command_spans_two_machines(check_fit, engine, flags):
    answer = check_fit(model="deepseek-ai/DeepSeek-V3", gpu="16x H100", engine=engine)
    command = shlex.split(answer.launch.command)
    start = command.index("--nnodes")
    assert command[start : start + len(flags)] == flags
    assert answer.launch.nodes == 2
    assert answer.launch.placeholder == "HEAD_NODE_IP"
    (note,) = [one for one in answer.assumed if one.field == "gpu_count"]
    assert note.value == 16
    assert "2 machines of 8 GPUs" in note.message


def test_one_machine_needs_no_flag(check_fit):
    answer = check_fit(model="deepseek-ai/DeepSeek-V3", gpu="8x H200")
    assert answer.launch.nodes == 1
    assert answer.launch.placeholder is None
    assert "--nnodes" not in answer.launch.command
    assert not [one for one in answer.assumed if one.field == "gpu_count"]


def test_an_unknown_checkpoint_over_two_machines_has_both_placeholders(check_fit):
    asked = {"model": "moonshotai/Kimi-K2-Instruct", "quantization": "gptq_int8"}
    answer = check_fit(gpu="16x H200", engine="vllm", **asked)
    assert answer.launch.nodes == 2
    checkpoint, _, address = answer.launch.placeholder.partition(" and ")
    assert f"'{checkpoint}'" in answer.launch.command
    assert address == "HEAD_NODE_IP"


def test_before_vllm_spanned_machines_itself_ray_does(check_fit):
    answer = check_fit(model="deepseek-ai/DeepSeek-V3", gpu="16x H100", engine_version="0.10")
    assert "--distributed-executor-backend ray" in answer.launch.command
    assert "--nnodes" not in answer.launch.command


def test_sparks_are_added_one_machine_at_a_time(check_fit):
    model = "meta-llama/Llama-3.3-70B-Instruct"
    alone = check_fit(model=model, gpu="DGX Spark", settings="auto")
    assert (alone.verdict, alone.limits.min_gpu_count) == ("does_not_fit", 2)
    assert any(one.change == "take 2 GPUs" for one in alone.suggestions)
    both = check_fit(model=model, gpu="2x DGX Spark", settings="auto")
    assert both.verdict == "fits"
    assert "--nnodes 2 --node-rank 0" in both.launch.command
