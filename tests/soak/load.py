"""Callers on kept-alive connections: at a rate of their own (open loop), or each as soon as it is
answered."""

import asyncio
import json
import re
import statistics
import time
from dataclasses import dataclass, field

WARM = ("/v1/fit", {"model": "Qwen/Qwen3-8B", "gpu": "H100"})
"""a question about a bundled model, which needs nobody"""


def request(path, question, method="POST"):
    """Return the bytes of a request."""
    body = json.dumps(question).encode() if question is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


@dataclass
class Outcome:
    """What callers saw: statuses, requests that were sent and never answered, seconds of each."""

    statuses: dict[int, int] = field(default_factory=dict)
    lost: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, status, seconds):
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.seconds.append(seconds)

    @property
    def answered(self):
        return len(self.seconds)

    def percentile(self, share):
        """Return a percentile of the latencies [ms]."""
        if len(self.seconds) < 2:
            return max(self.seconds, default=0.0) * 1000
        cuts = statistics.quantiles(self.seconds, n=1000, method="inclusive")
        return cuts[min(round(share * 10), 999) - 1] * 1000


class Link:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port):
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**20))

    async def ask(self, data):
        """Return the status and whether the service closes. Raise OSError or EOFError where it
        does not answer."""
        self.writer.write(data)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"content-length: (\d+)", head)
        await self.reader.readexactly(int(length[1]) if length else 0)
        return int(head[9:12]), b"connection: close" in head

    def close(self):
        self.writer.close()


def _open(links):
    """Yield links from the end of the list, without those that the service closed meanwhile."""
    while links:
        link = links.pop()
        if link.reader.at_eof():
            link.close()
        else:
            yield link


async def open_loop(ports, rate, seconds, data=None):
    """Send `rate` requests a second whether or not earlier ones are answered; a latency counts from
    the moment a request was due. Requests go to the ports in turns."""
    outcome, idle, tasks = Outcome(), {port: [] for port in ports}, set()
    data = data or request(*WARM)

    async def one(port, due):
        try:
            link = next(_open(idle[port]), None) or await Link.to(port)
            status, closes = await link.ask(data)
        except (OSError, EOFError):
            outcome.lost += 1
            return
        outcome.add(status, time.perf_counter() - due)
        if closes:
            link.close()
        else:
            idle[port].append(link)

    start = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = start + number / rate
        await asyncio.sleep(max(0, due - time.perf_counter()))
        task = asyncio.create_task(one(ports[number % len(ports)], due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for link in (link for links in idle.values() for link in links):
        link.close()
    return outcome


async def closed_loop(endpoints, connections, is_enough):
    """Ask on so many connections until what they saw is enough. `endpoints` is a list of ports that
    may change meanwhile, as those of a Service do; a connection that is told to close opens the
    next to one of them."""
    outcome, turn, data = Outcome(), 0, request(*WARM)

    async def caller():
        nonlocal turn
        link = None
        while not is_enough(outcome):
            try:
                if link is None:
                    turn += 1
                    link = await Link.to(endpoints[turn % len(endpoints)])
                began = time.perf_counter()
                status, closes = await link.ask(data)
            except (OSError, EOFError):
                outcome.lost += 1
                link = None
                continue
            outcome.add(status, time.perf_counter() - began)
            if closes:
                link.close()
                link = None
        if link:
            link.close()

    await asyncio.gather(*(caller() for _ in range(connections)))
    return outcome
