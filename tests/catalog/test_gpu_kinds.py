"""Kinds of GPUs: what they hold of the catalog, and how people write them."""

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.gpu_kinds import is_of, kind_named, kind_names, kinds_in

MARKETS = ("consumer", "workstation", "server", "laptop", "integrated", "jetson")


def ids(*kinds: str) -> set[str]:
    return {one.id for one in bundled().all() if is_of(one, kinds)}


@pytest.mark.parametrize("kind", kind_names())
def test_every_kind_holds_gpus_and_is_found_by_its_name(kind):
    assert ids(kind)
    assert kind_named(kind.upper()) == kind


def test_every_gpu_that_is_sold_has_one_market():
    for one in bundled().all():
        of = [kind for kind in MARKETS if is_of(one, (kind,))]
        assert len(of) == 1 if one.availability in ("sold", "laptop") else len(of) <= 1, (
            one.id,
            of,
        )


@pytest.mark.parametrize(
    ("kinds", "some", "none"),
    [
        (("consumer",), "rtx-4090-24gb", "rtx-4000-ada-20gb"),
        (("workstation",), "rtx-a6000-48gb", "rtx-pro-6000-blackwell-server-96gb"),
        (("server",), "l40s-48gb", "rtx-6000-ada-48gb"),
        (("laptop",), "rtx-2050-laptop-4gb", "rtx-4090-24gb"),
        (("blackwell",), "b200-192gb", "rubin-288gb"),
        (("ada",), "l4-24gb", "a10-24gb"),
        (("rtx 50",), "rtx-5090-32gb", "rtx-5000-ada-32gb"),
        (("consumer", "blackwell"), "rtx-5090-32gb", "b200-192gb"),
        (("hopper", "ampere"), "h100-sxm-80gb", "l40s-48gb"),
        (("rdna 3",), "rx-7900-xtx-24gb", "rx-9070-xt-16gb"),
    ],
)
def test_kinds_of_one_choice_add_up_and_those_of_others_narrow(kinds, some, none):
    assert some in ids(*kinds)
    assert none not in ids(*kinds)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("which consumer gpu for", ["consumer"]),
        ("a gaming card for", ["consumer"]),
        ("which RTX 50 series card", ["rtx 50"]),
        ("the 40 series", ["rtx 40"]),
        ("my laptop", ["laptop"]),
        ("data center GPUs of the Hopper generation", ["server", "hopper"]),
        ("Ada wrote it on a workstation", []),
        ("rtx 5090 or 4090", []),
    ],
)
def test_kinds_are_read_from_words(text, kinds):
    assert kinds_in(text, bool) == kinds
