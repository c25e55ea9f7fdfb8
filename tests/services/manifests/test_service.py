"""Answers to manifests: verdicts, what is short, what is missing, and reports of them."""

import json
from pathlib import Path

import pytest

from fitgauge.services.manifests.markdown import markdown
from fitgauge.services.manifests.sarif import sarif

DATA = Path(__file__).parent / "data"
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        args: [ARGS]
        resources:
          limits: {LIMITS}
      nodeSelector: {nvidia.com/gpu.product: PRODUCT}
"""


def deployment(arguments, limits='nvidia.com/gpu: "1"', product="NVIDIA-L4"):
    text = DEPLOYMENT.replace("ARGS", arguments).replace("LIMITS", limits)
    return text.replace("PRODUCT", product)


def rules(server):
    return [remark.rule for remark in server.remarks]


def test_a_server_has_the_verdict_of_its_question(check, check_fit):
    answer = check(deployment("Qwen/Qwen3-8B, --max-model-len, '8192'"))
    (server,) = answer.servers
    fit = check_fit(
        model="Qwen/Qwen3-8B", gpu="L4", engine="vllm", engine_version="0.11.0",
        context_length=8192, tensor_parallel=1,
    )  # fmt: skip
    assert (server.verdict, server.required_bytes) == (
        fit.verdict,
        fit.per_gpu.required_bytes.expected,
    )
    assert (server.gpu, server.gpu_count, server.line) == ("L4", 1, 10)
    assert answer.verdict == fit.verdict


def test_a_context_that_the_engine_fits_by_itself_is_no_maximum(check):
    model = "meta-llama/Llama-3.1-8B-Instruct, --enforce-eager"
    longest, fitted = (
        check(deployment(f"{model}{more}")).servers[0] for more in ("", ", --max-model-len=auto")
    )
    assert (longest.verdict, fitted.verdict) == ("does_not_fit", "fits")
    assert "context_length" not in fitted.request
    assert "takes the longest context that fits" in fitted.remarks[0].message


def test_a_node_of_kaito_divides_the_model_over_its_gpus(check):
    (server,) = check((DATA / "kaito-workspace.yaml").read_text("utf-8")).servers
    assert (server.gpu, server.gpu_count) == ("A100 80GB PCIe", 4)  # two nodes of two
    assert server.request["pipeline_parallel"] == 2


def test_the_first_sentence_says_which_fit(check):
    fits = deployment("Qwen/Qwen3-0.6B, --max-model-len, '4096'")
    not_fit = deployment("Qwen/Qwen3-32B")
    many = check(fits, *[not_fit] * 4).summary
    assert many == (
        "1 of 5 model servers fit; 4 do not fit (Deployment/chat, Deployment/chat, Deployment/chat"
        " and 1 more)."
    )
    one = check(not_fit)
    assert one.summary == one.servers[0].summary
    assert check("kind: Service").summary == "No model server in 1 file."


def test_the_question_can_be_sent_as_it_is(check, check_fit):
    (server,) = check(deployment("Qwen/Qwen3-8B")).servers
    fit = check_fit(**server.request)
    assert fit.verdict == server.verdict
    assert fit.per_gpu.required_bytes.expected == server.required_bytes


def test_without_a_context_the_engine_makes_room_for_the_longest(check):
    (server,) = check(deployment("Qwen/Qwen3-8B")).servers
    assert server.request["context_length"] == 40960


def test_what_does_not_fit_says_what_does(check):
    answer = check(deployment("Qwen/Qwen3-32B, --max-model-len, '8192'"))
    (server,) = answer.servers
    assert answer.verdict == server.verdict == "does_not_fit"
    assert rules(server) == ["does-not-fit"]
    assert any(change.verdict == "fits" for change in server.changes)


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


def test_an_image_that_a_command_line_runs_is_read(check):
    text = (
        "docker run --rm --gpus all -e HF_TOKEN=$HF_TOKEN vllm/vllm-openai:v0.11.0 \\\n"
        "  --model Qwen/Qwen3-8B --max-model-len 8192\n"
    )
    (server,) = check(text, gpu="L40S").servers
    assert (server.verdict, server.request["engine_version"]) == ("fits", "0.11.0")
    assert server.request["context_length"] == 8192


def test_encoders_that_a_release_loads_all_the_same_are_counted(check):
    text = deployment(
        "google/gemma-3-4b-it, --max-model-len, '8192', --limit-mm-per-prompt,"
        """ '{"image":0,"video":0}'"""
    )
    (server,) = check(text).servers
    assert (server.verdict, "language_model_only" in server.request) == ("fits", False)
    assert "encoders" in server.remarks[-1].message


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


def test_a_context_that_is_assumed_is_said(check):
    text = "services: {a: {image: ollama/ollama, command: serve, post_start: [{command: PULL}]}}"
    (server,) = check(text.replace("PULL", "ollama pull qwen3:8b"), gpu="RTX 3090").servers
    assert [one.message for one in server.remarks] == [
        "No context length is set: 8,192 tokens are checked."
    ]
    (server,) = check(deployment("Qwen/Qwen3-8B, --max-model-len, '4096'")).servers
    assert not any("No context length" in one.message for one in server.remarks)


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


def test_weights_in_host_memory_stay_within_the_limit(check):
    arguments = "Qwen/Qwen3-32B, --max-model-len, '8192', --cpu-offload-gb, '50'"
    (server,) = check(deployment(arguments, "nvidia.com/gpu: 1, memory: 16Gi")).servers
    assert server.verdict is None
    assert rules(server)[0] == "no-answer"
    assert server.request["host_memory_gib"] == 16


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


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("--max-modl-len, '8192'", "Did you mean `--max-model-len`?"),
        ("--gpu-memory-utilisation=0.95", "Did you mean `--gpu-memory-utilization`?"),
        ("--tensor-parallel-size, two", "`--tensor-parallel-size`: `two` cannot be read"),
        ("--data-parallel-size-local, '2'", "is not read: the estimate leaves it out."),
    ],
)
def test_a_misspelt_flag_is_told_with_the_one_that_is_meant(check, written, told):
    (server,) = check(deployment(f"Qwen/Qwen3-8B, {written}")).servers
    (said,) = [one.message for one in server.remarks if "estimate leaves it out" in one.message]
    assert told in said
    assert ("Did you mean" in said) == ("Did you mean" in told)


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Qwen/Qwen3-8B --max-model-len 8192",
        "vllm serve Qwen/Qwen3-8B \\\n  --max-model-len 8192\n",
        "/usr/bin/python3 /opt/venv/bin/vllm serve Qwen/Qwen3-8B --max-model-len=8192",
    ],
)
def test_a_command_line_alone_is_a_server(check, text):
    (server,) = check(text, gpu="L4").servers
    assert (server.name, server.engine, server.verdict) == ("command", "vllm", "fits")
    assert server.request["context_length"] == 8192


def test_a_text_that_starts_no_server_is_none(check):
    assert check("we run vllm in production").servers == []


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


def test_the_worst_verdict_is_that_of_all(check):
    fits, fails = deployment("Qwen/Qwen3-0.6B"), deployment("Qwen/Qwen3-32B")
    assert check(fits, fits).verdict == "fits"
    assert check(fits, fails).verdict == "does_not_fit"
    assert check(fits, "image: vllm\na: [").verdict is None
    assert check(fails, "image: vllm\na: [").verdict == "does_not_fit"
    assert check("a: 1").verdict is None


def test_the_template_of_a_chart_is_no_failure(check):
    answer = check(deployment("Qwen/Qwen3-0.6B"), "{{- if .Values.x }}\nimage: vllm\n{{- end }}")
    assert answer.verdict == "fits"
    assert [remark.rule for remark in answer.unreadable.values()] == ["not-read"]


def test_sarif_has_a_result_a_remark(check):
    answer = check(deployment("Qwen/Qwen3-32B"), deployment("Qwen/Qwen3-0.6B"), "image: vllm\na: [")
    log = json.loads(json.dumps(sarif(answer)))
    (run,) = log["runs"]
    names = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert log["version"] == "2.1.0"
    assert [(one["ruleId"], one["level"]) for one in run["results"]] == [
        ("does-not-fit", "error"),
        ("unreadable", "warning"),
    ]
    for one in run["results"]:
        assert names[one["ruleIndex"]] == one["ruleId"]
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "0.yaml"
    assert location["physicalLocation"]["region"]["startLine"] == 10


def test_a_comment_is_a_table_that_no_name_breaks(check):
    text = deployment("Qwen/Qwen3-0.6B").replace("name: chat", "name: 'a|b<c>'")
    lines = markdown(check(text)).splitlines()
    row = next(line for line in lines if line.startswith("| ") and "Qwen3-0.6B" in line)
    assert row.replace("\\|", "").count("|") == 6
    assert "<c>" not in row.replace("\\<", "")


def test_what_asks_for_gpus_and_starts_no_known_server_is_named(check):
    text = deployment("--model-id, BAAI/bge-m3").replace(
        "vllm/vllm-openai:v0.11.0", "ghcr.io/huggingface/text-embeddings-inference:89-1.8"
    )
    answer = check(text)
    (other,) = answer.others
    assert (other.name, other.remark.line) == ("Deployment/chat", 10)
    assert "Text Embeddings Inference is not covered" in other.remark.message
    assert answer.summary == (
        "No model server in 1 file that is known here; Deployment/chat asks for GPUs."
    )
    assert "Deployment/chat asks for 1 GPU" in markdown(answer)
    both = check(text, deployment("Qwen/Qwen3-0.6B, --max-model-len, '4096'"))
    assert both.verdict == "fits"
    assert len(both.others) == 1


def test_servers_that_are_named_alike_are_told_apart(check):
    pod = "containers: [{name: NAME, image: vllm/vllm-openai, args: [--model, Qwen/Qwen3-8B]}]"
    roles = [f"{{template: {{{pod.replace('NAME', name)}}}}}" for name in ("prefill", "decode")]
    answer = check(f"kind: StormService\nmetadata: {{name: a}}\nroles: [{', '.join(roles)}]\n")
    assert [server.name for server in answer.servers] == [
        "StormService/a/prefill",
        "StormService/a/decode",
    ]


def test_a_model_that_the_pod_downloads_is_asked_about_and_has_its_disk(check):
    text = deployment("--model, /m, --max-model-len, '4096'").replace(
        "      nodeSelector",
        "      initContainers:\n"
        "      - {name: get, command: [hf, download, Qwen/Qwen3-0.6B, --local-dir, /m],\n"
        "         volumeMounts: [{name: m, mountPath: /m}]}\n"
        "      volumes: [{name: m, emptyDir: {sizeLimit: 1Gi}}]\n"
        "      nodeSelector",
    )
    (server,) = check(text).servers
    assert (server.verdict, server.request["model"]) == ("fits", "Qwen/Qwen3-0.6B")
    assert server.download_bytes > 10**9
    assert "disk" in rules(server)


DYNAMO = """kind: DynamoGraphDeployment
metadata: {name: graph}
spec:
  services:
    Frontend:
      componentType: frontend
      extraPodSpec: {mainContainer: {image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:0.6.0}}
    VllmPrefillWorker:
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.0
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-8B, --is-prefill-worker]
"""


def test_a_worker_of_dynamo_runs_its_engine(check):
    (worker,) = check(DYNAMO).servers
    assert (worker.engine, worker.request["model"], worker.gpu) == ("vllm", "Qwen/Qwen3-8B", "L40S")


def test_a_nim_is_checked_as_vllm_and_that_is_said(check):
    text = (
        deployment("")
        .replace("        args: []\n", "")
        .replace("vllm/vllm-openai:v0.11.0", "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.3")
    )
    (server,) = check(text).servers
    assert server.request["model"] == "llama-3.1-8b-instruct"
    assert any("NIM chooses engine" in remark.message for remark in server.remarks)
    service = """kind: NIMService
metadata: {name: a}
spec:
  image: {repository: nvcr.io/nim/meta/llama-3.1-8b-instruct, tag: "1.8"}
  env: [{name: NIM_MAX_MODEL_LEN, value: "8192"}]
  resources: {limits: {nvidia.com/gpu: 2}}
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
"""
    (server,) = check(service).servers
    assert (server.gpu_count, server.request["context_length"]) == (2, 8192)


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


def test_a_connector_that_takes_no_memory_is_no_flag_that_is_left_out(check):
    flag = 'Qwen/Qwen3-0.6B, --kv-transfer-config, \'{"kv_connector": "NAME"}\''
    (server,) = check(deployment(flag.replace("NAME", "NixlConnector"))).servers
    assert "not-read" not in rules(server)
    (server,) = check(deployment(flag.replace("NAME", "P2pNcclConnector"))).servers
    assert "not-read" in rules(server)
