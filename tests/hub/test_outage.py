"""A Hub that is slow, silent, busy or gone: nobody waits longer than the budget, and everybody
gets a typed error."""

import asyncio
import socket
from email.utils import formatdate

import httpx2
import pytest

from fitgauge.errors import HubBusyError, HubError, HubUnreachableError
from fitgauge.hub import Reference
from fitgauge.hub.errors import LONGEST_WAIT, USUAL_WAIT, retry_after
from hub_stand_in import safetensors_repository

TINY = Reference("acme/tiny")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_hub_that_accepts_and_never_answers_is_unreachable(stand_in, open_hub):
    async def run():
        async with open_hub(wait_seconds=0.2) as hub:
            with pytest.raises(HubUnreachableError, match=r"did not answer within 0\.2 s"):
                await hub.resolve(TINY)

    stand_in.fault(hang=True)
    asyncio.run(run())


def test_a_hub_that_nobody_listens_for_is_unreachable(open_hub):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def run():
        async with open_hub(endpoint=closed, attempts=2) as hub:
            with pytest.raises(HubUnreachableError, match=r"ConnectError: .*[^.]\.$"):
                await hub.resolve(TINY)

    asyncio.run(run())


@pytest.mark.parametrize(
    "endpoint", ["http://hub.invalid", "http://[::1", "nonsense", "http://a..b"]
)
def test_an_endpoint_that_is_none_is_unreachable(open_hub, endpoint):
    async def run():
        async with open_hub(endpoint=endpoint, attempts=1) as hub:
            with pytest.raises(HubUnreachableError):
                await hub.resolve(TINY)

    asyncio.run(run())


def failures(hub, *names):
    async def resolve(name):
        with pytest.raises(HubUnreachableError) as failure:
            await hub.resolve(Reference(name))
        return failure.value

    return asyncio.gather(*map(resolve, names))


async def sent(stand_in, requests):
    """Wait until so many requests have arrived, and see that they are no more."""
    while stand_in.count() < requests:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert stand_in.count() == requests


def test_only_the_first_callers_of_an_outage_wait(stand_in, open_hub):
    async def run():
        async with open_hub(wait_seconds=0.2, attempts=1, monotonic=Clock()) as hub:
            await failures(hub, "acme/tiny", "acme/a", "acme/b")
            await sent(stand_in, 6)
            for number in range(50):
                await failures(hub, f"acme/other-{number}", "acme/tiny")
            await sent(stand_in, 6)

    stand_in.fault(hang=True)
    # half of what it takes where every caller waits
    asyncio.run(asyncio.wait_for(run(), 5))


def test_after_the_outage_one_resolve_probes_and_then_all_may(stand_in, open_hub):
    async def run():
        clock = Clock()
        async with open_hub(attempts=1, wait_seconds=1.0, monotonic=clock) as hub:
            stand_in.fault(hang=True)
            await failures(hub, "acme/a", "acme/b", "acme/c")
            await sent(stand_in, 6)
            stand_in.mend()
            clock.now += 4.9
            await failures(hub, "acme/tiny")
            await sent(stand_in, 6)
            clock.now += 0.2
            stand_in.fault(delay=0.1)
            both = hub.resolve(TINY), hub.resolve(Reference("gpt2"))
            answers = await asyncio.gather(*both, return_exceptions=True)
            assert sorted(type(answer).__name__ for answer in answers) == [
                "HubUnreachableError",
                "Model",
            ]
            assert stand_in.count() == 8
            assert (await hub.resolve(TINY)).id == "acme/tiny"
            assert (await hub.resolve(Reference("gpt2"))).id == "gpt2"

    stand_in.add(safetensors_repository("gpt2"))
    asyncio.run(run())


def test_a_probe_that_hangs_is_the_only_one_sent(stand_in, open_hub):
    async def run():
        clock = Clock()
        async with open_hub(attempts=1, wait_seconds=0.2, monotonic=clock) as hub:
            await failures(hub, "acme/a", "acme/b", "acme/c")
            for probes in range(1, 4):
                clock.now += 5.1
                await failures(hub, *(f"acme/{clock.now}-{number}" for number in range(20)))
                await failures(hub, *(f"acme/{clock.now}-{number}" for number in range(20, 40)))
                await sent(stand_in, 6 + 2 * probes)

    stand_in.fault(hang=True)
    asyncio.run(run())


