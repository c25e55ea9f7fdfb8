"""A company's own catalog over HTTP: every question sees it, and it is exchanged without a
restart."""

import json
import logging
import time
from pathlib import Path

import pytest

from fitgauge.app import create_app
from fitgauge.errors import InvalidCatalogError
from fitgauge.settings import Settings
from live import client, every_gpu, serving
from notes import codes

LAB = {
    "id": "lab-x1",
    "name": "Lab X1",
    "vendor": "NVIDIA",
    "marketed_bytes": 48 * 10**9,
    "usable": 47 * 10**9,
    "compute_capability": [8, 9],
}
CONTENTS = {
    "as_of": "2026-11-01",
    "accelerators": [LAB],
    "names": {"ml-large": "4x L40S"},
    "prices": {"lab-x1": 0.6},
    "quotas": {"lab-x1": 2},
}


class Mount:
    """A folder as Kubernetes mounts a ConfigMap: files are links into `..data`, itself a link
    that is set to another folder at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._version = 0
        self.put(CONTENTS)
        (folder / "own.json").symlink_to("..data/own.json")

    def put(self, contents):
        """Put other contents in the place of those that are there."""
        self._version += 1
        version = self.folder / f"..version_{self._version}"
        version.mkdir()
        (version / "own.json").write_text(
            contents if isinstance(contents, str) else json.dumps(contents)
        )
        (self.folder / "..data_tmp").symlink_to(version.name)
        (self.folder / "..data_tmp").replace(self.folder / "..data")


@pytest.fixture
def mount(tmp_path):
    return Mount(tmp_path)


@pytest.fixture
def http(stand_in, mount):
    settings = Settings(log_level="critical", catalog=str(mount.folder), catalog_seconds=0.01)
    with serving(stand_in, settings) as url, client(url) as opened:
        yield opened


def eventually(question, wanted):
    """Return the answer to `question` once it is what is `wanted`; the last one after ten
    seconds."""
    end = time.monotonic() + 10
    while not wanted(answer := question()) and time.monotonic() < end:
        time.sleep(0.01)
    assert wanted(answer), answer
    return answer


def test_every_question_sees_the_own_catalog(http):
    assert http.get("/v1/gpus/lab-x1").json()["usable_bytes"]["expected"] == 47 * 10**9
    assert "lab-x1" in [row["id"] for row in every_gpu(http)]
    named = http.post("/v1/fit", json={"model": "acme/tiny", "gpu": "ml-large"}).json()
    assert named["gpu"]["id"] == "l40s-48gb"
    assert named["gpu"]["count"] == 4
    assert (
        http.post("/v1/training-fit", json={"model": "acme/tiny", "gpu": "lab x1"}).json()["gpu"][
            "id"
        ]
        == "lab-x1"
    )
    table = http.post(
        "/v1/compare", json={"models": "acme/tiny", "gpus": "lab-x1, ml-large"}
    ).json()
    assert [row["gpu_count"] for row in table["items"]] == [1, 4]
    recommended = http.post("/v1/recommend", json={"model": "acme/tiny", "gpus": "lab-x1"}).json()
    assert recommended["options"][0]["gpu"]["id"] == "lab-x1"
    assert (
        http.post("/v1/models-for-gpu", json={"gpu": "lab-x1", "search": "qwen3-8b"}).json()["gpu"][
            "id"
        ]
        == "lab-x1"
    )


def test_a_recommendation_stays_within_the_quota_and_says_so(http):
    question = {
        "model": "acme/large",
        "gpus": "lab-x1",
        "no_quantization": True,
        "context_length": 4096,
    }
    quotas = http.post("/v1/recommend", json={**question, "concurrency": 8, "limit": 1000}).json()
    assert {item["gpu"]["count"] for item in quotas["items"]} <= {1, 2}
    (limited,) = [warning for warning in quotas["warnings"] if warning["code"] == "gpu-quota"]
    assert limited["field"] == "gpus"
    assert "at most 2 x Lab X1" in limited["message"]
    refused = http.post("/v1/recommend", json={**question, "concurrency": 500})
    assert refused.status_code == 422
    assert "Lab X1, the quota is 2" in refused.json()["detail"]


def test_more_cards_than_the_quota_are_warned_of_and_never_suggested(http):
    question = {"model": "acme/large", "gpu": "lab-x1", "context_length": 4096}
    many = http.post("/v1/fit", json={**question, "gpu_count": 4}).json()
    assert ("gpu-quota", "gpu_count") in codes(many["warnings"])
    full = http.post("/v1/fit", json={**question, "concurrency": 300}).json()
    assert full["verdict"] == "does_not_fit"
    assert all(suggestion["request"].get("gpu_count", 1) <= 2 for suggestion in full["suggestions"])


def test_a_change_comes_into_force_without_a_restart_and_old_answers_are_forgotten(http, mount):
    question = {"model": "acme/tiny", "gpu": "ml-large"}
    asked = [http.post("/v1/fit", json=question).json()["gpu"]["count"] for _ in range(2)]
    before = http.get("/v1/catalog").json()
    mount.put({**CONTENTS, "names": {"ml-large": "2x L4"}})
    state = eventually(
        lambda: http.get("/v1/catalog").json(),
        lambda state: state["own"]["sha256"] != before["own"]["sha256"],
    )
    assert state["standing"] == "own"
    changed = eventually(
        lambda: http.post("/v1/fit", json=question).json()["gpu"], lambda gpu: gpu["count"] == 2
    )
    assert changed["id"] == "l4-24gb"
    assert asked == [4, 4]


def test_a_bad_row_leaves_the_catalog_of_before_in_force_and_is_told(http, mount):
    mount.put({**CONTENTS, "quotas": {"lab-x1": -1}})
    state = eventually(
        lambda: http.get("/v1/catalog").json(), lambda state: state["standing"] == "refused"
    )
    detail = state["own"]["refused"]["detail"]
    assert detail == "own.json, line 1: quotas, 'lab-x1': it must be at least 0."
    assert state["quotas"] == {"lab-x1": 2}
    assert http.get("/health/ready").json()["catalog"] == "refused"
    assert "fitgauge_catalog_last_reload_successful 0.0" in http.get("/metrics").text
    assert http.get("/v1/gpus/lab-x1").status_code == 200
    mount.put({**CONTENTS, "quotas": {"lab-x1": 7}})
    mended = eventually(
        lambda: http.get("/v1/catalog").json(), lambda state: state["standing"] == "own"
    )
    assert mended["quotas"] == {"lab-x1": 7}
    assert "fitgauge_catalog_last_reload_successful 1.0" in http.get("/metrics").text


def test_files_that_are_gone_leave_the_catalog_in_force(http, mount):
    (mount.folder / "own.json").unlink()
    eventually(
        lambda: http.get("/health/ready").json(), lambda ready: ready["catalog"] == "refused"
    )
    assert http.get("/v1/gpus/lab-x1").status_code == 200


def test_without_an_own_catalog_the_bundled_one_is_told(url):
    with client(url) as http:
        state = http.get("/v1/catalog").json()
        assert (state["standing"], state["own"], state["names"]) == ("bundled", None, 0)
        assert http.get("/health/ready").json()["catalog"] == "bundled"


@pytest.mark.parametrize("contents", ["{", '{"quotas": {"L4": -1}}', None])
def test_a_bad_catalog_ends_the_start(tmp_path, contents):
    path = tmp_path / "own.json"
    if contents is not None:
        path.write_text(contents)
    with pytest.raises(InvalidCatalogError, match=r"^own\.json(, line 1)?: "):
        create_app(Settings(catalog=str(path)))
    logging.getLogger().setLevel(logging.WARNING)
