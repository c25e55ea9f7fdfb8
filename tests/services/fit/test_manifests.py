"""Kubernetes manifests and Helm values of an answer run the command that was judged."""

import asyncio
import shlex

import pytest
import yaml
from msgspec import UNSET

from bundled_models import shared_questions
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit import manifests

IMAGES = {
    "vllm": ("vllm/vllm-openai:v0.33.0", 8000),
    "sglang": ("lmsysorg/sglang:v0.5.23", 30000),
    "tensorrt-llm": ("nvcr.io/nvidia/tensorrt-llm/release:1.2.1", 8000),
    "tgi": ("ghcr.io/huggingface/text-generation-inference:3.3.6", 80),
    "llama.cpp": ("ghcr.io/ggml-org/llama.cpp:server-cuda", 8080),
}


def launch(model="Qwen/Qwen3-32B", gpu="4x RTX 4090", **fields):
    request = FitRequest(model=model, gpu=gpu, **{"detail": "full", **fields})
    return asyncio.run(shared_questions().check_fit(request))[1].launch


def resources(**fields):
    return list(yaml.safe_load_all(launch(**fields).kubernetes))


@pytest.mark.parametrize("engine", IMAGES)
def test_a_deployment_runs_the_command_in_the_projects_image(engine):
    fields = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "engine": engine}
    deployment, service = resources(**fields)
    image, port = IMAGES[engine]
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    assert server["image"] == image
    command = shlex.split(launch(**fields).command)
    (line,) = server["args"]
    assert shlex.split(line)[1 : len(command)] == command[1:]
    assert {"containerPort": port} in server["ports"]
    probes = [server[f"{name}Probe"]["httpGet"]["port"] for name in ("startup", "liveness")]
    assert probes == [port, port]
    assert service["spec"]["ports"][0]["targetPort"] == port
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]


def test_it_asks_for_the_gpus_and_for_memory_that_ranks_share():
    deployment, _ = resources()
    pod = deployment["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    assert server["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert server["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory"
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}
    (alone,) = resources(gpu="H100")[0]["spec"]["template"]["spec"]["containers"]
    assert "volumeMounts" not in alone


def test_the_charts_values_give_the_same_flags():
    written = launch()
    values = yaml.safe_load(written.helm_values)
    (spec,) = values["servingEngineSpec"]["modelSpec"]
    config = spec["vllmConfig"]
    flags = [*config["extraArgs"], "--tensor-parallel-size", str(config["tensorParallelSize"])]
    assert ["vllm", "serve", spec["modelURL"], *flags] == shlex.split(written.command)
    assert (spec["repository"], spec["tag"]) == ("vllm/vllm-openai", "v0.33.0")
    assert (spec["requestGPU"], spec["requestGPUType"]) == (4, "nvidia.com/gpu")


def test_the_chart_caches_prefixes_as_the_release_does():
    def caches(version):
        fields = {"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "gpu": "8x H200"}
        values = yaml.safe_load(launch(engine_version=version, **fields).helm_values)
        return values["servingEngineSpec"]["modelSpec"][0]["vllmConfig"]["enablePrefixCaching"]

    assert [caches("0.20.0"), caches("0.33.0")] == [False, True]


@pytest.mark.parametrize(
    "requested,tag", [("0.20.1", "v0.20.1"), ("0.19", "v0.19.1"), ("0.9", "v0.9.0")]
)
def test_the_image_is_of_the_release_that_was_judged(requested, tag):
    deployment, _ = resources(gpu="H200", engine_version=requested)
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    assert server["image"] == f"vllm/vllm-openai:{tag}"


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "Qwen/Qwen3-8B", "gpu": "MI300X"},
        {"model": "deepseek-ai/DeepSeek-V3", "gpu": "16x H100", "engine": "vllm"},
        {"model": "Qwen/Qwen3-8B", "gpu": "H100", "engine": "ollama"},
    ],
    ids=["no image for AMD", "two machines", "no server's image"],
)
def test_it_is_null_where_there_is_nothing_to_apply(fields):
    written = launch(**fields)
    assert (written.kubernetes, written.helm_values) == (None, None)


def test_a_short_answer_has_neither():
    written = launch(detail="summary")
    assert (written.kubernetes, written.helm_values) == (UNSET, UNSET)


@pytest.mark.parametrize(
    "model_id,name",
    [
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("01-ai/4.5-Vision", "model-4-5-vision"),
        ("x/" + "a" * 60, "a" * 40),
        ("x/__", "model"),
    ],
)
def test_a_name_is_one_that_a_service_takes(model_id, name):
    assert manifests.resource_name(model_id) == name


def test_a_text_stays_the_same_text_in_yaml():
    texts = ["no", "1e3", "a: b", "# x", "-", "", '"', "\n", "{}", "v1", "0.0.0.0", "é"]
    value = {text: [{"k": text, "list": []}, text] for text in texts}
    assert yaml.safe_load(manifests.yaml(value)) == value