ILL = [
    {"status": 500},
    {"status": 502, "headers": {"Content-Type": "text/html"}},
    {"status": 503, "headers": {"Retry-After": "60"}},
    {"body": b"<html>portal</html>"},
    {"hang": True},
    {"drop": True},
    {"claimed_length": 10**6},
    {"headers": {"X-Pad": "x" * 200_000}},
    {"status": 302, "headers": {"Location": "http://169.254.169.254/latest"}},
]


@pytest.mark.parametrize("fault", ILL)
def test_an_ill_repository_is_asked_once_in_a_while_and_its_neighbours_as_ever(
    stand_in, open_hub, fault
):
    async def run():
        clock = Clock()
        async with open_hub(attempts=1, request_seconds=0.3, monotonic=clock) as hub:
            for number in range(4):
                stand_in.add(safetensors_repository(f"acme/well-{number}"))
                with pytest.raises(HubError) as failure:
                    await hub.resolve(Reference("x/ill"))
                assert failure.value.retry_after_seconds <= 60
                assert (await hub.resolve(Reference(f"acme/well-{number}"))).spec.layers == 2
            assert stand_in.count("x/ill") == 2
            stand_in.mend()
            clock.now += failure.value.retry_after_seconds
            assert (await hub.resolve(Reference("x/ill"))).spec.layers == 2

    stand_in.add(safetensors_repository("x/ill"))
    stand_in.fault("x/ill", **fault)
    asyncio.run(run())


def test_repositories_that_hang_give_their_turns_to_others(stand_in, open_hub):
    async def run():
        async with open_hub(concurrent_resolves=2, slow_resolves=1, wait_seconds=1.0) as hub:
            hanging = [hub.resolve(Reference(f"x/hangs-{number}")) for number in range(2)]
            hanging = [asyncio.ensure_future(one) for one in hanging]
            while stand_in.count("x/hangs") < 4:
                await asyncio.sleep(0.01)
            assert (await hub.resolve(TINY)).id == "acme/tiny"
            await asyncio.gather(*hanging, return_exceptions=True)

    stand_in.fault("x/hangs", hang=True)
    asyncio.run(run())


def test_a_slow_answer_arrives_in_the_background_for_the_next_caller(stand_in, open_hub):
    async def run():
        async with open_hub(wait_seconds=0.1) as hub:
            with pytest.raises(HubUnreachableError):
                await hub.resolve(TINY)
            while hub.peek(TINY) is None:
                await asyncio.sleep(0.02)
            assert (await hub.resolve(TINY)).id == "acme/tiny"
            stand_in.add(safetensors_repository("gpt2"))
            assert (await hub.resolve(Reference("gpt2"))).id == "gpt2"

    stand_in.fault("acme/tiny", delay=0.4)
    asyncio.run(asyncio.wait_for(run(), 30))
    assert stand_in.count("acme/tiny") == 2


def test_a_hub_of_300_ms_serves_300_callers_with_one_resolve(stand_in, open_hub):
    async def run():
        async with open_hub() as hub:
            return await asyncio.gather(*(hub.resolve(TINY) for _ in range(300)))

    stand_in.fault(delay=0.3)
    assert len(asyncio.run(run())) == 300
    assert stand_in.count() == 2


