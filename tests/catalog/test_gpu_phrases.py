"""GPUs as people write them: among other words, in other languages, in any order."""

import pytest

from counted_calls import calls
from fitgauge.catalog.catalog import bundled
from fitgauge.errors import FitgaugeError, UnknownAcceleratorError, UnlikeGpusError

find = bundled().find

PLAIN = ("drei RTX 4080", "RTX 2050")
"""Texts that need no guess."""


@pytest.mark.parametrize(
    "text, accelerator_id, count",
    [
        ("3台L40S", "l40s-48gb", 3),
        ("六张4090的显卡", "rtx-4090-24gb", 6),
        ("单张48G的A6000", "rtx-a6000-48gb", 1),
        ("2台8卡的H200服务器", "h200-sxm-141gb", 16),
        ("4机32卡H800", "h800-sxm-80gb", 32),
        ("l4 4대", "l4-24gb", 4),
        ("RTX 4070 두 장", "rtx-4070-12gb", 2),
        ("4 nodes of 8xH200", "h200-sxm-141gb", 32),
        ("3 A100*4", "a100-80gb-sxm", 12),
        ("2x 3090's", "rtx-3090-24gb", 2),
        ("drei RTX 4080", "rtx-4080-16gb", 3),
        ("four old P40s, 24GB each", "p40-24gb", 4),
        ("4 x RTX 4090 (96GB total)", "rtx-4090-24gb", 4),
        ("V100 of our lab with 32GB", "v100-32gb", 1),
        ("48gA6000", "rtx-a6000-48gb", 1),
        ("24 gigs 3090", "rtx-3090-24gb", 1),
        ("a P100 on Kaggle", "p100-16gb", 1),
        ("L4 on Google Cloud", "l4-24gb", 1),
        ("MacBook Air M2 with 24GB unified memory", "apple-m2-24gb", 1),
        ("Mac Studio, M1 Ultra, 64 core GPU, 128GB, 2TB SSD", "apple-m1-ultra-128gb", 1),
        ("gtx 3070", "rtx-3070-8gb", 1),
        ("RTX 3080 16GB", "rtx-3080-laptop-16gb", 1),
        ("RX 580 8GBs", "rx-580-8gb", 1),
        ("a server with eight H200 cards", "h200-sxm-141gb", 8),
        ("cluster of 4 H100s", "h100-sxm-80gb", 4),
        ("two used 3090s", "rtx-3090-24gb", 2),
        ("my desktop with an RTX 4090 and 64GB RAM", "rtx-4090-24gb", 1),
        ("H100 (2 nodes, 8 GPUs each)", "h100-sxm-80gb", 16),
        ("RTX 2050", "rtx-2050-laptop-4gb", 1),
        ("RTX 3090 and 64GB RAM", "rtx-3090-24gb", 1),
        ("rtx6kpro", "rtx-pro-6000-blackwell-workstation-96gb", 1),
        ("3090 + 3090", "rtx-3090-24gb", 2),
        ("ml.g5.12xlarge in us-east", "a10g-24gb", 4),
    ],
)
def test_words_around_a_gpu_do_not_hide_it(text: str, accelerator_id: str, count: int) -> None:
    match = find(text)
    assert (match.accelerator.id, match.count) == (accelerator_id, count)
    assert match.note or text in PLAIN


def test_a_size_and_a_vendor_of_unified_memory_name_a_machine() -> None:
    match = find("96GB RAM Macbook")
    assert match.accelerator.vendor == "Apple"
    assert {round(one.marketed_bytes / 1e9) for one in (match.accelerator, *match.others)} == {96}
    assert match.others


@pytest.mark.parametrize(
    "text",
    [
        "64GB RAM", "64 GB DDR5 RAM", "Ryzen 5500", "H100 24GB please", "my RTX 4095 at home",
        "RTX 4090 modded é4090", "some GPU", "the best one", "RX 4090 card of mine",
    ],
)  # fmt: skip
def test_what_names_no_gpu_for_certain_is_refused(text: str) -> None:
    with pytest.raises(UnknownAcceleratorError):
        find(text)


def test_unlike_gpus_are_refused_with_the_question_of_the_smallest() -> None:
    with pytest.raises(UnlikeGpusError) as refusal:
        find("RTX 4090 + 2x RTX 3060 12GB + RTX 3090")
    assert refusal.value.send == {"gpu": "RTX 3060 12GB", "gpu_count": 4}
    assert find(refusal.value.send["gpu"]).accelerator.id == "rtx-3060-12gb"


def _spellings(name: str) -> set[str]:
    """Return a name in other cases, spaces, separators and orders."""
    words = name.split()
    return {
        name.upper(), name.lower(), "-".join(words), "_".join(words), "  ".join(words),
        " ".join(reversed(words)), " ".join(words[1:] + words[:1]),
    }  # fmt: skip


NAMES = [row.name for row in bundled().all() if "(" not in row.name and "MIG" not in row.name]


@pytest.mark.parametrize("name", NAMES)
def test_order_case_spaces_and_separators_do_not_matter(name: str) -> None:
    expected = find(name).accelerator
    for spelling in _spellings(name):
        assert find(spelling).accelerator.id == expected.id, spelling
    assert find(f"2x {name}").count == 2
    assert find(f"两张{name}的显卡").accelerator.id == expected.id


@pytest.mark.parametrize("piece", ["4090 x ", "8x ", "1", "a", "的 "])
def test_work_on_nonsense_grows_with_its_length_and_not_faster(piece: str) -> None:
    def refuse(length: int) -> None:
        with pytest.raises(FitgaugeError):
            find(piece * (length // len(piece)))

    refuse(49)  # fills the caches of names
    assert calls(lambda: refuse(198)) <= 2.2 * calls(lambda: refuse(99))


@pytest.mark.parametrize(
    "address",
    [
        "https://www.nvidia.com/en-us/geforce/graphics-cards/50-series/rtx-5090/",
        "https://example.com/gpus/RTX%205090.html?tab=specs".replace("%20", "-"),
    ],
)
def test_the_page_of_a_gpu_names_it(address):
    assert find(address).accelerator.id == "rtx-5090-32gb"
