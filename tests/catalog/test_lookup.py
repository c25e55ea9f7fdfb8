"""What people type becomes one row and a count, or an error that says what to type instead."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitgauge.catalog.accelerators import load
from fitgauge.catalog.catalog import bundled
from fitgauge.errors import FitgaugeError, InvalidRequestError, UnknownAcceleratorError

find = bundled().find

SPELLINGS = [
    line.split("\t")
    for line in (Path(__file__).parent / "data" / "spellings.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


def test_there_are_hundreds_of_spellings():
    assert len({text for text, _, _ in SPELLINGS}) >= 600


@pytest.mark.parametrize("text, accelerator_id, count", SPELLINGS)
def test_a_spelling_means_its_row_and_count(text, accelerator_id, count):
    found = find(text)
    assert (found.accelerator.id, found.count) == (accelerator_id, int(count))


@pytest.mark.parametrize("row", load().all(), ids=lambda row: row.id)
def test_every_id_and_name_finds_its_own_row(row):
    for text in (row.id, row.name, row.name.upper(), row.name.replace(" ", "-"), f"  {row.name}  "):
        assert find(text).accelerator == row
    assert (find(f"4x {row.name}").accelerator, find(f"4x {row.name}").count) == (row, 4)


def test_every_row_has_a_pattern_and_every_pattern_a_row():
    assert {pattern.accelerator.id for pattern in load().patterns} == set(load().by_id)
    assert all(pattern.needed for pattern in load().patterns)


@pytest.mark.parametrize(
    "text, other",
    [
        ("a100", "A100 40GB SXM"),
        ("h100", "H100 PCIe"),
        ("m2 ultra", "192GB"),
        ("3g.40gb", "H100 80GB"),
        ("v100", "V100 32GB"),
    ],
)
def test_an_ambiguous_name_says_what_else_it_may_mean(text, other):
    assert other in find(text).note


@pytest.mark.parametrize(
    "text",
    ["RTX 4090", "A100 80GB SXM", "h100 pcie", "NVIDIA-H100-80GB-HBM3", "m3 max 64gb", "MI300X"],
)
def test_a_plain_name_needs_no_note(text):
    assert find(text).note is None


def test_a_card_of_two_devices_and_a_machine_of_eight_are_explained():
    assert "two of these" in find("MI250X").note
    assert "board of this name has 8" in find("hgx h100").note
    assert "has 72" in find("gb200 nvl72").note


@pytest.mark.parametrize("text", ["DGX H100", "NVIDIA DGX A100", "1x DGX B200", "DGX-H200"])
def test_a_dgx_has_all_gpus_of_its_machine(text):
    assert find(text).count == 8
    assert "One DGX has 8 x" in find(text).note


@pytest.mark.parametrize("text, count", [("4x DGX H100", 4), ("DGX Spark", 1), ("HGX H200", 1)])
def test_a_count_before_a_dgx_is_of_gpus_and_other_names_are_of_one(text, count):
    assert find(text).count == count


@pytest.mark.parametrize("end", ["on WSL2", "WSL", "(WSL2)", "on Windows 11", "under wsl"])
def test_what_windows_holds_is_said_not_to_be_counted(end):
    match = find(f"2x RTX 4090 {end}")
    assert (match.accelerator.name, match.count) == ("RTX 4090", 2)
    assert "Windows" in match.note


def test_a_machine_of_a_cloud_says_what_it_holds():
    assert find("2x p5.48xlarge").note == "aws p5.48xlarge has 8 x H100 SXM."
    assert (find("2x p5.48xlarge").count, find("2x p5.48xlarge").accelerator.name) == (
        16,
        "H100 SXM",
    )


def test_a_family_of_machines_means_one_of_the_cards_in_it():
    found = find("aws g5 instance")
    assert (found.accelerator.id, found.count) == ("a10g-24gb", 1)
    assert found.note.startswith("aws instances such as g5.")
    assert found.note.endswith("have A10G; one is counted.")
    assert find("4x p5").note.endswith("4 are counted.")


def test_a_machine_that_nobody_rents_out_is_refused_with_machines_that_resemble_it():
    with pytest.raises(UnknownAcceleratorError) as refusal:
        find("p5.49xlarge")
    assert "p5.48xlarge" in refusal.value.matches


def test_of_a_kubernetes_label_the_value_is_read_and_of_a_resource_the_count():
    assert find("nvidia.com/gpu.product=NVIDIA-L40S").accelerator.id == "l40s-48gb"
    assert find("nvidia.com/mig-3g.40gb: 2").count == 2


def test_a_mended_typo_is_told():
    assert find("gefroce rtx 4090").note == "Read as 'geforce rtx 4090'."


def test_a_remark_in_brackets_is_left_out_and_told():
    found = find("L4 24GB (g6.xlarge)")
    assert (found.accelerator.id, found.note) == ("l4-24gb", "Text in brackets is ignored.")


def test_a_count_before_a_size_is_of_such_cards():
    found = find("8 x 80gb")
    assert (found.count, found.accelerator.name) == (8, "80 GB GPU")


@pytest.mark.parametrize(
    "text",
    [
        "RTX 9999x", "foo", "RTX 9999", "4091", "RTX 4095", "RTX 4090 Ti",
        "h101", "a1000x", "A100 64GB",
        "rtx 4090 12gb", "rtx 4090 (12 GB)", "H100 24GB", "radeon 4090", "amd h100",
        "nvidia mi300x",
        "4090 3090", "4090x3090",
        "80", "x", "8",
        "gpu", "24 32", "4090 魔改", "é4090",
        "24gb 48gb", "nvidia 24gb", "m9 max", "tpu v99", "3g.99gb", "RX 4090", "🦙",
        "'; drop table", "8x", "nvidia", "pro", "rtx", "super",
    ],
)  # fmt: skip
def test_what_means_nothing_for_certain_is_refused_with_a_hint(text):
    with pytest.raises(UnknownAcceleratorError) as refusal:
        find(text)
    assert "RTX 4090" in refusal.value.hint
    assert len(refusal.value.matches) <= 5
    assert refusal.value.field == "gpu"


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("RTX 4900", "RTX 4090"), ("RTX 3900", "RTX 3090"), ("A10G 48GB", "A10G"),
        ("A100 160GB", "A100 80GB SXM"), ("M1 36GB", "Apple M1 16GB"),
    ],
)  # fmt: skip
def test_the_nearest_is_the_same_name_in_another_size_then_a_slip_of_the_finger(text, nearest):
    with pytest.raises(UnknownAcceleratorError) as refusal:
        find(text)
    assert refusal.value.send == {"gpu": nearest}


def test_a_macs_chip_is_known_by_a_memory_that_the_plain_one_is_not_sold_with():
    found = find("MacBook Pro M3 36GB")
    assert found.accelerator.name == "Apple M3 Pro 36GB"
    assert "it could also be Apple M3 Max 36GB" in found.note


def test_near_matches_exist_and_resemble_the_text():
    with pytest.raises(UnknownAcceleratorError) as refusal:
        find("RTX 4095")
    assert "RTX 4090" in refusal.value.matches


@pytest.mark.parametrize(
    "text",
    [
        "0x4090",
        "4097x4090",
        "1.5x4090",
        "-2x4090",
        "4090 x 0",
        "h100:100000",
        "0 GB",
        "99999999 TB",
        "9" * 150 + "x4090",
    ],
)
def test_an_impossible_count_or_size_is_refused(text):
    with pytest.raises(InvalidRequestError) as refusal:
        find(text)
    assert refusal.value.hint


@pytest.mark.parametrize(
    "text", ["", "   ", "rtx\x004090", "rtx\n4090", "\u202ertx 4090", "4090 " * 60]
)
def test_text_that_is_no_name_is_refused(text):
    with pytest.raises(InvalidRequestError) as refusal:
        find(text)
    assert refusal.value.field == "gpu"


@given(st.text(max_size=220))
def test_any_text_is_answered_or_refused_in_words(text):
    try:
        count = find(text).count
    except FitgaugeError as error:
        refusal = error
    else:
        refusal = None
    assert refusal.hint if refusal else 1 <= count <= 4096


@given(st.integers(min_value=1000, max_value=9999))
def test_the_number_in_a_name_is_never_changed(number):
    try:
        found = find(f"RTX {number}")
    except UnknownAcceleratorError:
        return
    assert str(number) in found.accelerator.name
