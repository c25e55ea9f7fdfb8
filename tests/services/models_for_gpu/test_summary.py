"""A list's sentence counts what it does not name, on every page."""

import asyncio

import pytest

from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest


@pytest.mark.parametrize("page", [{"limit": 1}, {"limit": 5}, {"offset": 9999}])
def test_what_is_named_and_what_is_left_add_up(questions, page):
    request = ModelsForGpuRequest(gpu="RTX 4060", **page)
    answer = asyncio.run(questions.list_models_that_fit(request))
    if not answer.items:
        assert answer.summary.endswith("; no rows here.")
        return
    left = answer.summary.rpartition(" and ")[2].removesuffix(" more.")
    assert int(left) + min(3, len(answer.items)) == answer.total
