"""The circuit breaker before the Hub."""

import asyncio

import pytest

from fitgauge.errors import HubBusyError, HubUnreachableError, UnknownModelError
from fitgauge.hub.circuit_breaker import TIMEOUTS, WINDOW_SECONDS, CircuitBreaker


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def passing(breaker, error=None):
    with breaker.passage():
        if error:
            raise error


def opened():
    clock = Clock()
    breaker = CircuitBreaker(5.0, clock)
    breaker.open(HubUnreachableError("gone"))
    return breaker, clock


def test_evidence_of_the_hub_opens_it_for_a_while():
    breaker, clock = opened()
    clock.now = 4.9
    with pytest.raises(HubUnreachableError, match="gone"):
        passing(breaker)
    clock.now = 5.0
    with breaker.passage():
        breaker.answered()
    assert breaker.refusal() is None


@pytest.mark.parametrize(
    "error", [HubUnreachableError("500"), HubBusyError("503"), UnknownModelError("none")]
)
def test_the_failure_of_one_repository_does_not_open_it(error):
    breaker = CircuitBreaker(5.0, Clock())
    with pytest.raises(type(error)):
        passing(breaker, error)
    assert breaker.refusal() is None


def test_one_may_probe_while_the_others_are_refused():
    breaker, clock = opened()
    clock.now = 5.0
    with breaker.passage():
        assert isinstance(breaker.refusal(), HubUnreachableError)
        breaker.answered()
        assert breaker.refusal() is None


def test_a_probe_that_fails_opens_it_again():
    breaker, clock = opened()
    clock.now = 5.0
    with pytest.raises(HubUnreachableError):
        passing(breaker, HubUnreachableError("no answer"))
    assert str(breaker.refusal()) == "gone"
    clock.now = 9.9
    assert breaker.refusal() is not None
    clock.now = 10.0
    assert breaker.refusal() is None


def test_a_probe_that_is_cancelled_lets_another_try():
    breaker, clock = opened()
    clock.now = 5.0
    with pytest.raises(asyncio.CancelledError):
        passing(breaker, asyncio.CancelledError())
    assert breaker.refusal() is None


def test_a_probe_that_never_ends_lets_another_try_after_a_while():
    breaker, clock = opened()
    clock.now = 5.0
    with breaker.passage():
        assert breaker.refusal() is not None
        clock.now = 10.0
        assert breaker.refusal() is None


@pytest.mark.parametrize(
    "error", [UnknownModelError("none"), ZeroDivisionError(), HubUnreachableError("500")]
)
def test_an_answer_that_is_an_error_is_an_answer(error):
    def probe():
        with breaker.passage():
            breaker.answered()
            raise error

    breaker, clock = opened()
    clock.now = 5.0
    with pytest.raises(type(error)):
        probe()
    assert breaker.refusal() is None


def test_a_busy_hub_opens_it_for_as_long_as_it_asks():
    clock = Clock()
    breaker = CircuitBreaker(5.0, clock)
    breaker.open(HubBusyError("busy", retry_after_seconds=60))
    clock.now = 20.0
    breaker.answered()  # a request that was sent before
    refusal = breaker.refusal()
    assert isinstance(refusal, HubBusyError)
    assert refusal.retry_after_seconds == 40
    clock.now = 60.0
    assert breaker.refusal() is None


def test_time_outs_of_several_repositories_open_it():
    clock = Clock()
    breaker = CircuitBreaker(5.0, clock)
    for _ in range(10):
        breaker.timed_out("acme/one", HubUnreachableError("slow"), since=0.0)
    assert breaker.refusal() is None
    for number in range(TIMEOUTS - 1):
        assert breaker.refusal() is None
        breaker.timed_out(f"acme/{number}", HubUnreachableError("slow"), since=0.0)
    assert breaker.refusal() is not None


def test_time_outs_long_ago_do_not_count():
    clock = Clock()
    breaker = CircuitBreaker(5.0, clock)
    for number in range(10):
        breaker.timed_out(f"acme/{number}", HubUnreachableError("slow"), since=clock.now)
        clock.now += WINDOW_SECONDS / (TIMEOUTS - 1) + 1
    assert breaker.refusal() is None


def test_time_outs_do_not_count_where_another_repository_was_answered_since():
    clock = Clock()
    breaker = CircuitBreaker(5.0, clock)
    for number in range(10):
        clock.now += 2.0
        breaker.timed_out(f"acme/{number}", HubUnreachableError("slow"), since=clock.now - 2.0)
        breaker.answered()
        breaker.timed_out(f"other/{number}", HubUnreachableError("slow"), since=clock.now - 2.0)
    assert breaker.refusal() is None
    for number in range(TIMEOUTS):
        breaker.timed_out(f"acme/{number}", HubUnreachableError("slow"), since=clock.now + 0.1)
    assert breaker.refusal() is not None


def test_half_open_one_time_out_opens_it():
    breaker, clock = opened()
    clock.now = 5.0
    with breaker.passage():
        breaker.timed_out("acme/one", HubUnreachableError("slow"), since=5.0)
    assert str(breaker.refusal()) == "slow"


def test_a_request_from_before_it_opened_does_not_open_it_again():
    breaker, clock = opened()
    clock.now = 5.0
    breaker.timed_out("acme/one", HubUnreachableError("slow"), since=-1.0)
    assert breaker.refusal() is None
