"""Of a row of equal units FSDP's highest moment is at an end, so those within are passed over."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitgauge.engine.training.autograd.tape import Pass
from fitgauge.engine.training.parallel import fsdp_moments as fsdp

SIZE = st.integers(0, 20)
CHANGE = st.integers(-20, 20)
GROUP = st.builds(fsdp.Group, gathered=SIZE, gradients=SIZE, reduced=SIZE, shard=SIZE)
PASS = st.builds(Pass, peak=SIZE, end=CHANGE)
SEGMENT = st.builds(fsdp.Segment, forward=PASS, backward=PASS, gradients=SIZE)
ROWS = st.lists(st.tuples(GROUP, SEGMENT, st.integers(1, 9)), min_size=1, max_size=4)
FLAG = st.booleans()


def highest(step):
    """Return the first of the highest moments of each pass."""
    found = list(fsdp.moments(step))
    return [
        max((one for one in found if one.phase == phase), key=lambda one: one.total)
        for phase in ("forward", "backward")
    ]


@settings(max_examples=300, deadline=None)
@given(rows=ROWS, root=GROUP, ends=st.tuples(SEGMENT, SEGMENT), flags=st.tuples(FLAG, FLAG, FLAG))
def test_the_highest_moment_is_that_of_all_units(rows, root, ends, flags):
    step = fsdp.Step(
        root=root,
        groups=[group for group, _, count in rows for _ in range(count)],
        first=ends[0],
        layers=[segment for _, segment, count in rows for _ in range(count)],
        last=ends[1],
        reshard=flags[0],
        prefetch=flags[1],
        offload=flags[2],
        hooked=3,
    )
    few = highest(step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsdp, "_OVERLAP", 100)
        assert highest(step) == few
