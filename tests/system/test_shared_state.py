"""Two replicas on a real Valkey or Redis, which is killed, restarted, stopped and overwritten.

Without a server these tests are skipped, unless FITGAUGE_SYSTEM is set, as `make system` does."""

import asyncio
import os
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager

import pytest

from fitgauge.api.middleware import TokenBucket
from fitgauge.app import create_app
from fitgauge.errors import InvalidSettingsError
from fitgauge.hub import HubSettings, Reference
from fitgauge.hub.shared import SharedModels
from fitgauge.settings import Settings
from fitgauge.shared_state import ValkeyState
from hub_stand_in import HubStandIn, safetensors_repository
from live import client, serving
from live.store import PASSWORD, SERVER, Store, until

pytestmark = pytest.mark.skipif(
    SERVER is None and not os.environ.get("FITGAUGE_SYSTEM"),
    reason="no Valkey or Redis: apt-get install redis-server",
)
QUESTION = {"model": "acme/tiny", "gpu": "RTX 4090"}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    store.start()
    yield store
    store.kill()


@contextmanager
def replicas(store, count=2, limits=None, **hub_settings):
    """Provide a stand-in for the Hub and clients of replicas that share a store."""
    settings = Settings(log_level="warning", shared_state=store.url, **(limits or {}))
    with HubStandIn(safetensors_repository("acme/tiny")) as hub, ExitStack() as stack:
        clients = []
        for _ in range(count):
            url = stack.enter_context(serving(hub, settings, **hub_settings))
            clients.append(stack.enter_context(client(url)))
        yield hub, clients


def reasons(http):
    return [reason["code"] for reason in http.get("/health/ready").json()["reasons"]]


def shared(http):
    """Return whether a replica shares."""
    return "shared-state-away" not in reasons(http)


def metric(http, name):
    for line in http.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise AssertionError(name)


def asked(http, model="acme/tiny"):
    response = http.post("/v1/fit", json={**QUESTION, "model": model})
    return response.status_code, response.json().get("verdict")


def test_each_model_is_resolved_once_by_two_replicas(store):
    with replicas(store) as (hub, (first, second)):
        until(lambda: shared(first) and shared(second))
        for number in range(5):
            hub.add(safetensors_repository(f"acme/tiny-{number}"))
        answers = [asked(http, f"acme/tiny-{n}") for n in range(5) for http in (first, second)]
        assert {status for status, _ in answers} == {200}
        config = [hub.count(f"/acme/tiny-{number}/resolve/") for number in range(5)]
        described = [hub.count(f"/api/models/acme/tiny-{number}") for number in range(5)]
        missing = [asked(http, "acme/none")[0] for http in (first, second)]
        assert (config, described, missing) == ([1] * 5, [1] * 5, [404, 404])
        assert hub.count("/api/models/acme/none") == 1
        assert metric(second, "fitgauge_shared_state_up") == 1


def test_a_killed_store_costs_no_answer_is_said_and_is_taken_up_again(store, caplog):
    with replicas(store) as (hub, (first, second)):
        until(lambda: shared(first) and shared(second))
        store.kill()
        hub.add(safetensors_repository("acme/other"))
        assert [asked(http, "acme/other") for http in (first, second)] == [(200, "fits")] * 2
        assert hub.count("/acme/other/resolve/") == 2
        until(lambda: not shared(first))
        assert metric(first, "fitgauge_shared_state_up") == 0
        assert first.get("/health/ready").status_code == 200
        store.start()
        until(lambda: shared(first) and shared(second))
        assert [asked(http) for http in (first, second)] == [(200, "fits")] * 2
        assert hub.count("/acme/tiny/resolve/") == 1
    said = [record.getMessage() for record in caplog.records if "shared state" in record.msg]
    assert any("goes on alone" in line for line in said)
    assert PASSWORD not in caplog.text


def test_a_store_that_hangs_delays_one_answer_by_half_a_second_at_most(store):
    with replicas(store, 1) as (hub, (http,)):
        until(lambda: shared(http))
        store.process.send_signal(signal.SIGSTOP)
        try:
            started = time.monotonic()
            assert asked(http) == (200, "fits")
            first = time.monotonic() - started
            hub.add(safetensors_repository("acme/other"))
            assert asked(http, "acme/other") == (200, "fits")
            operations = http.get("/metrics").text
        finally:
            store.process.send_signal(signal.SIGCONT)
        assert first < 5  # two timeouts of 0.25 s and a loaded machine
        assert 'operations_total{outcome="skipped"}' in operations
        until(lambda: shared(http))


