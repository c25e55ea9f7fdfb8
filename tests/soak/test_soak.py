"""The short form of `make soak`: each fault has its status, nothing is lost, memory stays."""

import asyncio
import re

import pytest

from hub_stand_in import HubStandIn
from live.process import running
from soak import memory
from soak.faults import FAULTS, stages
from soak.rolling import rolling_restart
from soak.run import PAGE, measured


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return what callers saw of each fault, and others at the same time, by the fault's name."""
    return {
        fault.name: stage and measured(fault, stage, 1.0, 20, questions=2)
        for fault, stage in stages(tmp_path_factory.mktemp("faults"))
    }


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_its_one_status_and_others_are_answered(fault, table):
    if table[fault.name] is None:
        pytest.skip("no Valkey or Redis")
    seen, others, _ = table[fault.name]
    assert (set(seen.statuses), seen.lost) == ({fault.status}, 0)
    assert (set(others.statuses) | {200}, others.lost) == ({200}, 0)


def test_a_rolling_restart_loses_no_request(tmp_path):
    with HubStandIn() as hub:
        seen, replaced, codes = asyncio.run(rolling_restart(hub.url, tmp_path, 2000))
    assert (set(seen.statuses), seen.lost, codes) == ({200}, 0, [])
    assert seen.answered >= 2000
    assert replaced >= 2


def test_memory_stays_in_its_bound_after_every_endpoint_was_asked(tmp_path):
    with HubStandIn() as hub, running(hub.url, tmp_path) as service:
        statuses, once, growth = memory.memory_over(service, 20)
    assert set(statuses.values()) == {200}, statuses
    assert once <= 130
    assert growth <= 0.05  # within seconds of the first questions; `make soak` holds 2 %


def test_the_page_holds_every_fault_with_its_status():
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|", PAGE.read_text(), re.M)
    assert {(fault.what, str(fault.status)) for fault in FAULTS} <= set(rows)
