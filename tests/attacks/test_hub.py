"""Attacks from the Hub's side: ill repositories, redirects into this network, bodies without
end."""

import gzip
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hub_stand_in import HubStandIn, safetensors_repository
from hub_stand_in.server import TOKEN
from live import client
from live.process import family, running

HTML = {"Content-Type": "text/html"}
TEXT = {"Content-Type": "text/plain"}


def fit(http, model):
    return http.post("/v1/fit", json={"model": model, "gpu": "H100"})


def all_at_once(http, models):
    with ThreadPoolExecutor(len(models)) as pool:
        return list(pool.map(lambda model: fit(http, model), models))


def assert_well(http, hub, repo_id):
    """Assert that a repository nothing is wrong with is answered from the Hub."""
    hub.add(safetensors_repository(repo_id))
    answer = fit(http, repo_id)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"]["source"] == "hub"


def assert_refused(response, status):
    """Assert this status, and that a problem only the Hub knows of says when to come back."""
    assert response.status_code == status, response.text
    if status == 424:
        assert 1 <= int(response.headers["retry-after"]) <= 60


ILL = {
    "answers-500": ({"status": 500}, 424),
    "answers-502": ({"status": 502, "headers": HTML, "body": b"<h1>Bad gateway</h1>"}, 424),
    "answers-503": ({"status": 503, "headers": {"Retry-After": "86400"}}, 424),
    "is-silent": ({"hang": True}, 424),
    "hangs-up": ({"drop": True}, 424),
    "is-a-portal": ({"body": b"<html>portal</html>", "headers": HTML}, 424),
    "is-blocked": ({"status": 403, "body": b"<h1>Blocked</h1>", "headers": HTML}, 424),
    "is-bare-401": ({"status": 401, "body": b"", "headers": TEXT}, 404),
    "is-bare-403": ({"status": 403, "body": b"", "headers": TEXT}, 403),
    "is-bare-404": ({"status": 404, "body": b"", "headers": TEXT}, 404),
    "is-a-worded-404": ({"status": 404, "body": b"no", "headers": TEXT}, 404),
    "is-cut-off": ({"claimed_length": 10**6}, 424),
    "error-cut-off": ({"status": 500, "claimed_length": 10**5}, 424),
    "has-a-giant-header": ({"headers": {"X-Pad": "x" * 200_000}}, 424),
    "has-no-end": ({"endless": True}, 422),
    "is-packed": (
        {"body": gzip.compress(bytes(10**7)), "headers": {"Content-Encoding": "gzip"}},
        424,
    ),
    "packs-its-error": (
        {"status": 500, "body": gzip.compress(b"{}"), "headers": {"Content-Encoding": "gzip"}},
        424,
    ),
    "is-no-description": ({"body": b"[]"}, 422),
    "is-a-million-values": ({"body": b'{"siblings": [' + b"{}," * 10**6 + b"{}]}"}, 422),
    "is-nested": ({"body": b'{"a":' * 90_000}, 424),
    "redirects-to-nowhere": ({"status": 302, "headers": {"Location": "http://["}}, 424),
    "redirects-without-a-word": ({"status": 302}, 424),
}


@pytest.mark.parametrize("name", ILL)
def test_an_ill_repository_is_its_own_trouble_alone(hub, http, name):
    fault, status = ILL[name]
    hub.add(safetensors_repository(f"x/{name}"))
    hub.fault(f"/api/models/x/{name}", **fault)
    assert_refused(fit(http, f"x/{name}"), status)
    asked = hub.count(f"x/{name}")
    assert_well(http, hub, f"well/after-{name}")
    assert_refused(fit(http, f"x/{name}"), status)
    assert hub.count(f"x/{name}") == asked


def test_repositories_that_move_in_a_circle_are_none(hub, http):
    hub.renamed |= {"x/left": "x/right", "x/right": "x/left"}
    assert_refused(fit(http, "x/left"), 404)
    assert hub.count("x/left") + hub.count("x/right") <= 12
    assert_well(http, hub, "well/after-a-circle")


