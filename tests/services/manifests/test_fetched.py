"""Models that a pod downloads before its server starts."""

import pytest

from fitgauge.services.manifests.fetched import fetched_model
from fitgauge.services.manifests.reading import read_manifests

POD = """kind: Pod
metadata: {name: chat}
spec:
  initContainers:
  - name: fetch
    image: python
    command: COMMAND
    env: [{name: REPO, value: Qwen/Qwen3-8B}]
  containers:
  - name: vllm
    image: vllm/vllm-openai
    args: [--model, /models/chat]
"""


def fetched(command, path="/models/chat"):
    (container,) = read_manifests([POD.replace("COMMAND", command)])[0].containers
    return fetched_model(container, path)


@pytest.mark.parametrize(
    "command",
    [
        "[hf, download, Qwen/Qwen3-8B, --local-dir, /models/chat]",
        "[huggingface-cli, download, --token, $(HF_TOKEN), Qwen/Qwen3-8B]",
        "[sh, -c, 'pip install x && hf download $REPO --local-dir /models/chat']",
        "[git, clone, 'https://huggingface.co/Qwen/Qwen3-8B', /models/chat]",
        """[python, -c, "snapshot_download(repo_id='Qwen/Qwen3-8B', local_dir='/models')"]""",
        "[modelscope, download, --model, Qwen/Qwen3-8B, --local_dir, /models/chat]",
    ],
)
def test_a_download_names_the_model(command):
    assert fetched(command).model == "Qwen/Qwen3-8B"


def test_one_file_of_a_repository_is_named():
    address = "https://huggingface.co/Qwen/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-Q4_K_M.gguf"
    found = fetched(f"[curl, -L, -o, /models/model.gguf, '{address}']")
    assert (found.model, found.file) == ("Qwen/Qwen3-8B-GGUF", "Qwen3-8B-Q4_K_M.gguf")


def test_of_several_the_one_at_the_path_is_taken_and_none_is_guessed():
    both = (
        "[sh, -c, 'hf download a/b --local-dir /models/b; hf download a/c --local-dir /models/c']"
    )
    assert fetched(both, "/models/c").model == "a/c"
    assert fetched(both, "/elsewhere") is None


def test_other_commands_download_nothing():
    assert fetched("[sh, -c, 'echo download Qwen/Qwen3-8B']") is None
    assert fetched("[hf, download]") is None
