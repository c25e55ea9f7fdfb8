"""Manifests of public repositories (data/SOURCES.tsv): the servers in them, with engine, model,
GPUs and settings as a person reads them there."""

from pathlib import Path

import pytest

from fitgauge.services.manifests.command_line import server_command
from fitgauge.services.manifests.gpus import gpus_of
from fitgauge.services.manifests.reading import read_manifests

DATA = Path(__file__).parent / "data"

SERVERS = {
    "lws-vllm.yaml": [
        ("LeaderWorkerSet/vllm", 24, "vllm", "meta-llama/Llama-3.1-405B-Instruct", 8, 2, []),
    ],
    "lws-sglang.yaml": [
        ("LeaderWorkerSet/sglang", 24, "sglang", "meta-llama/Meta-Llama-3.1-8B-Instruct", 1, 2, []),
    ],
    "lws-two-nodes.yaml": [
        ("LeaderWorkerSet/vllm", 45, "vllm", "deepseek-ai/DeepSeek-R1", 8, 2, ["nvidia-h100-80gb"]),
    ],
    "deployment-vllm.yaml": [
        ("Deployment/vllm-gemma-deployment", 47, "vllm", "google/gemma-3-27b-it", 1, 1,
         ["nvidia-a100-80gb"]),
    ],
    "deployment-tgi.yaml": [
        ("Deployment/llm", 32, "tgi", "meta-llama/Meta-Llama-3-70B-Instruct", 2, 1, ["nvidia-l4"]),
    ],
    "stack-two-models.yaml": [
        ("modelSpec/llama3", 4, "vllm", "meta-llama/Llama-3.1-8B-Instruct", 1, 1, []),
        ("modelSpec/mistral", 22, "vllm", "mistralai/Mistral-7B-Instruct-v0.2", 1, 1, []),
    ],
    "stack-tensor-parallel.yaml": [
        ("modelSpec/qwen7b", 23, "vllm", "Qwen/Qwen2.5-7B-Instruct", 2, 1, []),
    ],
    "stack-pipeline.yaml": [
        ("modelSpec/distilgpt2-raycluster", 4, "vllm", "distilbert/distilgpt2", 1, 2, []),
    ],
    "kserve-storage.yaml": [
        ("InferenceService/huggingface-llama2", 9, "vllm", "meta-llama/Llama-2-7b-chat-hf", 1, 1,
         []),
    ],
    "kserve-instance-type.yaml": [
        ("InferenceService/llama-31-8b-instruct", 14, "vllm",
         "s3://${bucket}/models/meta-llama--Meta-Llama-3.1-8B-Instruct", 1, 1, ["g5.8xlarge"]),
    ],
    "kserve-llm.yaml": [
        ("LLMInferenceService/qwen2-7b-instruct-single-no-scheduler", 16, "vllm",
         "Qwen/Qwen2.5-7B-Instruct", 1, 1, []),
    ],
    "ray-service.yaml": [
        ("llm_configs/qwen2.5-7b-instruct", 13, "vllm", "Qwen/Qwen2.5-7B-Instruct", 1, 1, []),
    ],
    "compose-sglang.yaml": [
        ("services/sglang", 14, "sglang", "meta-llama/Meta-Llama-3.1-8B-Instruct", 1, 1, []),
    ],
    "llm-d-prefill-decode.yaml": [
        ("decode/vllm", 31, "vllm", "facebook/opt-125m", 1, 1, []),
        ("prefill/vllm", 70, "vllm", "facebook/opt-125m", 1, 1, []),
    ],
    "helm-output.yaml": [
        ("Deployment/pd-llm-d-modelservice-decode", 71, "vllm", "facebook/opt-125m", 1, 1, []),
        ("Deployment/pd-llm-d-modelservice-prefill", 164, "vllm", "facebook/opt-125m", 1, 1, []),
    ],
    "helm-output-claims.yaml": [
        ("Deployment/dra-llm-d-modelservice-decode", 56, "vllm",
         "meta-llama/Llama-3.1-8B-Instruct", 2, 1, []),
    ],
    "kserve-volume.yaml": [
        ("LLMInferenceService/gpt-oss-20b", 18, "vllm", "RedHatAI/gpt-oss-20b", 1, 1, []),
    ],
    "kubeai-model.yaml": [
        ("Model/llama-3.1-70b-instruct-fp8-h100", 7, "vllm",
         "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8", 2, 1, ["h100"]),
    ],
    "kubeai-ollama.yaml": [
        ("Model/gemma-3-27b-ollama-l4", 7, "ollama", "gemma3:27b", 1, 1, ["l4"]),
    ],
    "kubeai-tpu.yaml": [
        ("Model/llama-3.1-8b-instruct-tpu", 7, "vllm", "meta-llama/Meta-Llama-3.1-8B-Instruct", 4,
         1, ["tpu-v5e"]),
    ],
    "kaito-workspace.yaml": [
        ("Workspace/workspace-llama-3-3-70b-instruct", 34, "vllm", "llama-3.3-70b-instruct", None,
         2, ["Standard_NC48ads_A100_v4"]),
    ],
    "kaito-set.yaml": [
        ("InferenceSet/phi-4-mini", 19, "vllm", "phi-4-mini-instruct", 1, 1, []),
    ],
    "stack-runtime.yaml": [
        ("VLLMRuntime/vllmruntime-sample", 59, "vllm", "meta-llama/Llama-3.1-8B-Instruct", 1, 1,
         []),
    ],
    "nim-cache.yaml": [
        ("NIMService/meta-llama-3-2-1b-instruct", 34, "vllm", "meta-llama/Llama-3.2-1B-Instruct", 1,
         1, []),
    ],
    "ollama-values.yaml": [
        ("ollama/gemma:7b", 21, "ollama", "gemma:7b", 1, 1, []),
        ("ollama/llama2:7b", 22, "ollama", "llama2:7b", 1, 1, []),
    ],
}  # fmt: skip
"""By file: name, line of the command, engine, model, GPUs of a pod, pods of a group, and what the
pod selects that may be a GPU."""