def test_a_replica_that_dies_while_it_looks_up_holds_the_others_up_for_a_second(store):
    with replicas(store, 1) as (hub, (http,)):
        until(lambda: shared(http))
        assert store("SET", _claim_key(hub), "of a dead replica", "PX", 1000) == b"+OK"
        assert asked(http) == (200, "fits")
        assert hub.count("/acme/tiny/resolve/") == 1


def _claim_key(hub):
    models = SharedModels(None, HubSettings(endpoint=hub.url), time.time)
    return f"FITGAUGE:claim:{models.key(Reference('acme/tiny'), '')}"


def test_the_quota_of_a_caller_is_one_for_all_replicas(store):
    with replicas(store, limits={"caller_requests_per_day": 3}) as (_, (first, second)):
        until(lambda: shared(first) and shared(second))
        passed = [asked(http)[0] for http in (first, second, first, second, first)]
        refused = second.post("/v1/fit", json=QUESTION)
        assert passed == [200, 200, 200, 429, 429]
        assert refused.json()["code"] == "quota-exceeded"
        assert 0 < int(refused.headers["retry-after"]) <= 86_400
        store.kill()
        assert [asked(http)[0] for http in (first, second)] == [200, 200]


def test_a_shared_bucket_is_the_bucket_of_one_replica(store):
    """Weights, waits and debts are those of TokenBucket; the server's clock goes on meanwhile."""

    async def waits(asked, rate):
        state = ValkeyState(store.url)
        state.is_up = True
        taken = [await state.take(f"token:{rate}", rate, 0, weight) for weight in asked]
        await state.close()
        return taken

    for rate, weights in ((2.0, (1, 1, 1)), (2.0, (20, 1)), (0.5, (1, 1)), (100.0, (1,) * 50)):
        bucket = TokenBucket(rate, clock=lambda: 0.0)
        expected = [bucket.wait_seconds(weight) for weight in weights]
        store("FLUSHALL")
        found = asyncio.run(waits(weights, rate))
        assert [bool(limit) for limit, _ in found] == [bool(wait) for wait in expected]
        for (_, wait), alone in zip(found, expected, strict=True):
            assert alone - 1 < wait <= alone + 1e-3


def test_a_store_that_lies_is_not_believed(store):
    with replicas(store) as (hub, (first, second)):
        until(lambda: shared(first) and shared(second))
        assert asked(first) == (200, "fits")
        key = _claim_key(hub).replace("claim:", "")
        assert store("EXISTS", key) == b":1"
        assert 0 < int(store("TTL", key)[1:]) <= 86_400
        store("SET", key, b"\x85\xa6schema\x01")
        assert asked(second) == (200, "fits")
        assert metric(second, "fitgauge_shared_state_rejected_total") >= 1
        store("DEL", key)
        store("RPUSH", key, "another type")
        hub.add(safetensors_repository("acme/other"))
        assert asked(second, "acme/other") == (200, "fits")


def test_what_the_store_holds_and_metrics_show_names_no_token(store):
    token = "hf_PLANTEDtoken0123456789"
    with replicas(store, 1, token=token) as (_, (http,)):
        until(lambda: shared(http))
        asked(http)
        shown = http.get("/metrics").text + http.get("/health/ready").text
        assert PASSWORD not in shown
        store("CONFIG", "SET", "save", "")
        dump = subprocess.run(
            ["redis-cli", "-p", str(store.port), "-a", PASSWORD, "--no-auth-warning", "EVAL",
             "local all = '' for _, k in ipairs(redis.call('KEYS', '*')) do"
             " all = all .. k .. (redis.call('GET', k) or '') end return all", "0"],
            capture_output=True, check=True,
        ).stdout  # fmt: skip
    assert token.encode() not in dump


def test_a_store_that_never_answered_is_said_once(caplog):
    async def asked_twice():
        state = ValkeyState("valkey://:planted-password@127.0.0.1:9/0")
        following = asyncio.create_task(state.follow())
        while state.operations["failed"] < 2:
            await asyncio.sleep(0.01)
        following.cancel()
        await state.close()

    asyncio.run(asked_twice())
    said = [record.getMessage() for record in caplog.records if "shared_state" in record.name]
    assert (len(said), "goes on alone" in said[0], PASSWORD in said[0]) == (1, True, False)


def test_an_address_that_cannot_be_read_ends_the_start():
    with pytest.raises(InvalidSettingsError) as refused:
        create_app(Settings(log_level="warning", shared_state="valkey://host:port/0"))
    assert "FITGAUGE_SHARED_STATE" in refused.value.detail
