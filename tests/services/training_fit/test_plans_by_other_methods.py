"""Where a method has no plan, the answer says which one that needs less has."""

import pytest


@pytest.mark.parametrize(
    ("asked", "method", "verdict"),
    [
        ({"model": "7b", "gpu": "RTX 4090", "gpu_count": 4}, "lora", "fits"),
        ({"model": "llama 3.1 70b", "gpu": "4x RTX 4090", "method": "lora"}, "qlora", "tight"),
    ],
)
def test_the_method_that_needs_less_is_suggested_as_it_is_answered(plan, asked, method, verdict):
    answer = plan(**asked)
    assert answer.plans == []
    best = answer.suggestions[-1]
    assert (best.request, best.verdict) == ({"method": method}, verdict)
    assert best.change in answer.summary
    first = plan(**{**asked, **best.request}).plans[0]
    assert first.verdict == verdict
    assert first.layout in best.change


def test_where_no_method_has_a_plan_all_that_were_tried_are_named(plan):
    answer = plan(model="llama 3.1 405b", gpu="RTX 4090", gpu_count=4)
    assert answer.suggestions == []
    assert "by full fine-tuning, LoRA or QLoRA: try" in answer.summary


def test_a_plan_that_is_found_comes_without_other_methods(plan):
    assert plan(model="7b", gpu="8x H100").suggestions == []
