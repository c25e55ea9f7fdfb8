"""Servers that jobs, scripts and units start: their GPUs, models and lines."""

import pytest

SBATCH = """#!/bin/bash
#SBATCH --nodes={NODES}
#SBATCH --{GPUS}
module load cuda
export LENGTH=16384
srun vllm serve Qwen/Qwen3-8B --max-model-len $LENGTH --tensor-parallel-size {COUNT}
"""
SKYPILOT = """name: chat
resources: {{accelerators: {GPUS}, cloud: gcp}}
envs: {{MODEL: Qwen/Qwen3-8B}}
run: |
  vllm serve $MODEL --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE --max-model-len 8192
"""
UNIT = """[Service]
Environment=HF_HOME=/data LENGTH=4096
ExecStart=-/usr/local/bin/llama-server -hf bartowski/Qwen2.5-32B-Instruct-GGUF:Q4_K_M \\
    -c $LENGTH -ngl 99
"""
QUADLET = """[Container]
Image=docker.io/vllm/vllm-openai:v0.11.0
Exec=--model openai/gpt-oss-20b --max-model-len 32768
"""
NOMAD = """job "chat" {
  group "g" {
    task "serve" {
      driver = "docker"
      config {
        image = "vllm/vllm-openai:v0.11.0"
        args  = ["--model", "Qwen/Qwen3-8B",
                 "--max-model-len", "16384", "-tp", "2"]
      }
      resources { device "nvidia/gpu/A100-SXM4-80GB" { count = 2 } }
    }
    task "sidecar" { config { image = "nginx" } }
  }
}
"""
RUNAI = """apiVersion: run.ai/v2alpha1
kind: InferenceWorkload
metadata: {name: chat}
spec:
  image: {value: "vllm/vllm-openai:v0.11.0"}
  arguments: {value: "--model $MODEL --max-model-len 16384 -tp 2"}
  environment: {items: {MODEL: {value: Qwen/Qwen3-8B}}}
  gpu: {value: "2"}
  nodeType: {value: A100-80GB}
"""
FOLLOWERS = """kind: Job
spec:
  tasks:
  - &pod
    template:
      spec:
        containers:
        - command: [sglang, serve, --model, deepseek-ai/DeepSeek-R1, --tp, "16",
                    --node-rank, "0"]
          resources: {limits: {nvidia.com/gpu: 8}}
  - template:
      spec:
        containers:
        - command: [sglang, serve, --model, deepseek-ai/DeepSeek-R1, --tp, "16",
                    --node-rank, "1"]
          resources: {limits: {nvidia.com/gpu: 8}}
"""
WORKFLOW = """kind: WorkflowTemplate
spec:
  templates:
  - nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
    container:
      image: vllm/vllm-openai:v0.11.0
      command: [vllm, serve, Qwen/Qwen3-8B, -tp, "2"]
      args: ["--max-model-len=16384"]
      resources: {limits: {nvidia.com/gpu: 2}}
"""
PIPELINE = """kind: NIMPipeline
spec:
  services:
  - name: chat
    spec:
      image: {repository: nvcr.io/nim/meta/llama-3.1-8b-instruct, tag: 1.3.3}
      resources: {limits: {nvidia.com/gpu: 1}}
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-A10}
      env: [{name: NIM_MAX_MODEL_LEN, value: "16384"}]
  - name: other
    enabled: false
    spec: {image: {repository: nvcr.io/nim/meta/llama-3.1-8b-instruct}}
"""


@pytest.mark.parametrize(
    ("gpus", "nodes", "count"),
    [("gres=gpu:h100:2", 1, 2), ("gpus-per-node=h100:2", 2, 4), ("gpus=h100:4", 2, 4)],
)
def test_a_batch_script_counts_its_gpus(check, gpus, nodes, count):
    (server,) = check(SBATCH.format(GPUS=gpus, NODES=nodes, COUNT=count)).servers
    assert (server.gpu, server.gpu_count, server.line) == ("H100 SXM", count, 6)
    assert server.request["context_length"] == 16384


