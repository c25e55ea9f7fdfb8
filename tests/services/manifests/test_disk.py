"""What a server downloads, and whether there is room for it."""

import asyncio

import pytest

from fitgauge.commands.manifests import manifest_checker
from fitgauge.services.manifests.service import Source

POD = """apiVersion: v1
kind: Pod
metadata: {{name: chat}}
spec:
  nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
  volumes: [{volumes}]
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.19.0
    args: [{arguments}]
    env: [{env}]
    volumeMounts: [{mounts}]
    resources: {{limits: {{nvidia.com/gpu: 1{limits}}}}}
"""
CLAIM = """---
kind: PersistentVolumeClaim
metadata: {name: weights}
spec: {resources: {requests: {storage: 50Gi}}}
"""
CACHE = "{name: w, mountPath: /root/.cache/huggingface}"
CLAIMED = "{name: w, persistentVolumeClaim: {claimName: weights}}"


@pytest.fixture(scope="session")
def server(questions):
    """Return the answer to a pod that serves Qwen3-32B."""

    def answer(after="", model="Qwen/Qwen3-32B, --max-model-len, 8k", **parts):
        parts = dict.fromkeys(("volumes", "env", "mounts", "limits"), "") | parts
        arguments = parts.pop("arguments", "")
        text = POD.format(arguments=f"--model, {model}{arguments}", **parts) + after
        checked = asyncio.run(manifest_checker(questions).check([Source("a.yaml", text)], {}))
        (one,) = checked.servers
        return one

    return answer


def short_of_disk(server):
    return [remark for remark in server.remarks if remark.rule == "disk"]


PLACES = {
    "empty": {"volumes": "{name: w, emptyDir: {sizeLimit: 50Gi}}", "mounts": CACHE},
    "claim": {"volumes": CLAIMED, "mounts": CACHE, "after": CLAIM},
    "home": {
        "volumes": "{name: w, emptyDir: {sizeLimit: 50Gi}}",
        "env": "{name: HF_HOME, value: /models}",
        "mounts": "{name: w, mountPath: /models}",
    },
    "flag": {
        "volumes": "{name: w, emptyDir: {sizeLimit: 50Gi}}",
        "arguments": ", --download-dir, /disk/a",
        "mounts": "{name: w, mountPath: /disk}",
    },
    "ephemeral": {"limits": ", ephemeral-storage: 50Gi"},
}


@pytest.mark.parametrize("place", PLACES)
def test_weights_larger_than_their_volume_are_reported(server, place):
    answer = server(**PLACES[place])
    assert answer.download_bytes == pytest.approx(61.02 * 2**30, rel=1e-3)
    (remark,) = short_of_disk(answer)
    assert "61.02 GiB" in remark.message
    assert "50.00 GiB" in remark.message
    larger = {name: text.replace("50Gi", "70Gi") for name, text in PLACES[place].items()}
    assert not short_of_disk(server(**larger))


def test_a_stateful_sets_own_claim_counts(server):
    template = "{metadata: {name: w}, spec: {resources: {requests: {storage: 20Gi}}}}"
    after = f"---\nkind: StatefulSet\nspec: {{volumeClaimTemplates: [{template}]}}\n"
    (remark,) = short_of_disk(server(after, mounts=CACHE))
    assert "20.00 GiB" in remark.message
    assert remark.line == 16


@pytest.mark.parametrize(
    "parts",
    [
        {"volumes": CLAIMED, "mounts": CACHE},
        {"volumes": CLAIMED, "mounts": "{name: w, mountPath: /data}",
         "limits": ", ephemeral-storage: 1Gi"},
        {"volumes": "{name: w, hostPath: {path: /mnt}}", "mounts": CACHE},
        {},
    ],
)  # fmt: skip
def test_nothing_is_reported_where_the_room_is_unknown(server, parts):
    assert not short_of_disk(server(**parts))


def test_a_model_that_is_a_path_is_not_downloaded(server):
    answer = server(model="/models/llama, --served-model-name, Qwen/Qwen3-32B",
                    limits=", ephemeral-storage: 1Gi")  # fmt: skip
    assert answer.download_bytes is None
    assert not short_of_disk(answer)