def test_a_renamed_repository_is_followed_at_the_endpoint(hub, http):
    hub.renamed["x/old-name"] = "well/new-name"
    hub.add(safetensors_repository("well/new-name"))
    assert fit(http, "x/old-name").json()["model"]["id"] == "well/new-name"


ELSEWHERE = [
    "http://127.0.0.1:{port}",
    "//127.0.0.1:{port}",
    "http://localhost:{port}",
    "http://LOCALHOST.:{port}",
    "http://[::1]:{port}",
    "http://[::ffff:127.0.0.1]:{port}",
    "http://0.0.0.0:{port}",
    "http://127.1:{port}",
    "http://2130706433:{port}",
    "http://0x7f.0.0.1:{port}",
    "http://user:word@127.0.0.1:{port}",
    "http://localhost:{hub_port}",
    "https://127.0.0.1:{hub_port}",
    "http://169.254.169.254",
    "http://10.0.0.1",
    "http://files.example",
    "http://huggingface.co.files.example",
    "http://huggingface.co:8080",
    "file://",
    "gopher://127.0.0.1:{port}",
]


@pytest.mark.parametrize("number", range(len(ELSEWHERE)))
def test_a_redirect_to_elsewhere_is_not_followed(hub, http, number):
    name = f"x/redirects-{number}"
    with HubStandIn(safetensors_repository(name)) as elsewhere:
        ports = {"port": elsewhere.url.rpartition(":")[2], "hub_port": hub.url.rpartition(":")[2]}
        target = ELSEWHERE[number].format(**ports)
        hub.fault(f"/api/models/{name}", status=302, headers={"Location": f"{target}/seen"})
        hub.fault(f"/{name}/resolve", status=307, headers={"Location": f"{target}/seen"})
        assert_refused(fit(http, name), 424)
        assert_well(http, hub, f"well/after-redirect-{number}")
        assert elsewhere.requests == []
        assert hub.count("/seen") == 0


def test_a_redirect_to_a_named_host_is_followed_without_the_token(tmp_path):
    name = "x/stored"
    path = f"/{name}/resolve/main/config.json"
    with (
        HubStandIn(safetensors_repository(name)) as hub,
        HubStandIn(*hub.repositories.values()) as store,
    ):
        hub.fault(path, status=302, headers={"Location": f"http://eu.files.example{path}"})
        settings = {
            "FITGAUGE_HUB_REDIRECT_HOSTS": "*.files.example",
            "HTTP_PROXY": store.url,  # stands in for the name server too
            "NO_PROXY": "127.0.0.1",
            "HF_TOKEN": TOKEN,
        }
        with running(hub.url, tmp_path, **settings) as process, client(process.url) as http:
            assert fit(http, name).status_code == 200
            hub.fault("x/away", status=302, headers={"Location": "http://files.example/x"})
            assert_refused(fit(http, "x/away"), 424)
        assert [request.path for request in store.requests] == [path]
        assert "authorization" not in store.requests[0].headers
        assert {one.headers.get("authorization") for one in hub.requests} == {f"Bearer {TOKEN}"}


def test_a_hub_that_hangs_for_several_is_left_alone_and_then_probed_once(tmp_path):
    def repositories():
        return {re.search(r"x/hangs-\w+", request.path)[0] for request in hub.requests}

    with HubStandIn() as hub, running(hub.url, tmp_path) as process, client(process.url) as http:
        hub.fault(hang=True)
        refusals = all_at_once(http, [f"x/hangs-{number}" for number in range(3)])
        sent = hub.count()
        assert len(repositories()) == 3
        for round_ in ("a", "b"):
            refusals += all_at_once(http, [f"x/hangs-{round_}{number}" for number in range(20)])
            if round_ == "a":
                assert hub.count() == sent
                time.sleep(int(refusals[-1].headers["retry-after"]))
        assert len(repositories()) == 4
        for refusal in refusals:
            assert_refused(refusal, 424)
        known = fit(http, "Qwen/Qwen3-8B").json()
        assert known["model"]["source"] == "snapshot"
        assert known["warnings"][0]["code"] == "answered-from-snapshot"
        hub.mend()
        wait = int(fit(http, "x/hangs-c").headers["retry-after"])
        time.sleep(wait)
        assert_well(http, hub, "well/after-all")


