"""`make soak`: every fault, a rolling restart, open-loop load and memory, written to
docs/RELIABILITY.md.

    python tests/soak/run.py [--short]
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from hub_stand_in import HubStandIn, safetensors_repository
from live.process import running
from live.store import SERVER, Store
from soak import memory
from soak.faults import stages
from soak.load import Link, Outcome, open_loop, request
from soak.rolling import killed_worker, rolling_restart

PAGE = Path(__file__).parents[2] / "docs" / "RELIABILITY.md"
FULL = {"seconds": 10.0, "rate": 100, "requests": 100_000, "memory_seconds": 600, "starts": 5}
SHORT = {"seconds": 2.0, "rate": 20, "requests": 2_000, "memory_seconds": 60, "starts": 3}


async def _answers(port, questions):
    """Return what questions are answered with, one after the other, on a connection each."""
    outcome = Outcome()
    for data in questions:
        began = time.perf_counter()
        link = await Link.to(port)
        try:
            status, _ = await link.ask(data)
            outcome.add(status, time.perf_counter() - began)
        except (OSError, EOFError):
            outcome.lost += 1
        link.close()
    return outcome


async def _meanwhile(port, questions, seconds, rate, others):
    """Return what concerned callers saw, and the others under open-loop load at the same time."""
    load = open_loop([port], rate, seconds) if others else asyncio.sleep(0, Outcome())
    return await asyncio.gather(_answers(port, questions), load)


def measured(fault, stage, seconds, rate, questions=5):
    """Return (what concerned callers saw, what others saw, seconds from the end of the fault
    until the answer is 200, or None where it is no such fault)."""
    fault.begin(stage)
    try:
        asked = [fault.question(stage) for _ in range(questions)]
        others = not fault.concerns_all
        seen, felt = asyncio.run(_meanwhile(stage.service.port, asked, seconds, rate, others))
    finally:
        fault.end(stage)
    return seen, felt, _recovered(stage, fault) if fault.status in (424, 200) else None


def _recovered(stage, fault):
    began = time.perf_counter()
    while time.perf_counter() - began < 90:
        if asyncio.run(_answers(stage.service.port, [stage.new_model()])).statuses == {200: 1}:
            return time.perf_counter() - began
        time.sleep(0.25)
    raise RuntimeError(f"{fault.name}: no answer 90 s after the end")


def models_resolved_once(folder, store, models=10):
    """Return how often two replicas asked the Hub for each model's config."""
    names = [f"acme/shared-{number}" for number in range(models)]
    settings = {"FITGAUGE_SHARED_STATE": store.url, "FITGAUGE_LOG_LEVEL": "error"}
    folders = [folder / "first", folder / "second"]
    for own in folders:
        own.mkdir(parents=True)
    with (
        HubStandIn(*map(safetensors_repository, names)) as hub,
        running(hub.url, folders[0], **settings) as first,
        running(hub.url, folders[1], **settings) as second,
    ):
        time.sleep(2.5)  # each looks for the store every second
        asked = [request("/v1/fit", {"model": name, "gpu": "H100"}) for name in names]
        for service in (first, second):
            asyncio.run(_answers(service.port, asked))
        return [hub.count(f"/{name}/resolve/") for name in names]


def row(name, status, seen, others, again):
    """Return a line of the table."""
    statuses = ", ".join(f"{count} x {code}" for code, count in sorted(seen.statuses.items()))
    felt = "-"
    if others.answered:
        wrong = others.answered - others.statuses.get(200, 0) + others.lost
        felt = f"{others.percentile(50):.0f} / {others.percentile(99):.0f} ms, {wrong} wrong"
    back = "-" if again is None else f"{again:.1f} s"
    return f"| {name} | {status} | {statuses}, {seen.lost} lost | {felt} | {back} |"


def faults_table(folder, seconds, rate):
    """Return the table of faults, and those that were answered otherwise."""
    rows, wrong = [], []
    for fault, stage in stages(folder):
        if stage is None:
            rows.append(f"| {fault.what} | {fault.status} | not run: no store | - | - |")
            continue
        seen, others, again = measured(fault, stage, seconds, rate)
        rows.append(row(fault.what, fault.status, seen, others, again))
        right = set(seen.statuses) == {fault.status} and not seen.lost and not others.lost
        wrong += [] if right and set(others.statuses) <= {200} else [fault.name]
        sys.stdout.write(f"{rows[-1]}\n")
    return rows, wrong


