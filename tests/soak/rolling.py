"""A rolling restart as the chart's strategy has it: the next pod is ready before one goes, and one
that goes leaves the Service first and answers on for a while."""

import asyncio
import time
from contextlib import ExitStack

from live.process import running
from soak.load import closed_loop

PRE_STOP_SECONDS = 1.0


class Replicas:
    """Replicas behind a Service: `endpoints` are the ports of those that are ready."""

    def __init__(self, hub_url, folder):
        self.hub_url, self.folder = hub_url, folder
        self.endpoints, self.live, self.started = [], [], 0
        self.codes = []

    def start(self):
        """Start one more and wait until it is ready."""
        stack = ExitStack()
        folder = self.folder / f"replica-{self.started}"
        folder.mkdir()
        self.started += 1
        service = stack.enter_context(running(self.hub_url, folder))
        self.live.append((service, stack))
        self.endpoints.append(service.port)

    def take_out(self):
        """Take the oldest out of the Service, and return it."""
        service, stack = self.live.pop(0)
        self.endpoints.remove(service.port)
        return service, stack

    def close(self):
        for _, stack in self.live:
            stack.close()


async def rolling_restart(hub_url, folder, requests, connections=16):
    """Restart two replicas one by one, over and over, until so many requests are answered. Return
    (what callers saw, replicas replaced, exit codes other than 0)."""
    replicas = Replicas(hub_url, folder)
    for _ in range(2):
        replicas.start()
    callers = asyncio.create_task(
        closed_loop(replicas.endpoints, connections, lambda seen: seen.answered >= requests)
    )
    replaced = []
    try:
        while not callers.done() or len(replaced) < 2:
            await asyncio.to_thread(replicas.start)
            service, stack = replicas.take_out()
            await asyncio.sleep(PRE_STOP_SECONDS)
            replaced.append(await asyncio.to_thread(service.terminate))
            stack.close()
        return await callers, len(replaced), [code for code in replaced if code]
    finally:
        callers.cancel()
        replicas.close()


async def killed_worker(hub_url, folder, seconds, connections=8):
    """Kill one of two replicas under load and start another. Return (what callers saw, seconds
    until there are two again)."""
    replicas = Replicas(hub_url, folder)
    for _ in range(2):
        replicas.start()
    over = asyncio.Event()
    callers = asyncio.create_task(
        closed_loop(replicas.endpoints, connections, lambda seen: over.is_set())
    )
    try:
        await asyncio.sleep(seconds / 2)
        service, stack = replicas.take_out()
        began = time.perf_counter()
        service.popen.kill()
        await asyncio.to_thread(replicas.start)
        again = time.perf_counter() - began
        stack.close()
        await asyncio.sleep(seconds / 2)
        over.set()
        return await callers, again
    finally:
        callers.cancel()
        replicas.close()
