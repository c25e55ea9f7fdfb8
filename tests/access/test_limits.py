"""Limits of each caller, and of nobody else."""

import asyncio

import pytest

from fitgauge.api.access.caller import AccessError, Caller
from fitgauge.api.access.limits import MOST_CALLERS, CallerLimits
from identity_provider import QUESTION, asked, bearer

ALICE, BOB = Caller("alice", "token"), Caller("bob", "token")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def outcome(limits, caller, weight=1):
    """Return None where a request passes, else its code and the seconds to wait."""
    try:
        asyncio.run(limits.take(caller, weight))
    except AccessError as refused:
        return refused.slug, refused.retry_after
    return None


def test_a_rate_is_of_one_caller():
    clock = Clock()
    limits = CallerLimits(2, 0, clock)
    assert [outcome(limits, ALICE) for _ in range(3)] == [None, None, ("too-many-requests", 1)]
    assert outcome(limits, BOB) is None
    assert outcome(limits, Caller("alice", "api-key")) is None
    clock.now = 0.5
    assert outcome(limits, ALICE) is None


def test_a_quota_is_of_one_day_and_counts_what_passes():
    clock = Clock()
    limits = CallerLimits(1, 3, clock)
    assert outcome(limits, ALICE, 2) is None
    assert outcome(limits, ALICE) == ("too-many-requests", 2)
    clock.now = 10
    assert outcome(limits, ALICE) is None
    clock.now = 20
    assert outcome(limits, ALICE) == ("quota-exceeded", 24 * 3600 - 20)
    assert outcome(limits, BOB) is None
    clock.now = 24 * 3600
    assert outcome(limits, ALICE) is None


def test_what_weighs_nothing_always_passes():
    limits = CallerLimits(1, 1, Clock())
    assert [outcome(limits, ALICE, 0) for _ in range(5)] == [None] * 5


def test_as_many_callers_as_there_are_cost_bounded_memory():
    limits = CallerLimits(1, 1, Clock())

    async def many():
        for number in range(MOST_CALLERS + 100):
            await limits.take(Caller(str(number), "anonymous"), 1)

    asyncio.run(many())
    assert len(limits._buckets) == len(limits._days) == MOST_CALLERS


def test_callers_have_limits_of_their_own_over_http(guarded, keys_file):
    ci, slack = (bearer(keys_file[1][name]) for name in ("ci", "slack"))
    with guarded(api_keys=str(keys_file[0]), caller_requests_per_day=2) as http:
        statuses = [asked(http, ci).status_code for _ in range(3)]
        refused = asked(http, ci)
        assert statuses == [200, 200, 429]
        assert refused.json()["code"] == "quota-exceeded"
        assert int(refused.headers["retry-after"]) > 0
        assert http.get("/health/live", headers=ci).status_code == 200
        assert asked(http, slack).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models-for-gpu", "/tools/list_models_that_fit"])
def test_long_questions_count_as_several_requests(guarded, keys_file, path):
    ci = bearer(keys_file[1]["ci"])
    question = {"gpu": "T4", "search": "no such model"}
    with guarded(api_keys=str(keys_file[0]), caller_requests_per_day=21) as http:
        http.event_hooks = {}
        assert http.post(path, json=question, headers=ci).status_code == 200
        assert asked(http, ci).status_code == 200
        assert asked(http, ci).status_code == 429


def test_nobody_in_particular_is_told_apart_by_address(guarded):
    with guarded(caller_requests_per_day=1, trusted_proxies="127.0.0.1") as http:
        one, other = ({"X-Forwarded-For": f"203.0.113.{number}"} for number in (1, 2))
        assert asked(http, one).status_code == 200
        assert asked(http, one).status_code == 429
        assert asked(http, other).status_code == 200
        assert http.post("/v1/fit", json=QUESTION, headers=one).status_code == 429