def test_a_busy_hub_is_left_alone_for_a_minute_at_most(tmp_path):
    with HubStandIn() as hub, running(hub.url, tmp_path) as process, client(process.url) as http:
        hub.fault("x/busy", status=429, headers={"Retry-After": "86400"})
        refusal = fit(http, "x/busy")
        assert_refused(refusal, 424)
        assert refusal.json()["type"].endswith("hub-busy")
        sent = hub.count()
        for number in range(10):
            assert_refused(fit(http, f"x/other-{number}"), 424)
        assert fit(http, "Qwen/Qwen3-8B").json()["model"]["source"] == "snapshot"
        assert hub.count() == sent


def test_a_repository_of_the_snapshot_that_is_ill_is_answered_from_it(hub, http):
    hub.fault("Qwen/Qwen3-14B", status=500)
    answer = fit(http, "Qwen/Qwen3-14B").json()
    assert answer["model"]["source"] == "snapshot"
    assert answer["warnings"][0]["code"] == "answered-from-snapshot"
    assert_well(http, hub, "well/after-the-snapshot")


def test_an_unreadable_repository_is_answered_from_the_snapshot_alone(hub, http):
    for name in ("Qwen/Qwen3-14B", "well/unreadable"):
        hub.fault(name, status=200, body=b"[]")
    answer = fit(http, "Qwen/Qwen3-14B").json()
    assert answer["model"]["source"] == "snapshot"
    assert answer["warnings"][0]["code"] == "answered-from-snapshot"
    assert fit(http, "well/unreadable").status_code == 422


def peak_mib(process):
    """Return the most memory that the process and its children ever had [MiB], shared pages each
    time."""
    status = [Path(f"/proc/{pid}/status").read_text() for pid in family(process.popen.pid)]
    return sum(int(re.search(r"VmHWM:\s+(\d+)", text)[1]) for text in status) / 1024


def test_many_large_bodies_at_once_take_bounded_memory(tmp_path):
    names = [f"x/large-{number}" for number in range(40)]
    with (
        HubStandIn(*map(safetensors_repository, names)) as hub,
        running(hub.url, tmp_path) as process,
        client(process.url) as http,
    ):
        http.timeout = 60
        for digit, mib in (("0", 4), ("2", 4), ("4", 4), ("", 15)):
            pad = b'{"pad": "' + b"x" * (mib * 2**20 - 20) + b'"}'
            hub.fault(f"/api/models/x/large-{digit}", body=pad)
        hub.fault("config.json", body=json.dumps({"pad": [[]] * 45_000}).encode())
        assert_well_known(http)
        before = peak_mib(process)
        responses = all_at_once(http, names)
        assert {response.status_code for response in responses} <= {422, 424}
        # as they are sent: some 400 MiB
        assert peak_mib(process) - before < 200


def assert_well_known(http):
    assert fit(http, "7b").status_code == 200


def test_models_of_strangers_take_bounded_memory(tmp_path):
    skipped = [f"model.layers.{number}.mlp.gate" for number in range(20_000)]
    quantization = {"quant_method": "fp8", "modules_to_not_convert": skipped}
    with HubStandIn() as hub, running(hub.url, tmp_path) as process, client(process.url) as http:
        http.timeout = 60
        repository = safetensors_repository("x/model")
        config = json.loads(repository.files["config.json"]) | {"quantization_config": quantization}
        repository.files["config.json"] = json.dumps(config).encode()
        before = process.pss_mib()
        for number in range(60):
            repository.repo_id = f"x/model-{number}"
            hub.repositories[repository.repo_id] = repository
            assert http.get(f"/v1/models/x/model-{number}").status_code == 200
        # without a bound in bytes: 60 x 3 MiB
        assert process.pss_mib() - before < 130
