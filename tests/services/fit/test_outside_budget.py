"""What vLLM holds outside its budget, and what ranks hold on cards of one kind and another."""

import pytest

from notes import codes

SMALL = "Qwen/Qwen3-0.6B"


def communication(answer) -> int:
    return next(term.bytes for term in answer.terms if term.name == "communication")


@pytest.mark.parametrize("utilization, verdict", [(0.9, "fits"), (1.0, "does_not_fit")])
def test_a_share_that_leaves_no_room_for_the_process_is_told(check_fit, utilization, verdict):
    answer = check_fit(
        model=SMALL, gpu="RTX 4090", context_length=2048, gpu_memory_utilization=utilization
    )
    assert answer.verdict == verdict
    outside = ("memory-outside-share", "gpu_memory_utilization")
    assert (outside in codes(answer.warnings)) == (verdict != "fits")


def test_graphs_that_are_not_taken_off_the_pool_need_room_beside_it(check_fit):
    asked = {
        "model": SMALL,
        "gpu": "RTX 4090",
        "context_length": 2048,
        "engine_version": "0.19.0",
        "gpu_memory_utilization": 0.97,
    }
    assert (
        check_fit(**asked).fit_probability < check_fit(**asked, enforce_eager=True).fit_probability
    )


def test_cards_without_symmetric_memory_hold_less_for_collectives(check_fit):
    asked = {
        "model": "Qwen/Qwen3-32B",
        "gpu_count": 2,
        "tensor_parallel": 2,
        "context_length": 2048,
    }
    assert communication(check_fit(**asked, gpu="H100")) > 10 * communication(
        check_fit(**asked, gpu="RTX 4090")
    )
    assert communication(check_fit(**asked, gpu="H100 PCIe")) == communication(
        check_fit(**asked, gpu="RTX 4090")
    )


def test_collectives_that_open_late_need_room_beside_a_high_share(check_fit):
    asked = {
        "model": "Qwen/Qwen3-8B",
        "gpu": "RTX 4090",
        "context_length": 2048,
        "gpu_memory_utilization": 0.97,
        "enforce_eager": True,
    }
    one, two = check_fit(**asked), check_fit(**asked, gpu_count=2, tensor_parallel=2)
    assert (one.verdict, two.verdict) == ("fits", "tight")


def test_what_others_hold_stops_a_start_at_the_same_share_and_a_lower_one_is_offered(check_fit):
    """vLLM takes its share of the whole card, and refuses where less is free; other engines have
    a smaller card."""
    asked = {
        "model": SMALL,
        "gpu": "RTX 4090",
        "context_length": 2048,
        "gpu_memory_utilization": 0.92,
    }
    answer = check_fit(**asked, other_memory_gib=3.0)
    assert (check_fit(**asked).verdict, answer.verdict) == ("fits", "does_not_fit")
    assert answer.per_gpu.budget_bytes == check_fit(**asked).per_gpu.budget_bytes
    assert (answer.limits.kv_cache_tokens, answer.limits.max_concurrency) == (0, 0)
    assert (answer.per_gpu.limited_by, answer.launch) == ("device", None)
    assert answer.per_gpu.headroom_bytes > 0
    assert answer.per_gpu.shown_bytes.expected > answer.per_gpu.usable_bytes
    lower = answer.suggestions[0].request["gpu_memory_utilization"]
    assert lower < 0.9
    assert (
        check_fit(**{**asked, "gpu_memory_utilization": lower}, other_memory_gib=3.0).verdict
        == "fits"
    )


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "tgi", "transformers"])
def test_other_engines_have_what_others_leave(check_fit, engine):
    asked = {"model": SMALL, "gpu": "RTX 4090", "engine": engine}
    alone, shared = check_fit(**asked), check_fit(**asked, other_memory_gib=2.0)
    assert alone.per_gpu.usable_bytes - shared.per_gpu.usable_bytes == 2 * 2**30
    assert alone.limits.max_concurrency > shared.limits.max_concurrency


