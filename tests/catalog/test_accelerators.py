"""The accelerator catalog: its rows are well formed, sourced, and agree with one another."""

import re
from itertools import pairwise
from statistics import median

import msgspec
import pytest

from fitgauge.catalog.accelerators import load
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.accelerator import Accelerator, custom, native_formats
from fitgauge.engine.quantity import GB, GIB, MIB
from fitgauge.errors import UnknownAcceleratorError

ROWS = load().all()
FACTS = tuple(
    set(Accelerator.__struct_fields__)
    - {"id", "name", "vendor", "usable_basis", "sources", "derived_from", "unified_memory"}
    - {"availability"}
)


def each(rows):
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in rows])


def total(row):
    """Return what the vendor's tool shows [bytes], else the marketed size with its GB taken as
    GiB."""
    return row.total_bytes or row.marketed_bytes // GB * GIB


def test_there_are_many_rows():
    assert len(ROWS) >= 300


def test_ids_are_slugs_in_order_and_names_are_unique():
    ids = [row.id for row in ROWS]
    assert sorted(set(ids)) == ids
    assert all(set(row_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for row_id in ids)
    assert len({row.name.lower() for row in ROWS}) == len(ROWS)


@each(ROWS)
def test_every_fact_of_a_row_has_a_source_and_no_source_is_empty(row):
    sourced = {source.of for source in row.sources}
    assert {fact for fact in FACTS if getattr(row, fact) is not None} <= sourced
    assert all(len(source.text) >= 4 for source in row.sources)


@each(ROWS)
def test_what_is_not_sold_says_why_and_what_a_cloud_rents_is(row):
    if row.availability != "sold":
        assert "availability" in {source.of for source in row.sources}
        assert not bundled().offers.of(row.id)
    assert (row.availability == "laptop") == (" Laptop" in row.name)
    assert (row.availability == "slice") == row.id.startswith("mig-")
    assert (row.availability == "integrated") == row.unified_memory


@each(ROWS)
def test_usable_memory_is_an_interval_within_reach_of_the_box(row):
    assert row.usable.low <= row.usable.expected <= row.usable.high
    # 80 GB may be 80 GiB, 1.074 as much; TPU v5p shows 95.74 GiB of its 95 GB
    assert row.usable.high <= row.marketed_bytes * 1.085
    assert row.usable.low >= row.marketed_bytes * 0.5
    if row.total_bytes is not None:
        assert row.usable.high <= row.total_bytes
        assert row.total_bytes <= row.marketed_bytes * 1.085


@each(row for row in ROWS if row.derived_from)
def test_usable_memory_that_nobody_printed_is_arithmetic_on_the_rows_it_names(row):
    """NVIDIA, AMD: the total less what the driver keeps on the neighbours. Others and unified
    memory: their share of the total."""
    near = [load().get(accelerator_id) for accelerator_id in row.derived_from]
    assert all(one.usable_basis == "exact" and not one.derived_from for one in near)
    if row.unified_memory or row.vendor not in ("NVIDIA", "AMD"):
        low = total(row) * min(one.usable.low / total(one) for one in near)
        expected = total(row) * median(one.usable.expected / total(one) for one in near)
    else:
        low = total(row) - max(total(one) - one.usable.low for one in near)
        expected = total(row) - median(total(one) - one.usable.expected for one in near)
    assert row.usable.low == pytest.approx(low, abs=2 * MIB)
    if "Laptop" in row.name:
        assert row.usable.expected == row.usable_windows_bytes
    else:
        assert row.usable.expected == pytest.approx(expected, abs=2 * MIB)
        assert row.usable_basis in ("calibrated", "assumed")


@each(row for row in ROWS if row.usable_windows_bytes is not None)
def test_windows_shows_no_less_than_linux(row):
    assert row.usable.low <= row.usable_windows_bytes <= total(row)


@each(row for row in ROWS if row.vendor == "NVIDIA")
def test_every_nvidia_row_has_a_compute_capability(row):
    assert row.compute_capability is not None
    assert row.formats is not None


COMPUTED = [
    (row, source) for row in ROWS for source in row.sources if source.text.startswith("computed:")
]


def test_many_peaks_are_computed_from_units_rate_and_clock():
    assert len(COMPUTED) >= 300
    assert {source.of for _, source in COMPUTED} == {
        "bf16_tflops_dense",
        "fp8_tflops_dense",
        "fp4_tflops_dense",
        "int8_tops_dense",
    }


def test_a_computed_peak_is_the_product_its_source_states():
    for row, source in COMPUTED:
        stated = re.match(
            r"computed: (\d+) (?:SM|CU)s x (\d+) (?:FL)?OP a clock x ([\d.]+) GHz", source.text
        )
        units, rate, clock = map(float, stated.groups())
        assert getattr(row, source.of) == pytest.approx(units * rate * clock / 1000, rel=1e-3), (
            row.id,
            source,
        )


def test_a_card_with_fp8_units_is_faster_in_fp8_than_in_bf16():
    for row in ROWS:
        if row.fp8_tflops_dense and row.bf16_tflops_dense and row.vendor == "NVIDIA":
            assert "fp8" in (row.formats or ())
            assert row.fp8_tflops_dense >= 1.9 * row.bf16_tflops_dense
        if row.fp4_tflops_dense:
            assert "fp4" in (row.formats or ())


@pytest.mark.parametrize(
    "accelerator_id, gib",
    [
        ("h100-sxm-80gb", 79.19),
        ("h200-sxm-141gb", 139.8),
        ("a100-80gb-sxm", 79.25),
        ("b200-192gb", 178.36),
        ("rtx-4090-24gb", 23.64),
        ("l4-24gb", 22.16),
    ],
)
def test_well_known_cards_show_what_processes_were_seen_to_get(accelerator_id, gib):
    assert load().get(accelerator_id).usable.expected / GIB == pytest.approx(gib, rel=0.003)


@pytest.mark.parametrize(
    "accelerator_id, first, second",
    [
        ("v100-32gb", False, False),
        ("t4-16gb", True, False),
        ("rtx-3090-24gb", True, True),
        ("mi300x-192gb", True, True),
    ],
)
def test_flash_attention_needs_turing_and_its_second_version_ampere(accelerator_id, first, second):
    row = load().get(accelerator_id)
    assert (row.flash_attention, row.flash_attention_2) == (first, second)


def test_flash_attention_of_an_unknown_architecture_is_unknown():
    row = load().get("tpu-v4-32gb")
    assert (row.flash_attention, row.flash_attention_2, row.formats) == (None, None, None)


@pytest.mark.parametrize(
    "compute_capability, formats",
    [
        ((3, 7), ()),
        ((6, 0), ("fp16",)),
        ((7, 0), ("fp16",)),
        ((7, 5), ("fp16", "int8")),
        ((8, 6), ("fp16", "bf16", "int8")),
    ],
)
def test_formats_before_fp8(compute_capability, formats):
    assert native_formats(compute_capability, None) == formats


def test_formats_grow_with_compute_capability_from_turing_on():
    ladder = [
        set(native_formats(step, None))
        for step in ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
    ]
    assert all(older <= newer for older, newer in pairwise(ladder))
    assert "fp4" in ladder[-1]
    assert "fp4" not in ladder[3]


def test_a_custom_card_is_all_usable():
    card = custom(80 * GB, "80 GB")
    assert (card.id, card.usable.low, card.usable.high, card.compute_capability) == (
        "custom-80gb",
        80 * GB,
        80 * GB,
        None,
    )


def test_an_unknown_id_is_refused():
    with pytest.raises(UnknownAcceleratorError):
        load().get("rtx-9999")


def test_a_row_with_a_field_that_is_not_known_is_refused():
    row = msgspec.to_builtins(ROWS[0]) | {"usable_gb": 1}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(row, Accelerator)


def test_slices_of_one_card_have_bandwidth_as_they_have_memory():
    cards: dict[str, dict[int, float]] = {}
    for row in load().all():
        if found := re.fullmatch(r"MIG (\d)g\.\d+gb \((.+)\)", row.name):
            cards.setdefault(found[2], {}).setdefault(int(found[1]), row.bandwidth_gbps)
    assert len(cards) >= 9
    for card, by_slices in cards.items():
        if {3, 4} <= by_slices.keys():
            assert by_slices[3] == by_slices[4], card
        if {2, 4} <= by_slices.keys():
            assert by_slices[2] * 2 == pytest.approx(by_slices[4], abs=0.2), card