def test_variables_of_slurm_are_those_of_the_batch_script(check):
    count = "$SLURM_GPUS_ON_NODE --pipeline-parallel-size $SLURM_NNODES"
    text = SBATCH.format(GPUS="gpus-per-node=h100:4", NODES=2, COUNT=count)
    request = check(text).servers[0].request
    assert (request["tensor_parallel"], request["pipeline_parallel"]) == (4, 2)


def test_a_batch_script_without_a_gpus_name_takes_the_callers(check):
    text = SBATCH.format(GPUS="gres=gpu:2", NODES=1, COUNT=2)
    (server,) = check(text, gpu="L40S").servers
    assert (server.gpu, server.gpu_count) == ("L40S", 2)
    assert "--gpu" in check(text).summary


def test_a_script_starts_containers_with_its_gpus(check):
    text = (
        "#!/bin/sh\n#SBATCH --gres=gpu:l4:1\n"
        "docker run --gpus all vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B\n"
    )
    (server,) = check(text).servers
    assert (server.request["model"], server.gpu, server.line) == ("Qwen/Qwen3-8B", "L4", 3)


def test_a_script_that_trains_starts_no_server(check):
    answer = check("#!/bin/sh\n#SBATCH --gres=gpu:a100:8\nsrun torchrun train.py\n")
    assert (answer.servers, answer.others[0].name) == ([], "script")


@pytest.mark.parametrize(
    ("written", "gpu", "count"),
    [
        ("A100-80GB:4", "A100 80GB SXM", 4),
        ("{L4: 2}", "L4", 2),
        ("[A100, H100]", "A100 40GB SXM", 1),
        ("null, any_of: [{accelerators: 'L40S:4'}, {accelerators: H100}]", "L40S", 4),
    ],
)
def test_a_task_of_skypilot_names_its_accelerators(check, written, gpu, count):
    (server,) = check(SKYPILOT.format(GPUS=written)).servers
    assert (server.name, server.request["model"]) == ("task/chat", "Qwen/Qwen3-8B")
    assert (server.gpu, server.gpu_count) == (gpu, count)
    assert server.request.get("tensor_parallel", 1) == count


@pytest.mark.parametrize("nodes", ["²", "9" * 5000, "two", "-1"])
def test_a_number_of_nodes_that_is_none_is_one(check, nodes):
    (server,) = check(SKYPILOT.format(GPUS="L4:2") + f"num_nodes: {nodes}\n").servers
    assert server.request["gpu_count"] == 2


def test_a_unit_starts_its_command_with_its_variables(check):
    (server,) = check(UNIT, gpu="RTX 4090").servers
    assert (server.verdict, server.line) == ("fits", 3)
    assert server.request["context_length"] == 4096
    assert "Q4_K_M" in check(UNIT).summary


def test_a_unit_of_podman_starts_its_image(check):
    (server,) = check(QUADLET, gpu="L4").servers
    assert (server.request["model"], server.request["context_length"]) == (
        "openai/gpt-oss-20b",
        32768,
    )


def test_a_pipeline_of_nim_holds_services(check):
    (server,) = check(PIPELINE).servers
    assert (server.name, server.gpu) == ("NIMPipeline/chat", "A10")
    assert server.request["context_length"] == 16384


def test_values_of_a_plain_chart_are_a_container(check):
    text = """image: {repository: vllm/vllm-openai, tag: v0.11.0, command: [vllm, serve, "7b"]}
resources: {limits: {nvidia.com/gpu: 1}}
nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
"""
    (server,) = check(text, model="Qwen/Qwen3-8B").servers
    assert (server.gpu, server.request["engine_version"]) == ("L4", "0.11.0")
    assert check("image: {repository: postgres, command: [vllm-metrics]}\n").servers == []


@pytest.mark.parametrize("text", [NOMAD, RUNAI, WORKFLOW])
def test_jobs_of_other_schedulers_are_read(check, text):
    (server,) = check(text).servers
    assert (server.gpu, server.gpu_count) == ("A100 80GB SXM", 2)
    assert server.request["model"] == "Qwen/Qwen3-8B"
    assert server.request["context_length"] == 16384
    assert server.verdict == "fits"


