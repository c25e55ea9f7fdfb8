"""Shared experts on tensor ranks over which a step's tokens are spread, against vLLM 0.33's own
classes: two tensor and two data parallel ranks with expert parallelism, six layers."""

import json

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm.shared_experts import with_whole_shared_experts
from fitgauge.engine.serving.vllm.weights import shard_weights
from fitgauge.engine.weights.rank_bytes import rank_weights
from hunt.draw import MODELS, with_layers
from workloads import workload_of

CONFIGS = {
    row["id"]: row["config"] for row in map(json.loads, MODELS.read_text("utf-8").splitlines())
}
DEGREES = {"tensor_parallel": 2, "data_parallel": 2, "expert_parallel": 4}


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("deepseek-ai/DeepSeek-Coder-V2-Instruct", 12_114_946_048),
        ("deepseek-ai/DeepSeek-V4-Flash", 6_801_928_740),
        ("zai-org/GLM-4.5", 8_679_156_608),
        ("zai-org/GLM-5", 19_193_072_640),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 5_720_197_184),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 2_202_669_568),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 5_700_434_656),
        ("Qwen/Qwen3.5-122B-A10B", 9_873_403_440),
    ],
)
def test_bytes_of_a_rank(model: str, size: int) -> None:
    spec = read_config(with_layers(CONFIGS[model], 6))
    scheme = published(spec) or Scheme(name="bf16")
    whole = with_whole_shared_experts(shard_weights(spec, scheme), spec, workload_of(**DEGREES))
    assert rank_weights(whole, **DEGREES).bytes == pytest.approx(size, rel=1e-4)


def test_experts_of_one_replica_are_divided() -> None:
    spec = read_config(with_layers(CONFIGS["zai-org/GLM-5"], 6))
    sharded = shard_weights(spec, Scheme(name="bf16"))
    alone = workload_of(tensor_parallel=4, expert_parallel=4)
    assert with_whole_shared_experts(sharded, spec, alone) is sharded
