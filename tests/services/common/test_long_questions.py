"""Work in threads: who goes first, who is refused, and what stops it."""

import asyncio
import threading

import pytest

from fitgauge.errors import QuestionTooLargeError, QueueFullError
from fitgauge.services.common import long_questions
from fitgauge.services.common.long_questions import MOST_QUESTIONS, LongQuestions


class Steps:
    """Work without an end that counts its steps."""

    def __init__(self):
        self.count = 0
        self.ended = threading.Event()

    def __call__(self, checkpoint):
        try:
            while True:
                checkpoint()
                self.count += 1
        finally:
            self.ended.set()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


@pytest.fixture
def ask():
    """Run a coroutine function of new LongQuestions, which are closed after it."""

    async def asked(scenario, **options):
        long = LongQuestions(**options)
        try:
            return await asyncio.wait_for(scenario(long), 60)
        finally:
            long.close()

    return lambda scenario, **options: asyncio.run(asked(scenario, **options))


def test_work_gives_its_result_and_its_error(ask):
    async def scenario(long):
        with pytest.raises(ValueError, match="7"):
            await long.run(lambda _: int("x7"))
        return await long.run(lambda _: 7)

    assert ask(scenario) == 7


def test_work_whose_caller_has_gone_makes_no_further_step(ask):
    async def scenario(long):
        steps = Steps()
        task = asyncio.create_task(long.run(steps))
        await until(lambda: steps.count)
        task.cancel()
        await until(steps.ended.is_set)
        stopped_at = steps.count
        assert await long.run(lambda _: "the next one") == "the next one"
        assert steps.count == stopped_at
        await until(lambda: long.under_way == 0)

    ask(scenario)


def test_work_whose_caller_has_gone_while_it_waits_never_begins(ask):
    async def scenario(long):
        first, second = Steps(), Steps()
        tasks = [asyncio.create_task(long.run(steps, large=True)) for steps in (first, second)]
        await until(lambda: first.count and long.under_way == 2)
        tasks[1].cancel()
        await until(lambda: long.under_way == 1)
        tasks[0].cancel()
        await until(lambda: long.under_way == 0)
        assert second.count == 0

    ask(scenario)


def test_short_work_goes_before_long_work_that_came_first(ask):
    async def scenario(long):
        endless = [Steps() for _ in range(6)]
        tasks = [asyncio.create_task(long.run(steps, large=True)) for steps in endless]
        await until(lambda: endless[0].count)
        assert await long.run(lambda _: "short") == "short"
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()

    ask(scenario)


def test_only_one_piece_of_work_is_computed_at_a_time(ask):
    computing, most = [0], [0]

    def work(checkpoint):
        computing[0] += 1
        most[0] = max(most[0], computing[0])
        computing[0] -= 1
        for _ in range(1000):
            checkpoint()

    async def scenario(long):
        await asyncio.gather(*(long.run(work) for _ in range(MOST_QUESTIONS)))

    ask(scenario)
    assert most == [1]


def test_a_full_queue_refuses_with_the_seconds_to_wait(ask):
    async def scenario(long):
        tasks = [asyncio.create_task(long.run(Steps())) for _ in range(MOST_QUESTIONS)]
        await until(lambda: long.under_way == MOST_QUESTIONS)
        with pytest.raises(QueueFullError) as refused:
            await long.run(lambda _: None)
        assert refused.value.retry_after_seconds >= 1
        assert await long.resume(lambda _: "begun before") == "begun before"
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        assert await long.run(lambda _: "a place is free") == "a place is free"
        for task in tasks:
            task.cancel()

    ask(scenario)


@pytest.mark.parametrize(
    ("processor_seconds", "refusal"), [(1.0, QuestionTooLargeError), (0.1, QueueFullError)]
)
def test_work_is_too_large_by_what_it_computes_and_refused_where_the_machine_is_busy(
    ask, monkeypatch, processor_seconds, refusal
):
    """A second of the clock gives all of a processor, or a tenth of it."""
    now = [0.0]
    monkeypatch.setattr(long_questions, "monotonic", lambda: now[0])
    monkeypatch.setattr(long_questions, "thread_time", lambda: now[0] * processor_seconds)

    async def scenario(long):
        came = threading.Event()

        def work(checkpoint):
            came.wait()
            while True:
                now[0] += 1
                checkpoint()

        tasks = [asyncio.create_task(long.run(work, large=True)) for _ in range(3)]
        await until(lambda: long.under_way == 3)
        came.set()
        return [type(result) for result in await asyncio.gather(*tasks, return_exceptions=True)]

    assert ask(scenario, seconds=20) == [refusal, QueueFullError, QueueFullError]


def test_what_is_stopped_while_it_waits_leaves_the_turn_to_what_has_it(ask, monkeypatch):
    monkeypatch.setattr(long_questions, "_SLICE_SECONDS", 0.0)
    computing, most = set(), [0]

    def work(checkpoint):
        while True:
            computing.add(threading.get_ident())
            most[0] = max(most[0], len(computing))
            computing.discard(threading.get_ident())
            checkpoint()

    async def scenario(long):
        large = asyncio.create_task(long.run(work, large=True))
        await until(lambda: most[0])
        small = Steps()
        tasks = [asyncio.create_task(long.run(work)) for _ in range(4)] + [
            asyncio.create_task(long.run(small))
        ]
        await until(lambda: long.under_way == 6)
        large.cancel()
        await until(lambda: long.under_way == 5)
        for task in tasks[:4]:
            task.cancel()
        await until(lambda: small.count)
        assert long.under_way == 1
        tasks[4].cancel()

    ask(scenario)
    assert most == [1]


def test_work_that_makes_no_checkpoint_holds_up_nobody_and_is_given_up(ask, monkeypatch):
    monkeypatch.setattr(long_questions, "_STALLED_SECONDS", 0.05)
    monkeypatch.setattr(long_questions, "_WAIT_SECONDS", 0.0)
    release = threading.Event()

    async def scenario(long):
        stalled = asyncio.create_task(long.run(lambda _: release.wait()))
        await until(lambda: long.under_way)
        short = [await long.run(lambda _: "short") for _ in range(3)]
        with pytest.raises(QuestionTooLargeError):
            await stalled
        release.set()
        await until(lambda: not long.under_way)
        return short

    assert ask(scenario, seconds=0.5) == ["short"] * 3


def test_nothing_runs_after_the_end(ask):
    async def scenario(long):
        steps = Steps()
        task = asyncio.create_task(long.run(steps))
        await until(lambda: steps.count)
        long.close()
        await until(steps.ended.is_set)
        await asyncio.wait([task])
        with pytest.raises(QueueFullError):
            await long.run(lambda _: None)

    ask(scenario)
