"""What a manifest says of memory: a pod's limit, its shared memory, ranks and GPUs."""

from pathlib import Path

import pytest

from deployments import deployment, rules

DATA = Path(__file__).parent / "data"


def test_more_ranks_than_gpus_do_not_fit(check):
    (server,) = check(deployment("Qwen/Qwen3-8B, -tp, '4'", 'nvidia.com/gpu: "2"')).servers
    assert server.verdict == "does_not_fit"
    assert rules(server)[0] == "too-few-gpus"


def test_the_ranks_of_servers_over_several_machines_are_not_counted(check):
    (server,) = check(
        deployment("Qwen/Qwen3-8B, -tp, '4', --distributed-executor-backend, ray")
    ).servers
    assert "too-few-gpus" not in rules(server)


def test_ranks_of_several_gpus_need_shared_memory(check):
    (server,) = check(deployment("Qwen/Qwen3-8B, -tp, '2'", 'nvidia.com/gpu: "2"')).servers
    assert "shared-memory" in rules(server)
    (server,) = check(deployment("Qwen/Qwen3-8B")).servers
    assert "shared-memory" not in rules(server)


@pytest.mark.parametrize(
    "size, rules_of_it", [("64m", ["shared-memory"]), ("8gb", []), ("1073741824", [])]
)
def test_sizes_of_compose_are_of_1024(check, size, rules_of_it):
    text = (
        "services:\n  a:\n    image: vllm/vllm-openai\n"
        f"    command: Qwen/Qwen3-8B -tp 2 --max-model-len 8192\n    shm_size: {size}\n"
    )
    (server,) = check(text, gpu="L40S").servers
    assert rules(server) == rules_of_it


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Qwen/Qwen3-8B -tp 2",
        "applications:\n- import_path: ray.serve.llm:build_openai_app\n  args:\n    llm_configs:\n"
        "    - model_loading_config: {model_id: Qwen/Qwen3-8B}\n"
        "      engine_kwargs: {tensor_parallel_size: 2}\n",
        "kind: RayCluster\nspec:\n  workerGroupSpecs:\n  - template:\n      spec:\n"
        "        containers:\n"
        "        - image: vllm/vllm-openai\n          args: [Qwen/Qwen3-8B, -tp, '2']\n"
        "          resources: {limits: {nvidia.com/gpu: 2}}\n",
        "kind: InferenceService\nspec:\n  predictor:\n    model:\n"
        "      modelFormat: {name: huggingface}\n"
        "      args: [--model_id=Qwen/Qwen3-8B, --tensor-parallel-size=2]\n"
        "      resources: {limits: {nvidia.com/gpu: 2}}\n",
    ],
)
def test_shared_memory_that_the_manifest_does_not_tell_is_no_matter(check, text):
    (server,) = check(text, gpu="L40S").servers
    assert (server.gpu_count, rules(server)) == (2, [])


@pytest.mark.parametrize(
    "flag, verdict",
    [
        ("--n-cpu-moe 36", "fits"),
        ("--n-cpu-moe 4", "does_not_fit"),
        ("--cpu-moe", "fits"),
        ("-ot exps=CPU", "fits"),
        ("-ot ffn_up_exps=CPU", None),
        ("-ngl 12", "fits"),
        ("-ngl 20", "does_not_fit"),
        ("-ngl 37", "does_not_fit"),
        ("-ngl all", "does_not_fit"),
    ],
)
def test_weights_of_stated_layers_in_host_memory_are_judged(check, flag, verdict):
    text = f"llama-server -hf ggml-org/gpt-oss-120b-GGUF -c 32768 {flag}"
    (server,) = check(text, gpu="RTX 4090").servers
    assert server.verdict == verdict
    assert ("--cpu-offload-gib" in server.summary) == (verdict is None)
    (offloaded,) = check(text, gpu="RTX 4090", cpu_offload_gib=50).servers
    assert offloaded.verdict == "fits"


def test_an_engine_of_one_process_needs_no_shared_memory(check):
    text = (
        "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-cuda\n"
        "    command: -hf Qwen/Qwen3-8B-GGUF:Q8_0 -c 8192\n    gpus: [{count: 2}]\n"
    )
    (server,) = check(text, gpu="RTX 4090").servers
    assert (server.verdict, server.gpu_count, rules(server)) == ("fits", 2, [])


def test_a_mounted_volume_is_shared_memory(check):
    answer = check(DATA.joinpath("lws-two-nodes.yaml").read_text("utf-8"))
    assert [rules(server) for server in answer.servers] == [[]]
    assert [server.gpu_count for server in answer.servers] == [16]


def test_weights_in_host_memory_stay_within_the_limit(check):
    arguments = "Qwen/Qwen3-32B, --max-model-len, '8192', --cpu-offload-gb, '50'"
    (server,) = check(deployment(arguments, "nvidia.com/gpu: 1, memory: 16Gi")).servers
    assert server.verdict == "does_not_fit"
    assert rules(server)[0] == "does-not-fit"
    assert server.request["host_memory_gib"] == 16


def test_gpus_that_a_command_leaves_unused_are_said_where_memory_is_short(check):
    short = deployment("google/gemma-3-12b-it, --max-model-len, '8192'", 'nvidia.com/gpu: "2"')
    (server,) = check(short).servers
    assert server.verdict == "does_not_fit"
    assert "asks for 2 GPUs, the command uses 1" in server.summary
    (server,) = check(deployment("Qwen/Qwen3-0.6B", 'nvidia.com/gpu: "2"')).servers
    assert "the command uses" not in server.summary


def test_the_server_of_kserve_divides_a_model_over_all_its_gpus(check):
    text = """kind: InferenceService
spec:
  predictor:
    model:
      modelFormat: {name: huggingface}
      args: [--model_id=Qwen/Qwen3-8B]
      resources: {limits: {nvidia.com/gpu: 2}}
"""
    (server,) = check(text, gpu="L4").servers
    assert server.gpu_count == 2


@pytest.mark.parametrize(
    ("model", "form", "verdict"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "awq", "unsupported"),
        ("Qwen/Qwen3-8B", "gptq", "unsupported"),
        ("Qwen/Qwen3-8B", "fp8", "fits"),
        ("Qwen/Qwen3-8B-AWQ", "awq", "fits"),
        ("/models/Qwen3-8B", "awq", "fits"),
    ],
)
def test_a_format_that_the_named_repository_does_not_hold_is_not_loaded(
    check, model, form, verdict
):
    arguments = f"--model, {model}, --quantization, {form}, --max-model-len, '8192'"
    (server,) = check(deployment(arguments, product="NVIDIA-H100-80GB-HBM3")).servers
    assert server.verdict == verdict
    assert ("refuses to load" in server.summary) == (verdict == "unsupported")
