"""The ladders of the engines' settings."""

import pytest

from bundled_models import spec_of
from fitgauge.engine.serving.ladders import (
    FEWEST_TOKENS,
    MOST_LAYOUTS,
    Degrees,
    Share,
    all_layouts,
    attention_replicas,
    halved,
    tensor_by_pipeline,
    whole_replicas,
)
from fitgauge.engine.serving.registry import ENGINES


@pytest.mark.parametrize(
    ("value", "least", "values"),
    [
        (1024, 1, (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)),
        (1024, 33, (512, 256, 128, 64)),
        (256, 256, ()),
        (48, 1, (24, 12, 6, 3)),
        (8192, FEWEST_TOKENS, (4096, 2048)),
        (1000, FEWEST_TOKENS, ()),
    ],
)
def test_halves_stay_whole_and_above_the_least(value, least, values):
    assert halved(value, least) == values


@pytest.mark.parametrize(
    ("default", "higher", "lower"),
    [
        (0.92, (0.93, 0.94, 0.95), (0.91, 0.9, 0.89)),
        (0.9, (0.91, 0.92, 0.93, 0.94, 0.95), (0.89,)),
        (0.874, (0.88, 0.89, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95), ()),
        (0.95, (), (0.94, 0.93, 0.92, 0.91, 0.9, 0.89)),
        (0.97, (), (0.96, 0.95, 0.94, 0.93, 0.92, 0.91, 0.9, 0.89)),
    ],
)
def test_shares_move_by_hundredths_from_the_default(default, higher, lower):
    lowest = Share(lower[-1] if lower else None, 0.95)
    assert lowest.higher(default) == higher
    assert lowest.lower(default) == lower


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V3.2", "meta-llama/Llama-3.1-70B-Instruct"])
@pytest.mark.parametrize("gpus", [2, 3, 6, 8, 12, 16, 64])
def test_layouts_take_all_gpus_and_divide_the_heads(name, gpus):
    spec = spec_of(name)
    layouts = all_layouts(spec, gpus)
    assert 0 < len(layouts) <= MOST_LAYOUTS
    assert len(set(layouts)) == len(layouts)
    for tensor, pipeline, data, expert in layouts:
        assert tensor * pipeline * data == gpus
        assert tensor <= 8
        assert spec.query_heads % tensor == 0
        assert expert in (1, tensor * data)


def test_replicas_of_a_mixture_share_its_experts():
    mixture, dense = spec_of("deepseek-ai/DeepSeek-V3.2"), spec_of("Qwen/Qwen3-32B")
    assert list(attention_replicas(mixture, 8)) == [
        Degrees(4, 1, 2, 8), Degrees(2, 1, 4, 8), Degrees(1, 1, 8, 8),
    ]  # fmt: skip
    assert list(whole_replicas(mixture, 8)) == list(attention_replicas(dense, 8)) == []
    assert list(whole_replicas(dense, 4)) == [Degrees(2, 1, 2), Degrees(1, 1, 4)]
    assert list(tensor_by_pipeline(dense, 16)) == [
        Degrees(8, 2), Degrees(4, 4), Degrees(2, 8),
    ]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_no_ladder_changes_what_a_caller_gets(engine):
    ladders = ENGINES[engine].ladders
    settings = {ladder.setting for ladder in ladders.batch}
    assert settings <= {"max_num_seqs", "max_batched_tokens"}
    assert not settings & set(ENGINES[engine].ignored_fields)
