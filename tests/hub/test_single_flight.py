"""Single flight."""

import asyncio
import gc

import pytest

from fitgauge.errors import HubBusyError, HubUnreachableError
from fitgauge.hub.single_flight import SingleFlight, outcome


def test_many_who_ask_at_once_share_one_fetch():
    async def run():
        async def fetch():
            fetched.append(1)
            await asyncio.sleep(0)
            return object()

        flights = SingleFlight(limit=1)
        return await asyncio.gather(*(outcome(flights.join("key", fetch), 5) for _ in range(100)))

    fetched: list[int] = []
    assert len(set(asyncio.run(run()))) == len(fetched) == 1


def test_an_error_reaches_all_who_wait():
    async def run():
        async def fetch():
            await asyncio.sleep(0)
            raise HubUnreachableError("gone")

        flights = SingleFlight(limit=1)
        return await asyncio.gather(
            *(outcome(flights.join("key", fetch), 5) for _ in range(100)), return_exceptions=True
        )

    assert {type(answer) for answer in asyncio.run(run())} == {HubUnreachableError}


def test_a_fetch_that_ended_is_done_again_for_the_next():
    async def run():
        async def fetch():
            fetched.append(1)
            return len(fetched)

        flights = SingleFlight(limit=1)
        return [await outcome(flights.join("key", fetch), 5) for _ in range(3)]

    fetched: list[int] = []
    assert asyncio.run(run()) == [1, 2, 3]


def test_whoever_is_cancelled_or_runs_out_of_time_leaves_the_fetch_going():
    async def run():
        gate = asyncio.Event()

        async def fetch():
            await gate.wait()
            return "value"

        flights = SingleFlight(limit=1)
        task = flights.join("key", fetch)
        leaver = asyncio.create_task(outcome(task, 5))
        await asyncio.sleep(0)
        leaver.cancel()
        with pytest.raises(TimeoutError):
            await outcome(task, 0.01)
        with pytest.raises(asyncio.CancelledError):
            await leaver
        gate.set()
        return await outcome(flights.join("key", fetch), 5)

    assert asyncio.run(run()) == "value"


def test_an_error_nobody_waited_for_is_not_reported_as_lost():
    async def run():
        async def fetch():
            raise HubUnreachableError("gone")

        asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
        flights = SingleFlight(limit=1)
        flights.join("key", fetch)
        await asyncio.sleep(0.01)
        gc.collect()
        assert "key" not in flights

    lost: list[object] = []
    asyncio.run(run())
    assert lost == []


def test_no_more_than_the_limit_are_under_way():
    async def run():
        flights = SingleFlight(limit=2)
        for key in "ab":
            flights.join(key, asyncio.Event().wait)
        flights.join("a", asyncio.Event().wait)
        with pytest.raises(HubBusyError):
            flights.join("c", asyncio.Event().wait)
        await flights.close()
        assert not flights.is_full

    asyncio.run(run())
