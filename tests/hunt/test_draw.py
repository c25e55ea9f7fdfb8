"""What a hunt draws."""

from collections import Counter

from hunt import sglang_draw
from hunt.draw import CASES, TIMES, cases, with_layers


def test_a_seed_draws_the_same_cases_and_no_architecture_too_often():
    drawn = cases(7)
    assert drawn == cases(7) != cases(8)
    assert len(drawn) == CASES
    assert max(Counter(case["architecture"] for case in drawn).values()) <= TIMES


def test_a_cut_config_keeps_one_entry_a_layer():
    config = {"text_config": {"num_hidden_layers": 9, "layer_types": list("abcabcabc")}}
    assert with_layers(config, 4)["text_config"] == {
        "num_hidden_layers": 4,
        "layer_types": list("abca"),
    }


def test_cases_for_sglang_name_what_is_free_of_a_gpu_before_loading():
    drawn = sglang_draw.cases(7)
    assert drawn == sglang_draw.cases(7) != sglang_draw.cases(8)
    assert len({case["id"] for case in drawn}) == sglang_draw.CASES
    assert max(Counter(case["architecture"] for case in drawn).values()) <= TIMES
    for case in drawn:
        assert case["free_gib"] == sglang_draw.free_gib(case["card"], case["tensor_parallel"])
        assert case["tensor_parallel"] % case.get("expert_parallel", 1) == 0


def test_a_model_of_fewer_layers_shares_only_caches_that_it_has():
    config = {
        "num_hidden_layers": 12,
        "num_kv_shared_layers": 6,
        "layer_types": ["sliding", "sliding", "full"] * 4,
    }
    assert with_layers(config, 8)["num_kv_shared_layers"] == 5
    assert with_layers(config, 2)["num_kv_shared_layers"] == 0
    assert with_layers(config, None)["num_kv_shared_layers"] == 6
