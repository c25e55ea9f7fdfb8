"""A fleet: 500 models x 50 GPUs x 4 loads, in seconds of one core, and what a million rows cost."""

import asyncio
import gc
import time

from bundled_models import SNAPSHOT, offline_models
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.garbage import collect_rarely
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fleet.fleet_file import read_fleet
from fitgauge.services.fleet.service import WHOLE, FleetService
from fitgauge.services.fleet.summary import FleetSummary

MODELS, GPUS = 500, 50
LOADS = ((8192, 1), (8192, 16), (32768, 4), (4096, 64))


def fleet_text():
    """Return the file: bundled models, and GPUs that clouds rent, the commonest first."""
    offered = {}
    for offer in bundled().offers.all():
        offered[offer.accelerator_id] = offered.get(offer.accelerator_id, 0) + 1
    gpus = sorted(offered, key=lambda one: (-offered[one], one))
    gpus += [one.id for one in bundled().all() if one.id not in offered]
    loads = [
        f'[[loads]]\nname = "{length} x {number}"\n'
        f"context_length = {length}\nconcurrency = {number}"
        for length, number in LOADS
    ]
    models = sorted(SNAPSHOT.own_ids)[:MODELS]
    return "\n".join((f"models = {models}", f"gpus = {gpus[:GPUS]}", *loads))


async def answered(text):
    """Return (rows, seconds for them, seconds for the plans)."""
    models = offline_models()
    service = FleetService(models.find, Checkpoints(models), load_engines(), bundled())
    start = time.process_time()
    question = service.question(read_fleet(text))
    summary, rows = FleetSummary(question, WHOLE), 0
    async for batch in service.batches(question, {}):
        summary.add(batch)
        rows += len(batch.rows)
    between = time.process_time()
    summary.answer()
    return rows, between - start, time.process_time() - between


def lines():
    """Return the lines to print."""
    thresholds = gc.get_threshold()
    collect_rarely()  # as the command does
    rows, seconds, planning = asyncio.run(answered(fleet_text()))
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    million = seconds / rows * 1e6
    yield f"fleet, {rows:,} rows            {seconds:8.1f} s of CPU   (at most 5)"
    rate = rows / seconds
    yield f"fleet, a million rows           {million:8.0f} s of CPU   ({rate:,.0f} rows/s)"
    yield f"fleet, plans of {MODELS} models      {planning:8.1f} s of CPU"
