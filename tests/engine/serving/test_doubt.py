"""The doubt of an estimate grows with the distance of what was measured."""

import msgspec
import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.quantity import GIB, Bytes
from fitgauge.engine.serving import platforms
from fitgauge.engine.serving.doubt import (
    NEVER,
    OTHER_RELEASE,
    SAME_RELEASE,
    capped,
    doubt,
    doubted,
    gpu_class,
)

H100 = bundled().find("H100").accelerator
PROFILE = load_engines().profile("vllm", (0, 19))


@pytest.mark.parametrize(
    "gpu, name",
    [
        ("H100", "NVIDIA 9"),
        ("A100 80GB", "NVIDIA 8"),
        ("RTX 4090", "NVIDIA 8.9"),
        ("RTX 5090", "NVIDIA 12"),
        ("MI300X", "AMD CDNA"),
        ("DGX Spark", "NVIDIA unified memory"),
        ("M3 Max 128GB", "Apple unified memory"),
        ("24GB", "NVIDIA"),
    ],
)
def test_a_gpu_is_of_a_generation_of_its_maker(gpu: str, name: str) -> None:
    assert gpu_class(bundled().find(gpu).accelerator) == name


def test_doubt_grows_with_the_distance_of_what_was_measured() -> None:
    here = msgspec.structs.replace(PROFILE, measured={"NVIDIA 9": 2}, measured_ever={"NVIDIA 9": 3})
    elsewhere = msgspec.structs.replace(here, measured={"NVIDIA 8": 1})
    never = msgspec.structs.replace(elsewhere, measured_ever={"NVIDIA 8": 1})
    by = [doubt(profile, H100) for profile in (here, elsewhere, never)]
    assert by == [SAME_RELEASE, OTHER_RELEASE, NEVER]
    assert by[0].share < by[1].share < by[2].share
    assert by[0].ceiling > by[1].ceiling > by[2].ceiling > 0.9


def test_doubt_widens_both_sides_by_a_share_of_all_but_the_cache() -> None:
    need = Bytes(low=57 * GIB, expected=60 * GIB, high=64 * GIB)
    wide = doubted(need, 50 * GIB, SAME_RELEASE._replace(share=0.06))
    assert wide.expected == need.expected
    assert wide.expected - wide.low == pytest.approx((3**2 + 3**2) ** 0.5 * GIB, rel=1e-6)
    assert wide.high - wide.expected == pytest.approx(5 * GIB, rel=1e-6)


def test_no_probability_is_surer_than_what_was_measured_allows() -> None:
    assert capped(1.0, NEVER) == NEVER.ceiling
    assert 0 < capped(0.0, NEVER) < 0.05
    assert capped(0.5, NEVER) == 0.5
    assert capped(0.0, SAME_RELEASE) < capped(0.0, NEVER)


def test_a_card_that_a_community_build_serves_is_not_refused_and_says_so() -> None:
    card = bundled().find("MI50 16GB").accelerator
    assert platforms.refusal("vllm", None, None, card) is None
    assert "vllm-gfx906" in str(platforms.note("vllm", card))
    assert "vllm" not in platforms.engines_for(card)
