"""The rendered Deployment runs: as the kubelet starts it, asks it and stops it."""

import json
import time

import httpx
import pytest

from fitgauge.api.access.api_keys import key_hash, new_key
from helm.kubelet import Pod
from helm.releases import SETS, deployment, rendered
from hub_stand_in import HubStandIn, safetensors_repository
from live.callers import Caller

QUESTION = {"model": "Qwen/Qwen3-8B", "gpu": "H100"}


@pytest.fixture
def started(tmp_path):
    """Provide a function that starts the pod of values; it is killed when the test ends."""
    pods = []

    def start(values, secrets=None, configs=None, **variables):
        objects = rendered(values)
        own = {name: one["data"] for (kind, name), one in objects.items() if kind == "ConfigMap"}
        folder = tmp_path / f"pod-{len(pods)}"
        folder.mkdir()
        pod = Pod(deployment(objects), folder, secrets, {**own, **(configs or {})})
        pods.append(pod)
        pod.start(**variables)
        return pod

    yield start
    for pod in pods:
        pod.kill()


def ask(pod, path="/v1/fit", **headers):
    url = f"http://127.0.0.1:{pod.port}{path}"
    return httpx.post(url, json=QUESTION, headers=headers, trust_env=False, timeout=60)


def test_a_pod_under_load_is_stopped_without_a_lost_request(started):
    pod = started({"hub": {"offline": True}, "preStopSeconds": 1})
    assert pod.probe("livenessProbe")
    assert pod.probe("readinessProbe")
    callers = [Caller(pod.port) for _ in range(10)]
    for caller in callers:
        caller.start()
    while not all(caller.answered > 5 for caller in callers):
        time.sleep(0.01)
    assert pod.stop() == 0
    for caller in callers:
        caller.join(20)
    assert [caller.lost for caller in callers] == [0] * 10
    assert all(caller.told_to_close for caller in callers)
    lines = [json.loads(line) for line in pod.log.read_text().splitlines()]
    assert any(line.get("route") == "/v1/fit" for line in lines)


def test_keys_of_a_secret_let_callers_in(started):
    key = new_key()
    secrets = {"fitgauge-keys": {"keys": f"ci {key_hash(key)}\n"}}
    pod = started(SETS["keys"], secrets, HF_HUB_OFFLINE="1")
    assert ask(pod).status_code == 401
    assert ask(pod, authorization=f"Bearer {key}").json()["verdict"] == "fits"
    assert pod.probe("readinessProbe")


def test_a_closed_pod_behind_a_prefix_is_live_and_ready(started):
    pod = started(SETS["gateway"], HF_HUB_OFFLINE="1")
    assert ask(pod, "/fitgauge/v1/fit").status_code == 401
    assert pod.probe("livenessProbe")
    assert pod.probe("readinessProbe")


def test_keys_of_tokens_own_runs_and_a_catalog_are_files(started):
    run = {"question": {"model": "Qwen/Qwen3-8B", "gpu": "L40S"}, "measured": {}}
    configs = {
        "provider-keys": {"jwks.json": json.dumps({"keys": []})},
        "own-runs": {"runs.jsonl": json.dumps(run)},
    }
    pod = started(SETS["offline"], configs=configs)
    assert pod.mounts["/etc/fitgauge/truth"].joinpath("runs.jsonl").is_file()
    assert ask(pod).json()["verdict"] == "fits"
    assert ask(pod, authorization="Bearer a.b.c").status_code == 401
    sources = httpx.get(f"http://127.0.0.1:{pod.port}/v1/catalog", trust_env=False).text
    assert "own-catalog.json" in sources


def test_a_store_that_is_away_leaves_a_pod_ready(started):
    secrets = {"fitgauge-valkey": {"password": "planted-password"}}
    with HubStandIn(safetensors_repository("acme/tiny")) as hub:
        pod = started(SETS["shared"], secrets, HF_ENDPOINT=hub.url)
        assert pod.environment()["FITGAUGE_SHARED_STATE"] == (
            "valkey://:planted-password@gauge-valkey:6379/0"
        )
        assert ask(pod).status_code == 200
        assert pod.probe("readinessProbe")
    assert "planted-password" not in pod.log.read_text()