def test_one_slow_model_does_not_shut_the_hub_for_others(stand_in, open_hub):
    async def run():
        async with open_hub(wait_seconds=0.4) as hub:
            slow = asyncio.create_task(hub.resolve(TINY))
            await asyncio.sleep(0.05)
            assert (await hub.resolve(Reference("gpt2"))).id == "gpt2"
            with pytest.raises(HubUnreachableError):
                await slow
            stand_in.add(safetensors_repository("gpt3"))
            assert (await hub.resolve(Reference("gpt3"))).id == "gpt3"

    stand_in.add(safetensors_repository("gpt2"))
    stand_in.fault("acme/tiny", hang=True)
    asyncio.run(run())


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 502},
        {"status": 503},
        {"status": 408},
        {"drop": True},
        {"claimed_length": 10**6},
        {"status": 429},
    ],
)
def test_a_passing_failure_is_tried_again(stand_in, open_hub, fault):
    async def run():
        async with open_hub() as hub:
            return await hub.resolve(TINY)

    if fault.get("status") == 429:
        fault = {**fault, "headers": {"Retry-After": "0"}}
    stand_in.fault("config.json", times=2, **fault)
    assert asyncio.run(run()).spec.layers == 2
    assert stand_in.count("config.json") == 3
    assert stand_in.count("/api/") == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"drop": True},
        {"claimed_length": 10**6},
        {"headers": {f"X-Pad-{number}": "x" * 60_000 for number in range(20)}},
        {"status": 500, "body": b"[" * 100_000},
    ],
)
def test_a_lasting_failure_is_unreachable_after_a_few_attempts(stand_in, open_hub, fault):
    async def run():
        async with open_hub(attempts=3) as hub:
            with pytest.raises(HubUnreachableError):
                await hub.resolve(TINY)

    stand_in.fault("/api/", **fault)
    asyncio.run(run())
    assert stand_in.count("/api/") == 3


def test_a_body_longer_than_it_claims_is_cut_there(stand_in, open_hub):
    async def run():
        async with open_hub(attempts=1) as hub:
            with pytest.raises(HubUnreachableError):
                await hub.resolve(TINY)

    stand_in.fault("/api/", claimed_length=10)
    asyncio.run(run())


def test_a_busy_hub_is_left_alone_for_as_long_as_it_asks(stand_in, open_hub):
    async def run():
        clock = Clock()
        async with open_hub(monotonic=clock) as hub:
            with pytest.raises(HubBusyError) as busy:
                await hub.resolve(TINY)
            assert busy.value.retry_after_seconds == 60
            sent = stand_in.count()
            stand_in.mend()
            clock.now += 50
            with pytest.raises(HubBusyError) as busy:
                await hub.resolve(Reference("acme/other"))
            assert busy.value.retry_after_seconds == 10
            assert stand_in.count() == sent
            clock.now += 11
            assert (await hub.resolve(TINY)).id == "acme/tiny"

    stand_in.fault(status=429, headers={"Retry-After": "60"})
    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("7", 7, 7),
        ("0", 0, 0),
        ("9" * 40, LONGEST_WAIT, LONGEST_WAIT),
        ("soon", USUAL_WAIT, USUAL_WAIT),
        ("-5", USUAL_WAIT, USUAL_WAIT),
        ("", USUAL_WAIT, USUAL_WAIT),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0, 0),
        (formatdate(4e9, usegmt=True), LONGEST_WAIT, LONGEST_WAIT),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_bounds(text, low, high):
    assert low <= retry_after(httpx2.Response(429, headers={"retry-after": text})) <= high


def test_too_many_different_models_at_once_are_turned_away(stand_in, open_hub):
    async def run():
        async with open_hub(wait_seconds=2.0, concurrent_resolves=2, queued_resolves=3) as hub:
            asked = (hub.resolve(Reference(f"acme/m{number}")) for number in range(8))
            answers = asyncio.gather(*asked, return_exceptions=True)
            await sent(stand_in, 4)  # of two, until these have had half of a caller's time
            return await answers

    stand_in.fault(hang=True)
    answers = asyncio.run(run())
    assert [type(answer) for answer in answers] == [HubUnreachableError] * 5 + [HubBusyError] * 3


def test_offline_sends_nothing_and_answers_at_once(stand_in, open_hub):
    async def run():
        async with open_hub(offline=True) as hub:
            with pytest.raises(HubUnreachableError, match="HF_HUB_OFFLINE"):
                await hub.resolve(TINY)

    asyncio.run(run())
    assert stand_in.count() == 0


def test_closing_ends_those_who_wait(stand_in, open_hub):
    async def run():
        async with open_hub() as hub:
            waiting = asyncio.create_task(hub.resolve(TINY))
            await asyncio.sleep(0.05)
        with pytest.raises(HubUnreachableError, match="shutting down"):
            await waiting

    stand_in.fault(hang=True)
    asyncio.run(run())


def test_a_resolver_that_was_not_started_says_so(tmp_path):
    from fitgauge.hub import Hub, HubSettings

    with pytest.raises(HubUnreachableError, match="not running"):
        asyncio.run(Hub(HubSettings(cache_dir=None, offline=False)).resolve(TINY))
