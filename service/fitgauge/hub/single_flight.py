"""Single flight: whoever asks for a thing that is being fetched waits for that fetch."""

import asyncio
import copy
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from fitgauge.errors import FitgaugeError, HubBusyError, HubUnreachableError

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SingleFlight(Generic[Key, Value]):
    """Tasks by key, at most `limit` of them. A task belongs to no caller: it lives on when all
    who wait for it have left."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tasks: dict[Key, asyncio.Task[Value]] = {}

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._tasks)

    def __contains__(self, key: Key) -> bool:
        return key in self._tasks

    @property
    def is_full(self) -> bool:
        """Whether no other may start."""
        return len(self._tasks) >= self._limit

    def join(
        self, key: Key, fetch: Callable[[], Coroutine[Any, Any, Value]]
    ) -> asyncio.Task[Value]:
        """Return the task that fetches `key`, started where there is none. Raises HubBusyError
        where too many are under way."""
        if (task := self._tasks.get(key)) is not None:
            return task
        if self.is_full:
            raise HubBusyError(
                "Too many lookups of models at once.",
                retry_after_seconds=1.0,
                hint="Retry in a second.",
            )
        task = asyncio.get_running_loop().create_task(_without_frames(fetch()))
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._landed(key, done))
        return task

    def _landed(self, key: Key, task: asyncio.Task[Value]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # marks it as seen: its callers may all have left

    async def close(self) -> None:
        """Cancel every task and waits until all have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _without_frames(fetch: Coroutine[Any, Any, Value]) -> Value:
    """Await the fetch. An error is raised as a copy: it refers to frames, and they to bodies."""
    try:
        return await fetch
    except FitgaugeError as error:
        failure = copy.copy(error)
    raise failure


async def outcome(task: asyncio.Task[Value], seconds: float) -> Value:
    """Return the task's result, or its error. Raises TimeoutError after `seconds`; the task goes
    on, also when this caller is cancelled."""
    done, _ = await asyncio.wait({task}, timeout=max(seconds, 0.0))
    if not done:
        raise TimeoutError
    if task.cancelled():
        raise HubUnreachableError("The service is shutting down.")
    if error := task.exception():
        # one error object serves every caller: without this each would add its frames to the same
        # traceback
        raise error.with_traceback(None)
    return task.result()
