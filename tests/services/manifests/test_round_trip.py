"""Manifests that an answer holds are read as the question that they answer."""

import asyncio

import pytest

from fitgauge.commands.manifests import manifest_checker
from fitgauge.services.manifests.service import Source


@pytest.mark.parametrize("document", ["kubernetes", "helm_values"])
@pytest.mark.parametrize(
    "engine, gpu, count",
    [
        ("vllm", "L40S", 2),
        ("sglang", "H100", 1),
        ("tgi", "H100", 2),
        ("tensorrt-llm", "H100", 1),
        ("llama.cpp", "RTX 4090", 1),
    ],
)
def test_a_launch_is_read_back(check_fit, questions, engine, gpu, count, document):
    fit = check_fit(
        model="Qwen/Qwen3-14B", gpu=gpu, gpu_count=count, engine=engine, context_length=16384,
        settings="auto", detail="full",
    )  # fmt: skip
    text = getattr(fit.launch, document)
    if text is None:
        assert (engine, document) not in {("vllm", "kubernetes"), ("vllm", "helm_values")}
        return
    answer = asyncio.run(manifest_checker(questions).check([Source("x.yaml", text)], {}))
    (server,) = answer.servers
    assert [remark.message for remark in server.remarks] == []
    assert (server.engine, server.verdict) == (engine, fit.verdict)
    assert (server.gpu, server.gpu_count) == (fit.gpu.name, fit.gpu.count)
    assert server.request["context_length"] == 16384
    if engine != "llama.cpp":  # its command names a file, whose size is known better
        assert server.required_bytes == fit.per_gpu.required_bytes.expected
