"""Answers to manifests: verdicts, what is short, what is missing, and reports of them."""

import json
from pathlib import Path

import pytest

from deployments import deployment, rules
from fitgauge.services.manifests.markdown import markdown
from fitgauge.services.manifests.sarif import sarif

DATA = Path(__file__).parent / "data"


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


def test_a_context_that_is_assumed_is_said(check):
    text = "services: {a: {image: ollama/ollama, command: serve, post_start: [{command: PULL}]}}"
    (server,) = check(text.replace("PULL", "ollama pull qwen3:8b"), gpu="RTX 3090").servers
    assert [one.message for one in server.remarks] == [
        "No context length is set: 8,192 tokens are checked."
    ]
    (server,) = check(deployment("Qwen/Qwen3-8B, --max-model-len, '4096'")).servers
    assert not any("No context length" in one.message for one in server.remarks)


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


def test_a_connector_that_takes_no_memory_is_no_flag_that_is_left_out(check):
    flag = 'Qwen/Qwen3-0.6B, --kv-transfer-config, \'{"kv_connector": "NAME"}\''
    (server,) = check(deployment(flag.replace("NAME", "NixlConnector"))).servers
    assert "not-read" not in rules(server)
    (server,) = check(deployment(flag.replace("NAME", "P2pNcclConnector"))).servers
    assert "not-read" in rules(server)
