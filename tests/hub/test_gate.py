"""The gate before the Hub."""

import asyncio

import pytest

from fitgauge.errors import HubBusy, HubUnreachable, UnknownModel
from fitgauge.hub.gate import Gate


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def passing(gate, error=None):
    with gate.passage():
        if error:
            raise error


def shut_gate():
    clock = Clock()
    gate = Gate(5.0, clock)
    with pytest.raises(HubUnreachable):
        passing(gate, HubUnreachable("gone"))
    return gate, clock


def test_a_failure_shuts_it_for_a_while():
    gate, clock = shut_gate()
    clock.now = 4.9
    with pytest.raises(HubUnreachable, match="gone"):
        passing(gate)
    clock.now = 5.0
    passing(gate)
    assert gate.refusal() is None


def test_one_may_try_while_the_others_are_refused():
    gate, clock = shut_gate()
    clock.now = 5.0
    with gate.passage():
        assert isinstance(gate.refusal(), HubUnreachable)
    assert gate.refusal() is None


def test_a_try_that_fails_shuts_it_again():
    gate, clock = shut_gate()
    clock.now = 5.0
    with pytest.raises(HubUnreachable):
        passing(gate, HubUnreachable("still gone"))
    assert str(gate.refusal()) == "still gone"


def test_a_try_that_is_cancelled_lets_another_try():
    gate, clock = shut_gate()
    clock.now = 5.0
    with pytest.raises(asyncio.CancelledError):
        passing(gate, asyncio.CancelledError())
    assert gate.refusal() is None


@pytest.mark.parametrize("error", [UnknownModel("none"), ZeroDivisionError()])
def test_an_answer_that_is_an_error_is_an_answer(error):
    gate, clock = shut_gate()
    clock.now = 5.0
    with pytest.raises(type(error)):
        passing(gate, error)
    assert gate.refusal() is None


def test_a_busy_hub_shuts_it_for_as_long_as_it_asks():
    clock = Clock()
    gate = Gate(5.0, clock)
    with pytest.raises(HubBusy):
        passing(gate, HubBusy("busy", retry_after_seconds=60))
    clock.now = 20.0
    refusal = gate.refusal()
    assert isinstance(refusal, HubBusy)
    assert refusal.retry_after_seconds == 40
    clock.now = 60.0
    assert gate.refusal() is None


def test_a_caller_that_gave_up_shuts_it_only_if_nobody_was_answered_since():
    clock = Clock()
    gate = Gate(5.0, clock)
    clock.now = 3.0
    passing(gate)
    gate.shut(HubUnreachable("slow"), since=2.0)
    assert gate.refusal() is None
    gate.shut(HubUnreachable("slow"), since=4.0)
    assert gate.refusal() is not None