def test_further_nodes_of_a_server_are_not_servers(check):
    (server,) = check(FOLLOWERS, gpu="H200").servers
    assert server.gpu_count == 16


def test_a_batch_of_requests_is_judged_as_a_server(check):
    text = "vllm run-batch -i in.jsonl -o out.jsonl --model Qwen/Qwen3-8B --max-model-len 8192"
    (server,) = check(text, gpu="A10G").servers
    assert server.verdict == "fits"
    assert not [one for one in server.remarks if "not read" in one.message]


def test_a_task_of_skypilot_says_which_gpus_it_accepts_besides(check):
    (server,) = check(SKYPILOT.format(GPUS="{L4: 2, A10G: 2, T4: 4}")).servers
    assert [one.message for one in server.remarks] == [
        "The first GPU that the task accepts is checked alone, without A10G, T4."
    ]
    assert check(SKYPILOT.format(GPUS="L4")).servers[0].remarks == []


def test_a_task_of_nomad_may_hold_its_device_to_a_model(check):
    device = """device "nvidia/gpu" {
        count = 2
        constraint {
          attribute = "${device.model}"
          value     = "NVIDIA L40S"
        }
      }"""
    named = NOMAD.replace('device "nvidia/gpu/A100-SXM4-80GB" { count = 2 }', device)
    (server,) = check(named).servers
    assert (server.gpu, server.gpu_count) == ("L40S", 2)


def test_a_command_of_ollama_is_read_with_the_variables_before_it(check):
    text = "OLLAMA_CONTEXT_LENGTH=32768 OLLAMA_NUM_PARALLEL=2 ollama run qwen3:8b"
    (server,) = check(text, gpu="RTX 4090").servers
    request = server.request
    assert (request["model"], request["engine"]) == ("qwen3:8b", "ollama")
    assert (request["context_length"], request["concurrency"]) == (32768, 2)


def test_a_modelfile_runs_its_base_with_its_context(check):
    text = "# chat\nFROM qwen3:14b\nPARAMETER num_ctx 16384\nPARAMETER num_gpu 30\n"
    (server,) = check(text, gpu="RTX 4090").servers
    assert (server.request["model"], server.request["engine"]) == ("qwen3:14b", "ollama")
    assert (server.request["context_length"], server.line) == (16384, 2)
    assert [one.line for one in server.remarks if "num_gpu" in one.message] == [4]
    assert check("FROM python:3.11\nRUN pip install vllm\n").servers == []


def test_a_file_of_python_is_said_not_to_be_read(check):
    answer = check("import modal\n\nCOMMAND = {'vllm serve': [\n")
    (remark,) = answer.unreadable.values()
    assert remark.message.startswith("Python is not read")


def test_the_artifacts_of_a_model_service_may_be_an_address(check):
    text = """modelArtifacts: {uri: "hf://Qwen/Qwen3-8B"}
decode:
  create: true
  containers: [{name: vllm, image: "ghcr.io/llm-d/llm-d-cuda:v0.3.0", modelCommand: vllmServe}]
"""
    assert check(text, gpu="H100").servers[0].request["model"] == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    "resource",
    [
        "kind: HelmRelease\nspec:\n  values: ",
        "kind: Application\nspec:\n  source:\n    helm:\n      valuesObject: ",
    ],
)
def test_the_values_of_a_chart_may_lie_in_what_installs_it(check, resource):
    values = (
        "{ollama: {gpu: {enabled: true, type: nvidia, number: 1}, models: {run: ['qwen3:14b']}},"
        " nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}}"
    )
    (server,) = check(resource + values).servers
    assert (server.request["model"], server.gpu) == ("qwen3:14b", "L4")


def test_a_server_that_is_not_known_is_named_where_it_takes_a_gpu(check):
    devices = "{reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}"
    service = f"{{image: openmmlab/lmdeploy, deploy: {{resources: {devices}}}}}"
    (other,) = check(f"services: {{chat: {service}}}").others
    assert "openmmlab/lmdeploy" in other.remark.message
