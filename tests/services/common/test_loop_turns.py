"""Turns on the event loop: one piece of work a pass, others first after a long one."""

import asyncio
from itertools import count

import pytest

from fitgauge.services.common import loop_turns
from fitgauge.services.common.loop_turns import LoopTurns

PASSES = 40


def passes_of(pieces, cancelled=()):
    """Return the pass of the event loop in which each of so many pieces of work computed; those
    `cancelled` are cancelled while they wait."""

    async def main():
        turns, numbers, now = LoopTurns(), {}, 0

        async def piece(number):
            await turns.take()
            numbers[number] = now

        tasks = [asyncio.create_task(piece(number)) for number in range(pieces)]
        for now in range(PASSES):
            await asyncio.sleep(0)
            if not now:
                for number in cancelled:
                    tasks[number].cancel()
        return numbers

    return asyncio.run(main())


@pytest.fixture
def seconds(monkeypatch):
    """Return a function that makes every piece of work take so long."""

    def take(length):
        clock = count()
        monkeypatch.setattr(loop_turns, "monotonic", lambda: next(clock) * length)

    return take


def test_pieces_compute_in_the_order_in_which_they_came_each_in_a_pass_of_its_own(seconds):
    seconds(0.001)
    numbers = passes_of(5)
    assert list(numbers) == [0, 1, 2, 3, 4]
    assert len(set(numbers.values())) == 5


def test_after_a_long_piece_others_have_as_many_passes_as_an_answer_takes(seconds):
    seconds(0.010)
    numbers = passes_of(3)
    assert numbers[1] - numbers[0] >= 8
    assert numbers[2] - numbers[1] >= 8


def test_a_piece_that_is_given_up_delays_no_other(seconds):
    seconds(0.001)
    without = passes_of(3)
    numbers = passes_of(5, cancelled=(1, 3))
    assert list(numbers) == [0, 2, 4]
    assert list(numbers.values()) == list(without.values())


def test_a_piece_whose_turn_comes_as_it_is_given_up_hands_it_on(seconds):
    seconds(0.001)

    async def main():
        turns, done = LoopTurns(), []

        async def piece(number):
            await turns.take()
            done.append(number)

        tasks = [asyncio.create_task(piece(number)) for number in range(3)]
        while not done:
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(tasks[1].cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        return done

    assert set(asyncio.run(main())) >= {0, 2}


def test_another_event_loop_does_not_wait_for_one_that_ended():
    turns = LoopTurns()
    for _ in range(2):
        asyncio.run(asyncio.wait_for(turns.take(), 60))
