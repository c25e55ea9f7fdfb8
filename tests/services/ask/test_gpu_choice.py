"""Questions about a vendor's GPUs are answered with those alone."""

import pytest

from fitgauge.services.ask.machines import vendors_in


@pytest.mark.parametrize(
    ("text", "vendors"),
    [
        ("which mac do I need for qwen3 32b", ["Apple"]),
        ("what MacBook should I buy to run gpt-oss-20b", ["Apple"]),
        ("welchen Mac brauche ich für Qwen3 32B", ["Apple"]),
        ("which AMD card for llama 3.3 70b q4", ["AMD"]),
        ("does qwen3 14b run on radeon?", ["AMD"]),
        ("best intel arc card for qwen3 14b", ["Intel"]),
        ("which nvidia gpu for gemma 3 27b", ["NVIDIA"]),
        ("what tpu do I need for gemma 3 27b", ["Google"]),
        ("amd or nvidia for qwen3 32b?", ["AMD", "NVIDIA"]),
        ("something other than nvidia for qwen3 32b, such as amd", ["AMD"]),
    ],
)
def test_a_vendor_limits_what_is_recommended(ask, text, vendors):
    answer = ask(text)
    assert answer.operation == "recommend_gpus"
    assert answer.understood.vendors == vendors
    shown = {option["gpu"]["name"] for option in answer.answer["options"]}
    assert shown
    assert (vendors == ["Apple"]) == all(name.startswith("Apple") for name in shown)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("which consumer gpu for qwen3 32b", "kinds", ["consumer"]),
        ("which rtx 50 series card do I need for qwen3 14b", "kinds", ["rtx 50"]),
        ("which laptop gpu can run qwen3 8b", "kinds", ["laptop"]),
        ("hopper or ampere for llama 3.1 8b?", "kinds", ["hopper", "ampere"]),
        ("smallest GPU under 200W for llama 3.1 8b", "max_watts", 200),
    ],
)
def test_a_kind_and_a_power_limit_what_is_recommended(ask, text, field, value):
    answer = ask(text)
    assert answer.operation == "recommend_gpus"
    assert getattr(answer.understood, field) == value
    assert answer.answer["understood_as"]["objective"] == "smallest"
    assert answer.missing == []


@pytest.mark.parametrize(
    "text",
    [
        "I have no nvidia card, just a ryzen amd cpu, can I run qwen3 8b",
        "amd epyc server, how much memory for qwen3 8b",
        "nvidia/NVIDIA-Nemotron-Nano-9B-v2 memory",
        "how do I find the mac address of the machine that serves qwen3 8b",
    ],
)
def test_processors_publishers_and_what_is_ruled_out_are_no_vendors(ask, text):
    assert ask(text).understood.vendors is None


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("which gpu for qwen3 32b, no consumer cards", None),
        ("which gpu for qwen3 8b, not a laptop", None),
        ("which gpu other than blackwell for qwen3 8b, hopper maybe", ["hopper"]),
    ],
)
def test_kinds_that_are_ruled_out_are_not_asked_for(ask, text, kinds):
    assert ask(text).understood.kinds == kinds


def test_what_follows_a_vendor_decides():
    assert vendors_in("an intel cpu") == []
    assert vendors_in("an intel gpu") == ["Intel"]


def test_a_named_gpu_is_judged_and_a_mac_beside_it_said_to_be_left_out(ask):
    beside = ask("mac studio or 2x4090 for llama 3.3 70b?")
    assert beside.understood.gpu == "4090"
    assert any("the Mac is left out" in one for one in beside.missing)
    both = ask("m4 max 64gb macbook or 4090 for qwen3 32b?")
    assert both.operation == "compare_fit"
    assert not any("left out" in one for one in both.missing)


def test_who_asks_for_a_card_is_shown_single_ones_where_one_suffices(ask):
    one, two = (ask(f"which gaming card for {model}") for model in ("qwen3 32b", "llama 3.3 70b"))
    assert {option["gpu"]["count"] for option in one.answer["options"]} == {1}
    assert two.answer["options"][0]["gpu"]["count"] == 2
    assert any("max_gpu_count" in note for note in two.missing)
    assert one.missing == []
