"""What names a manifest's model and GPU, and what is set where nothing does."""

import pytest

from deployments import deployment, rules


def test_of_alternatives_the_gpu_with_the_least_memory_is_checked(check):
    affinity = (
        "      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
        " {nodeSelectorTerms: [{matchExpressions: [{key: nvidia.com/gpu.product, operator: In,"
        " values: [NVIDIA-A100-SXM4-80GB, NVIDIA-L4]}]}]}}}\n"
    )
    text = deployment("Qwen/Qwen3-8B").rpartition("      nodeSelector")[0] + affinity
    (server,) = check(text).servers
    assert server.gpu == "L4"
    assert rules(server) == ["not-read"] or "not-read" in rules(server)


@pytest.mark.parametrize(
    "product, gpu", [("NVIDIA-H100-80GB-HBM3", "h100-80gb"), ("Tesla-T4", "a100-80gb")]
)
def test_a_slice_is_that_of_the_gpu_that_is_named_else_the_least(check, product, gpu):
    (server,) = check(deployment("Qwen/Qwen3-0.6B", 'nvidia.com/mig-1g.10gb: "1"', product)).servers
    assert server.request["gpu"] == f"mig-1g-10gb-{gpu}"


@pytest.mark.parametrize(
    "arguments, model",
    [
        ("--model, /models/Qwen3-8B", "Qwen3-8B"),
        ("--model, /mnt/models, --served-model-name, Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("--model, /root/.cache/hub/models--Qwen--Qwen3-8B/snapshots/x", "Qwen/Qwen3-8B"),
    ],
)
def test_a_model_at_a_path_is_read_from_what_names_it(check, arguments, model):
    (server,) = check(deployment(arguments)).servers
    assert server.request["model"] == model
    assert server.verdict is not None


def test_a_model_that_nothing_names_can_be_set(check):
    text = deployment("--model, /mnt/models")
    (server,) = check(text).servers
    assert (server.verdict, rules(server)) == (None, ["no-answer"])
    (server,) = check(text, model="Qwen/Qwen3-8B").servers
    assert server.verdict is not None


@pytest.mark.parametrize("written", ["/data/converted/hf3-11", "pvc://claim/llm-folder"])
def test_a_path_whose_last_part_is_no_model_can_be_given_one(check, written):
    (server,) = check(deployment(f"--model, {written}")).servers
    assert (server.verdict, rules(server)[0]) == (None, "no-answer")
    assert f"only {written!r}. Use --model." in server.summary
    (server,) = check(deployment(f"--model, {written}"), model="Qwen/Qwen3-8B").servers
    assert server.request["model"] == "Qwen/Qwen3-8B"
    assert server.verdict is not None
    assert "path" not in " ".join(remark.message for remark in server.remarks)


def test_a_path_that_names_a_model_is_not_replaced(check):
    (server,) = check(deployment("--model, /models/Qwen3-8B"), model="Qwen/Qwen3-32B").servers
    assert server.request["model"] == "Qwen3-8B"


def test_a_placeholder_is_no_models_name(check):
    (server,) = check(deployment("--model, '<model-path>'")).servers
    assert server.summary.endswith("only '<model-path>'. Use --model.")


def test_a_gpu_that_nothing_names_can_be_set(check):
    text = deployment("Qwen/Qwen3-8B", product="something")
    (server,) = check(text).servers
    assert (server.verdict, rules(server)) == (None, ["no-answer"])
    (server,) = check(text, gpu="L40S").servers
    assert (server.gpu, server.verdict) == ("L40S", "fits")


def test_what_the_caller_sets_goes_before_the_command(check):
    (server,) = check(deployment("Qwen/Qwen3-8B"), context_length=2048, concurrency=4).servers
    assert (server.request["context_length"], server.request["concurrency"]) == (2048, 4)


def test_a_method_that_names_the_checkpoint_is_read_as_published(check):
    (server,) = check(deployment("Qwen/Qwen3-8B, --quantization, compressed-tensors")).servers
    assert server.verdict is not None
    assert "not-read" in rules(server)


def test_a_gaudi_is_the_smaller_one_where_nothing_names_it(check):
    text = deployment("Qwen/Qwen3-0.6B", "habana.ai/gaudi: 1").replace(
        "      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}\n", ""
    )
    (server,) = check(text).servers
    assert server.gpu == "Gaudi 2"


def test_an_image_of_models_names_one_by_its_tag(check):
    text = """kind: InferenceService
metadata: {name: a}
spec:
  predictor:
    model:
      modelFormat: {name: huggingface}
      storageUri: oci://registry/modelcar-catalog:qwen3-8b
      resources: {limits: {nvidia.com/gpu: 1}}
"""
    (server,) = check(text, gpu="L40S").servers
    assert server.request["model"] == "qwen3-8b"