FLAGS = {
    "lws-vllm.yaml": {"tensor_parallel": 8, "pipeline_parallel": 2},
    "lws-sglang.yaml": {"tensor_parallel": 2},
    "lws-two-nodes.yaml": {"tensor_parallel": 8, "pipeline_parallel": 2, "context_length": 4096},
    "deployment-vllm.yaml": {
        "tensor_parallel": 1,
        "context_length": 32768,
        "max_num_seqs": 4,
        "gpu_memory_utilization": 0.95,
    },
    "deployment-tgi.yaml": {"tensor_parallel": 2, "quantization": "bitsandbytes-nf4"},
    "stack-tensor-parallel.yaml": {
        "tensor_parallel": 2,
        "context_length": 8192,
        "gpu_memory_utilization": 0.9,
        "enforce_eager": True,
    },
    "stack-pipeline.yaml": {"tensor_parallel": 1, "pipeline_parallel": 2},
    "kserve-instance-type.yaml": {
        "tensor_parallel": 1,
        "context_length": 1024,
        "gpu_memory_utilization": 0.95,
        "enforce_eager": True,
    },
    "ray-service.yaml": {"context_length": 1024, "gpu_memory_utilization": 0.75},
    "compose-sglang.yaml": {},
    "kubeai-model.yaml": {
        "tensor_parallel": 2,
        "context_length": 65536,
        "max_batched_tokens": 65536,
        "max_num_seqs": 1024,
        "gpu_memory_utilization": 0.9,
    },
    "kaito-workspace.yaml": {
        "pipeline_parallel": 2,
        "context_length": 16384,
        "gpu_memory_utilization": 0.95,
        "cpu_offload_gib": 0,
    },
    "kaito-set.yaml": {"gpu_memory_utilization": 0.84},
    "stack-runtime.yaml": {
        "tensor_parallel": 1,
        "context_length": 4096,
        "max_num_seqs": 32,
        "gpu_memory_utilization": 0.8,
    },
}


def servers(name):
    manifest = read_manifests([DATA.joinpath(name).read_text("utf-8")])[0]
    assert manifest.unreadable is None
    pairs = ((container, server_command(container)) for container in manifest.containers)
    return [
        (container, command, gpus_of(container, manifest.claims))
        for container, command in pairs
        if command is not None
    ]


@pytest.mark.parametrize("name", SERVERS)
def test_each_server_is_read(name):
    assert [
        (
            container.name,
            command.line,
            command.engine.name,
            command.log.model or container.model or command.model,
            gpus.count,
            container.group_size,
            list(gpus.names),
        )
        for container, command, gpus in servers(name)
    ] == SERVERS[name]


@pytest.mark.parametrize("name", FLAGS)
def test_its_settings_are_read(name):
    assert [command.log.flags for _, command, _ in servers(name)] == [FLAGS[name]]


def test_every_manifest_has_a_source_and_an_expectation():
    files = {path.name for path in DATA.glob("*.yaml")}
    rows = DATA.joinpath("SOURCES.tsv").read_text("utf-8").splitlines()
    assert {row.split("\t")[0] for row in rows if not row.startswith("#")} == files == set(SERVERS)


def test_a_flag_may_be_cut_short():
    ((_, command, _),) = servers("helm-output-claims.yaml")
    read = command.log.flags
    assert (read["gpu_memory_utilization"], read["max_batched_tokens"]) == (0.9, 4096)


def test_flags_that_bear_on_memory_and_are_not_read_are_named_with_their_line():
    ((_, command, _),) = servers("helm-output-claims.yaml")
    lines = DATA.joinpath("helm-output-claims.yaml").read_text("utf-8").splitlines()
    named = {note.message.split("`")[1]: lines[note.line - 1] for note in command.notes}
    assert set(named) == {"--disable-sliding-window"}
    assert all(flag in line for flag, line in named.items())