def page(folder, form):
    """Return the page and what is not as it must be."""
    rows, wrong = faults_table(folder, form["seconds"], form["rate"])
    with HubStandIn() as hub:
        for name in ("killed", "rolling", "ready", "load", "memory"):
            folder.joinpath(name).mkdir()
        killed, again = asyncio.run(killed_worker(hub.url, folder / "killed", form["seconds"]))
        rows.append(row("one of two replicas is killed", 200, killed, Outcome(), again))
        rolled, replaced, codes = asyncio.run(
            rolling_restart(hub.url, folder / "rolling", form["requests"])
        )
        rows.append(row(f"{replaced} rolling restarts", 200, rolled, Outcome(), None))
        wall, cpu = memory.seconds_to_ready(hub.url, folder / "ready", form["starts"])
        with running(hub.url, folder / "load") as service:
            load = asyncio.run(open_loop([service.port], 10 * form["rate"], form["seconds"]))
        with running(hub.url, folder / "memory") as service:
            asked, once, growth = memory.memory_over(service, form["memory_seconds"])
    resolved = "no server"
    if SERVER:
        folder.joinpath("store").mkdir()
        store = Store(folder / "store")
        store.start()
        counts = models_resolved_once(folder, store)
        store.kill()
        resolved = f"{sum(counts)} requests for {len(counts)} models"
        wrong += ["resolved"] if set(counts) != {1} else []
    bounds = [
        ("ready after a start, the best of the starts", f"{wall:.2f} s, {cpu:.2f} s of CPU",
         "1.0 s", cpu <= 1.0),
        (f"memory (PSS) after {len(asked)} endpoints were asked once", f"{once:.0f} MiB",
         "125 MiB", once <= 125),
        (f"its growth over {form['memory_seconds']:.0f} s of the same questions",
         f"{100 * growth:+.1f} %", "2 %", growth <= 0.02),
        (f"requests lost in rolling restarts, of {rolled.answered:,}", f"{rolled.lost}", "0",
         not rolled.lost and not codes and set(rolled.statuses) == {200}),
        ("the Hub is asked by two replicas that share a store", resolved, "once a model", True),
    ]  # fmt: skip
    wrong += [what for what, _, _, holds in bounds if not holds]
    wrong += [what for what, status in asked.items() if status != 200]
    table = [f"| {what} | {value} | {bound} |" for what, value, bound, _ in bounds]
    return TEXT.format(
        cores=os.cpu_count(), busy=os.getloadavg()[0], rows="\n".join(rows), rate=form["rate"],
        bounds="\n".join(table), seconds=form["seconds"], fast=10 * form["rate"],
        load=" | ".join(f"{load.percentile(share):.1f}" for share in (50, 90, 99, 99.9)),
        worst=load.percentile(100), answered=load.answered, lost=load.lost,
    ), wrong  # fmt: skip


TEXT = """# Reliability

What faults do to callers, measured by `make soak` on {cores} cores with a load average of
{busy:.0f}: latencies and seconds are those of that machine, statuses and losses the service's own.

## Faults

Five questions about models that nobody asked for (or the ill request itself) while the fault
lasts, and {rate} requests a second about a bundled model by other callers,
sent whether or not earlier ones are answered: their median and 99th
percentile from the moment a request was due.

| Fault | The one status | Answers | Other callers | 200 again after |
|---|---|---|---|---|
{rows}

424 and 503 have `Retry-After`. A replica that is killed loses the requests that it was answering;
nothing else does.

## Bounds

| | Measured | At most |
|---|---|---|
{bounds}

## Load

{fast} requests a second for {seconds:.0f} s to one process, open loop, {answered:,} answered,
{lost} lost [ms]:

| p50 | p90 | p99 | p99.9 | longest |
|---|---|---|---|---|
| {load} | {worst:.1f} |

What attacks on one process cost other callers: `make bench`. Bounds of connections, heads and
bodies: [the server](SERVER.md).
"""


def main(*arguments):
    """Write the page, and end with code 1 where something is not as it must be."""
    with tempfile.TemporaryDirectory() as folder:
        text, wrong = page(Path(folder), SHORT if "--short" in arguments else FULL)
    PAGE.write_text(text)
    raise SystemExit(f"not as it must be: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
