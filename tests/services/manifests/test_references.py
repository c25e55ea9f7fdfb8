"""What manifests name elsewhere: ConfigMaps with variables, scripts and files."""

import pytest

from fitgauge.services.manifests.command_line import server_command
from fitgauge.services.manifests.reading import read_manifests

CONFIG = """kind: ConfigMap
metadata: {name: settings}
data:
  MODEL: Qwen/Qwen3-8B
  start.sh: |
    #!/bin/bash
    MODEL=Qwen/Qwen3-14B
    exec vllm serve $MODEL \\
      --max-model-len 4096
"""
POD = """kind: Pod
metadata: {name: chat}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai
    COMMAND
    volumeMounts: [{name: scripts, mountPath: /scripts}]
  volumes: [{name: scripts, configMap: {name: settings}}]
"""
VARIABLE = 'args: ["--model", "$(MODEL)"]\n    '
FROM_ALL = f"{VARIABLE}envFrom: [{{configMapRef: {{name: settings}}}}]"
KEY = "{name: MODEL, valueFrom: {configMapKeyRef: {name: settings, key: MODEL}}}"
FROM_KEY = f"{VARIABLE}env: [{KEY}]"


def command(text):
    (container,) = read_manifests([text])[0].containers
    return server_command(container)


@pytest.mark.parametrize("start", [FROM_ALL, FROM_KEY])
def test_variables_of_a_config_map_are_filled_in(start):
    found = command(CONFIG + "---\n" + POD.replace("COMMAND", start))
    assert found.model == "Qwen/Qwen3-8B"


def test_a_prefix_is_part_of_the_name():
    start = FROM_ALL.replace("$(MODEL)", "$(A_MODEL)").replace("[{config", "[{prefix: A_, config")
    assert command(CONFIG + "---\n" + POD.replace("COMMAND", start)).model == "Qwen/Qwen3-8B"


def test_a_variable_of_its_own_goes_before_one_of_a_config_map():
    start = FROM_ALL + "\n    env: [{name: MODEL, value: Qwen/Qwen3-4B}]"
    assert command(CONFIG + "---\n" + POD.replace("COMMAND", start)).model == "Qwen/Qwen3-4B"


@pytest.mark.parametrize(
    "start", ["command: [bash, /scripts/start.sh]", "command: [/scripts/start.sh]"]
)
def test_a_script_of_a_config_map_is_read_where_it_is_mounted(start):
    text = CONFIG + "---\n" + POD.replace("COMMAND", start)
    found = command(text)
    assert (found.model, found.log.flags["context_length"]) == ("Qwen/Qwen3-14B", 4096)
    assert text.splitlines()[found.line - 1].strip().startswith("exec vllm serve")


def test_a_file_may_be_mounted_alone_or_under_another_name():
    pod = POD.replace("COMMAND", "command: [/run.sh]").replace(
        "mountPath: /scripts", "mountPath: /run.sh, subPath: start.sh"
    )
    assert command(CONFIG + "---\n" + pod).model == "Qwen/Qwen3-14B"
    pod = POD.replace("COMMAND", "command: [/scripts/go]").replace(
        "{name: settings}}]", "{name: settings, items: [{key: start.sh, path: go}]}}]"
    )
    assert command(CONFIG + "---\n" + pod).model == "Qwen/Qwen3-14B"


def test_objects_of_other_files_are_found_and_their_lines_are_not_taken():
    pod = POD.replace("COMMAND", "command: [/scripts/start.sh]")
    one, _ = read_manifests([pod, "\n" * 40 + CONFIG])
    found = server_command(one.containers[0])
    assert found.model == "Qwen/Qwen3-14B"
    assert found.line <= len(pod.splitlines())


def test_a_name_that_two_files_have_is_not_guessed():
    pod = POD.replace("COMMAND", FROM_ALL)
    one, *_ = read_manifests([pod, CONFIG, CONFIG.replace("8B", "4B")])
    assert server_command(one.containers[0]).model == "$(MODEL)"
    own, *_ = read_manifests([CONFIG + "---\n" + pod, CONFIG, CONFIG.replace("8B", "4B")])
    assert server_command(own.containers[0]).model == "Qwen/Qwen3-8B"


