"""A GPU named by its memory: "24GB" is a card sold with 24 GB, "24GiB" exactly that."""

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.engine.quantity import GB, GIB


def find(text):
    return bundled().find(text)


@pytest.mark.parametrize(
    "size, card",
    [
        ("24GB", "RTX 4090"),
        ("80GB", "A100 80GB"),
        ("48GB", "RTX A6000"),
        ("16GB", "RTX 4080"),
        ("8 gb", "RTX 3060 Ti"),
        ("12G", "RTX 4070"),
        ("24564MB", "RTX 4090"),
    ],
)
def test_a_size_gives_a_process_what_cards_sold_with_it_give(size, card):
    usable = find(size).accelerator.usable.expected
    assert usable == pytest.approx(find(card).accelerator.usable.expected, rel=0.03)


@pytest.mark.parametrize("text, size", [("24GiB", 24 * GIB), ("24576 MiB", 24 * GIB)])
def test_binary_units_are_taken_exactly(text, size):
    match = find(text)
    assert match.accelerator.usable.expected == match.accelerator.marketed_bytes == size
    assert match.others == ()


def test_a_size_that_no_card_has_lies_between_its_neighbours():
    odd = find("28GB")
    below, above = (find(size).accelerator.usable.expected for size in ("24GB", "32GB"))
    assert odd.accelerator.marketed_bytes == 28 * GB
    assert odd.accelerator.usable.expected == pytest.approx((below + above) / 2, abs=1)
    assert odd.others == ()


def test_cards_of_one_size_that_differ_are_other_readings():
    match = find("2x 48GB")
    least, most = match.others
    assert least.usable.expected == find("A40").accelerator.usable.expected
    assert least.usable.expected < match.accelerator.usable.expected < most.usable.expected
    assert match.count == 2


def test_more_memory_on_the_box_is_never_less_to_a_process():
    sizes = [find(f"{size}GB").accelerator.usable.expected for size in range(1, 600)]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    "text, larger, smaller",
    [
        ("a100", "a100-80gb-sxm", "a100-40gb-sxm"),
        ("a100 pcie", "a100-80gb-pcie", "a100-40gb-pcie"),
        ("M2 Ultra", "apple-m2-ultra-192gb", "apple-m2-ultra-64gb"),
        ("v100", "v100-32gb", "v100-16gb"),
        ("2x 4060 ti", "rtx-4060-ti-16gb", "rtx-4060-ti-8gb"),
    ],
)
def test_of_several_memory_variants_the_largest_is_taken(text, larger, smaller):
    match = find(text)
    assert match.accelerator.id == larger
    assert smaller in {one.id for one in match.others}


def test_a_variant_is_the_same_product():
    assert find("h100").accelerator.id == "h100-sxm-80gb"
    assert find("rtx 4090").others == ()