@pytest.mark.parametrize("gpu, said", [("RTX 4090", True), ("RTX 4000 Ada", False), ("A10", False)])
def test_cards_with_screens_are_told_how_much_others_may_hold(check_fit, gpu, said):
    asked = {"model": SMALL, "gpu": gpu, "context_length": 2048}
    uncounted = ("other-memory-uncounted", "other_memory_gib")
    assert (uncounted in codes(check_fit(**asked).warnings)) == said
    assert uncounted not in codes(check_fit(**asked, other_memory_gib=0.5).warnings)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_was_measured_on_other_cards_is_assumed_and_wide(check_fit, engine):
    """Of one MI300X there is a log with 3.9 GiB of graphs, 4.4 times what NVIDIA's cards hold
    for that model."""
    asked = {"model": "Qwen/Qwen3-8B", "engine": engine}
    ours, theirs = (
        {term.name: term for term in check_fit(**asked, gpu=gpu).terms}
        for gpu in ("H200", "MI300X")
    )
    assert (ours["runtime"].basis, theirs["runtime"].basis) == ("calibrated", "assumed")
    assert theirs["runtime"].low < ours["runtime"].low
    assert theirs["runtime"].high > ours["runtime"].high
    assert theirs["cuda_graphs"].basis == "assumed"


def test_tpus_capture_no_graphs(check_fit):
    assert "cuda_graphs" not in {
        term.name for term in check_fit(model="Qwen/Qwen3-8B", gpu="TPU v6e", engine="vllm").terms
    }


@pytest.mark.parametrize("gpu, said", [("RTX 4090", False), ("T4", True)])
def test_one_card_is_not_filled_with_weights_by_device_map(check_fit, gpu, said):
    """7B in 16 bits is 14.2 GiB: nine tenths of a T4 are 13.3."""
    answer = check_fit(
        model="Qwen/Qwen2.5-7B-Instruct", gpu=gpu, engine="transformers", context_length=64
    )
    assert answer.verdict in ("fits", "tight")
    assert (("weights-offloaded", None) in codes(answer.warnings)) == said


def graphs(answer) -> int:
    return next(term.bytes for term in answer.terms if term.name == "cuda_graphs")


def test_graphs_are_captured_up_to_twice_max_num_seqs(check_fit):
    """Of 10 requests 1, 2, 4, 8, 10 and 16."""
    sizes = {
        sequences: graphs(check_fit(model=SMALL, gpu="RTX 4090", max_num_seqs=sequences))
        for sequences in (1, 10, 256, 512)
    }
    layers = (sizes[256] - sizes[1]) / (51 - 2)
    assert sizes[10] == pytest.approx(sizes[1] + (6 - 2) * layers, abs=8)
    assert sizes[512] == sizes[256]


@pytest.mark.parametrize("share, least, most", [(0.92, 0, 0.25), (0.9, 0.25, 0.9), (0.8, 0.9, 1)])
def test_unified_memory_has_no_more_free_than_its_system_leaves(check_fit, share, least, most):
    """Source: "Free memory on device (110.73/121.63 GiB) on startup is less than desired GPU
    memory utilization (0.92, 111.9 GiB)"."""
    answer = check_fit(
        model="Qwen/Qwen3-8B", gpu="GB10", gpu_memory_utilization=share, settings="defaults"
    )
    assert least <= answer.fit_probability <= most


def test_unified_memory_is_given_the_share_that_starts(check_fit):
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="GB10", settings="auto")
    assert answer.verdict == "fits"
    assert {one.setting for one in answer.chosen} == {"gpu_memory_utilization"}


@pytest.mark.parametrize(("count", "fewest"), [(1, 3), (4, 3), (8, 3)])
def test_linked_machines_of_unified_memory_can_be_fewer_or_more(check_fit, count, fewest):
    """Three DGX Sparks hold 220 GiB of weights, and one machine is told so."""
    answer = check_fit(
        model="Qwen/Qwen3-235B-A22B-FP8",
        gpu="DGX Spark",
        gpu_count=count,
        context_length=8192,
        settings="auto",
    )
    assert answer.limits.min_gpu_count == fewest