def test_arguments_in_the_variable_of_an_llm_inference_service_are_read():
    text = """kind: LLMInferenceService
metadata: {name: a}
spec:
  model: {uri: hf://Qwen/Qwen3-8B}
  template:
    containers:
    - name: main
      env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 4096 --max-num-seqs 8"}]
      resources: {limits: {nvidia.com/gpu: 1}}
"""
    assert command(text).log.flags == {"context_length": 4096, "max_num_seqs": 8}


def test_a_config_map_that_names_itself_is_read():
    text = "kind: ConfigMap\nmetadata: {name: a}\ndata:\n  volumes: [{configMap: {name: a}}]\n"
    assert read_manifests([text])[0].containers == ()


def test_a_runtime_of_another_file_is_shown_where_it_is_named():
    runtime = """kind: ClusterServingRuntime
metadata: {name: cuda}
spec: {containers: [{image: vllm/vllm-openai, command: [vllm, serve], args: [--model=/mnt]}]}
"""
    service = """kind: InferenceService
metadata: {name: a}
spec:
  predictor:
    model:
      storageUri: hf://Qwen/Qwen3-4B
      runtime: cuda
"""
    one, _ = read_manifests([service, "\n" * 30 + runtime])
    assert server_command(one.containers[0]).line == 7


SETTINGS = """kind: ConfigMap
metadata: {name: settings}
data:
  vllm.yaml: |
    model: Qwen/Qwen3-8B
    max-model-len: 4096
    max_num_seqs: 8
    enforce-eager: true
    enable-lora: false
    speculative-config: {model: a/b, num_speculative_tokens: 3}
"""
SETTINGS_FILE = 'args: ["--config", "/scripts/vllm.yaml", "--max-model-len", "8192"]'


def test_a_file_of_settings_is_read_and_the_command_goes_before_it():
    found = command(SETTINGS + "---\n" + POD.replace("COMMAND", SETTINGS_FILE))
    assert (found.model, found.notes) == ("Qwen/Qwen3-8B", ())
    assert found.model.line == 5
    assert found.log.flags == {
        "context_length": 8192, "max_num_seqs": 8, "enforce_eager": True,
        "speculative_tokens": 3, "draft_model": "a/b",
    }  # fmt: skip


def test_a_file_of_settings_that_is_nowhere_is_named():
    (note,) = command(POD.replace("COMMAND", SETTINGS_FILE)).notes
    assert note.message == "`--config`: /scripts/vllm.yaml is not read: what it sets is left out."


def test_a_file_of_settings_that_is_no_yaml_is_named():
    broken = SETTINGS.replace("max-model-len: 4096", "max-model-len: [4096")
    found = command(broken + "---\n" + POD.replace("COMMAND", SETTINGS_FILE))
    assert found.model is None
    (note,) = found.notes
    assert note.message.startswith("`--config`")


def test_what_a_file_nests_is_no_flag_of_that_name():
    settings = SETTINGS.partition("    model:")[0] + (
        "    kv_cache_config: {free_gpu_memory_fraction: 0.8, dtype: fp8}\n"
        "    cuda_graph_config: {max_batch_size: 8}\n"
    )
    start = (
        "command: [trtllm-serve, Qwen/Qwen3-8B, --max_batch_size, '64', --extra_llm_api_options,"
        " /scripts/vllm.yaml]"
    )
    found = command(settings + "---\n" + POD.replace("COMMAND", start))
    assert found.log.flags == {
        "max_num_seqs": 64,
        "gpu_memory_utilization": 0.8,
        "kv_cache_dtype": "fp8",
    }
    assert [note.message.split("`")[1] for note in found.notes] == [
        "--cuda_graph_config.max_batch_size"
    ]
