"""What the allocator holds beyond PyTorch's peak, read anew off the published runs that print two counters (training_gpu.jsonl)."""

import json
from pathlib import Path
from statistics import median

import pytest

from fitgauge.catalog.training import load_training

ROWS = [json.loads(line) for line in Path(__file__).with_name("training_gpu.jsonl").read_text().splitlines()]
CONTEXT_GIB = load_training().runtime_bytes.expected / 2**30
FULL_GIB = 72
"""Above it an 80 GB card shows cache, not need."""


def shares(several):
    """(what the process reserved) / (what was allocated at the peak) - 1 of runs on one GPU, or on several."""
    found = []
    for row in ROWS:
        measured = row["measured"]
        allocated = measured.get("peak_allocated_gib") or measured.get("peak_active_gib")
        if not allocated or ((row.get("gpu_count") or 1) > 1) != several:
            continue
        seen, reserved = measured.get("nvidia_smi_gib"), measured.get("peak_reserved_gib")
        if reserved:
            found.append(reserved / allocated - 1)
        elif seen and seen < FULL_GIB:
            found.append((seen - CONTEXT_GIB) / allocated - 1)
    return sorted(found)


@pytest.mark.parametrize(("framework", "several"), [("transformers", False), ("fsdp", True)])
def test_fragmentation_is_the_median_of_the_published_runs_and_its_interval_holds_nine_of_ten(framework, several):
    share, found = load_training().fragmentation[framework], shares(several)
    assert share.runs == len(found) >= 12
    assert share.expected == pytest.approx(median(found), abs=0.02)
    inside = sum(share.low <= value <= share.high for value in found)
    assert inside >= 0.85 * len(found)
