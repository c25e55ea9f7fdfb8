"""The profiling pass against what logs print as its peak, and what of it each release and each
kind of model has."""

import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.model.spec import Mlp, Part
from fitgauge.engine.quantity import GIB, MIB
from fitgauge.engine.serving.activations import expert_width
from fitgauge.engine.serving.vllm.encoder import (
    Batch,
    images,
    largest_batch,
    largest_item,
    layer_moment,
)
from fitgauge.engine.serving.vllm.profile_run import (
    indexed_peak,
    profiling_terms,
    stage_bytes,
    workspace_bytes,
)
from fitgauge.engine.serving.vllm.second_runner import runs_second
from fitgauge.engine.serving.vllm.speculative import with_draft
from fitgauge.engine.serving.vllm.workspaces import retained_workspace
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of

H100 = bundled().find("H100 SXM").accelerator


def workload(version: tuple[int, ...], **changes: int) -> Workload:
    return workload_of(version=version, **{"max_num_seqs": 1024} | changes)


def peak(name: str, version: tuple[int, ...], **changes: int) -> dict[str, float]:
    profile = load_engines().profile("vllm", version)
    terms = profiling_terms(
        spec_of(name), profile, workload(version, **changes), H100, first=True, last=True
    )
    return {term.name: term.bytes / GIB for term in terms}


@pytest.mark.parametrize(
    "name, version, ranks, printed",
    [
        ("meta-llama/Llama-3.1-8B-Instruct", (0, 11), 1, 4.76),
        ("Qwen/Qwen3-32B", (0, 11), 2, 5.64),
        ("meta-llama/Llama-3.1-8B-Instruct", (0, 19), 1, 1.89),
        ("meta-llama/Llama-3.1-8B-Instruct", (0, 19), 4, 1.89),
        ("google/gemma-2-9b-it", (0, 19), 1, 3.65),
        ("codellama/CodeLlama-7b-hf", (0, 19), 1, 0.77),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", (0, 19), 1, 1.93),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", (0, 19), 2, 1.21),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", (0, 19), 4, 3.19),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", (0, 19), 1, 2.03),
    ],
)
def test_the_peak_is_what_an_h100_printed(
    name: str, version: tuple[int, ...], ranks: int, printed: float
) -> None:
    assert sum(peak(name, version, tensor_parallel=ranks).values()) == pytest.approx(
        printed, rel=0.025
    )


def test_the_sampler_rules_where_the_vocabulary_is_large_and_the_layers_where_it_is_small() -> None:
    assert "logits" in peak("meta-llama/Llama-3.1-8B-Instruct", (0, 19))
    assert "logits" not in peak("codellama/CodeLlama-7b-hf", (0, 19))


def test_the_largest_image_of_a_native_resolution_rules_a_small_batch() -> None:
    terms = peak("Qwen/Qwen2.5-VL-7B-Instruct", (0, 19), max_batched_tokens=2048, max_num_seqs=8)
    assert set(terms) == {"encoder"}


def test_a_text_model_sees_no_images() -> None:
    assert images(spec_of("Qwen/Qwen3-8B"), workload((0, 19)), first_engine=False) is None


def test_pixels_and_outputs_of_gemma_3_are_counted_by_its_pooling() -> None:
    seen = images(spec_of("google/gemma-3-27b-it"), workload((0, 19)), first_engine=False)
    assert seen is not None
    assert seen.held == 8192 * 5376 * 2 + 8192 * 16 * 588 * 2


def test_releases_that_spread_outputs_keep_every_image_in_a_tensor_of_the_whole_budget() -> None:
    """32 images of 256 tokens, each in 8192 rows."""
    seen = images(spec_of("google/gemma-3-27b-it"), workload((0, 11)), first_engine=False)
    assert seen is not None
    assert seen.held == 32 * 8192 * 5376 * 2 + 8192 * 16 * 588 * 2


def test_few_requests_of_a_short_context_hold_few_images() -> None:
    work = workload((0, 19), max_num_seqs=2, context_length=1024)
    assert largest_batch(spec_of("google/gemma-3-27b-it"), work, first_engine=False) == Batch(
        8, 2048, 2048
    )


@pytest.mark.parametrize(
    "version, context, pairs",
    [
        ((0, 33), 8192, 1),
        ((0, 33), 65536, 4),
        ((0, 33), 128000, 7),
        ((0, 11), 1048576, 7),
        ((0, 8), 128000, 1),
    ],
)
def test_the_largest_video_of_qwen_2_5_vl_grows_with_the_context(
    version: tuple[int, ...], context: int, pairs: int
) -> None:
    """A pair of frames is as large as the largest image, 16384 tokens, and 14 frames are the
    most: logs print 114688 tokens and, of Qwen2.5-Omni at 32768, 32768."""
    assert (
        largest_item(
            spec_of("Qwen/Qwen2.5-VL-7B-Instruct"), workload(version, context_length=context)
        )
        == 16384 * pairs
    )


def test_the_largest_video_peaks_as_a_log_shows() -> None:
    """0.23.0, 128,000 tokens, 0.22 of a card of 79.25 GiB: a video of 114,688 tokens, 15.67 GiB
    loaded, 0.53 of graphs, -14.28 GiB left for the cache. So the pass and the libraries beside it
    took 15.51 GiB; libraries take some 0.25."""
    passed = 0.22 * 79.25 + 14.28 - 15.67 - 0.53
    found = peak(
        "Qwen/Qwen2.5-VL-7B-Instruct",
        (0, 23),
        context_length=128_000,
        max_batched_tokens=2048,
        max_num_seqs=256,
    )
    assert set(found) == {"encoder"}
    assert found["encoder"] == pytest.approx(passed - 0.25, rel=0.03)


def test_qwen_3_vl_bounds_a_whole_video_by_less_than_an_image() -> None:
    assert (
        largest_item(spec_of("Qwen/Qwen3-VL-8B-Instruct"), workload((0, 33), context_length=262144))
        == 16384
    )


def test_the_first_engine_gives_every_request_an_image_and_a_video() -> None:
    """128,000 tokens hold one request, of an image and a video of the six pairs that fit beside
    it."""
    work = workload((0, 7), context_length=128_000, max_batched_tokens=128_000, max_num_seqs=256)
    assert largest_batch(spec_of("Qwen/Qwen2.5-VL-3B-Instruct"), work, first_engine=True) == Batch(
        2, 6 * 16384, 7 * 16384
    )


def test_qwens_towers_rotated_in_float32_and_gathered_before_they_did_neither() -> None:
    """Widths of a patch, 1280: 18 on one rank and 8.75 on four, where the MLP takes 4 widths + 3
    x 3420 numbers, and a quarter of these."""
    spec = spec_of("Qwen/Qwen2.5-VL-7B-Instruct")
    tower = next(
        block
        for block in spec.blocks
        if block.part is Part.VISION and block.mlp and len(block.layers) > 1
    )
    works = [
        workload(version, tensor_parallel=ranks)
        for version in ((0, 11), (0, 19))
        for ranks in (1, 4)
    ]
    assert layer_moment(tower, 1280, spec, workload((0, 8))) == 4 * 1280 + 3 * 3420 > 12 * 1280
    assert [layer_moment(tower, 1280, spec, work) for work in works] == [
        18 * 1280,
        8 * 1280 + 3 * 1280 // 4,
        4 * 1280 + 3 * 3420,
        4 * 1280 + 3 * 3420 // 4,
    ]


def test_the_first_engine_profiles_an_image_for_every_sequence_of_a_cross_attention_model() -> None:
    spec = spec_of("meta-llama/Llama-3.2-11B-Vision-Instruct")
    one = images(spec, workload((0, 6), max_num_seqs=1), first_engine=True)
    all_of_them = images(spec, workload((0, 6), max_num_seqs=256), first_engine=True)
    assert one is not None
    assert all_of_them is not None
    assert all_of_them.peak == 256 * one.peak > 20 * GIB


def test_expert_workspaces_hold_gate_and_up_and_the_output_of_every_visited_expert() -> None:
    mlp = Mlp(intermediate_size=14336, experts=8, experts_per_token=2)
    assert expert_width(mlp, 4096, 2) == 2 * (7168 + 14336)
    assert expert_width(mlp, 4096, 8) == 2 * (4096 + 4096)
    assert expert_width(Mlp(intermediate_size=14336), 4096, 1) == 0
    latent = Mlp(intermediate_size=3072, experts=896, experts_per_token=16, latent_size=3584)
    assert expert_width(latent, 7168, 16) == 16 * (3584 + 3584)


def test_workspaces_outlive_the_layers_of_the_widest_mixture_alone() -> None:
    work = workload((0, 19), tensor_parallel=2)
    assert retained_workspace(
        spec_of("mistralai/Mixtral-8x7B-Instruct-v0.1"), work
    ) == 8192 * 2 * 2 * (7168 + 14336)
    assert retained_workspace(spec_of("Qwen/Qwen3-8B"), work) == 0


def test_sparse_indexers_take_their_logits_in_the_pass_and_queries_are_padded_to_64_heads() -> None:
    """DeepSeek V4 Flash on two ranks: 32 heads of 512 numbers and their output, as 64, beside
    four hidden states and 512 MiB."""
    spec, work = spec_of("deepseek-ai/DeepSeek-V4-Flash"), workload((0, 33), tensor_parallel=2)
    profile = load_engines().profile("vllm", (0, 33))
    copies = int(8192 * 2 * profile.hidden_copies.expected * spec.hidden_size)
    assert indexed_peak(spec, profile, work, 0) == pytest.approx(
        copies + 8192 * 2 * 2 * 64 * 512 + 512 * MIB, abs=1
    )
    assert indexed_peak(spec_of("Qwen/Qwen3-8B"), profile, work, 0) == 0


def test_an_indexer_gathers_the_keys_of_40_contexts_where_experts_need_less() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V4-Flash")
    short, long = (
        retained_workspace(spec, workload((0, 33), context_length=length))
        for length in (8192, 1_048_576)
    )
    assert short < long == 40 * 1_048_576 // 4 * 132


@pytest.mark.parametrize(
    "name, dense, every",
    [
        ("Qwen/Qwen3-8B", True, True),
        ("Qwen/Qwen3-30B-A3B", False, True),
        ("Qwen/Qwen3.5-27B", False, True),
    ],
)
def test_the_second_runner_takes_dense_models_first(name: str, dense: bool, every: bool) -> None:
    spec = spec_of(name)
    assert (runs_second(spec, "none"), runs_second(spec, "dense"), runs_second(spec, "all")) == (
        False,
        dense,
        every,
    )


@pytest.mark.parametrize(
    "version, seen", [((0, 24), True), ((0, 25), False), ((0, 26), False), ((0, 27), True)]
)
def test_the_second_runner_saw_no_images_before_0_27(version: tuple[int, int], seen: bool) -> None:
    assert (
        "encoder"
        in peak("Qwen/Qwen2.5-VL-7B-Instruct", version, max_batched_tokens=2048, max_num_seqs=8)
    ) == seen


def test_mixtures_run_with_the_second_runner_from_0_29_on() -> None:
    profiles = [load_engines().profile("vllm", version) for version in ((0, 28), (0, 29))]
    assert [
        runs_second(spec_of("Qwen/Qwen3-30B-A3B"), profile.second_runner) for profile in profiles
    ] == [False, True]


def test_a_smaller_model_that_drafts_keeps_the_first_runner() -> None:
    target = spec_of("meta-llama/Llama-3.1-8B-Instruct")
    draft = spec_of("meta-llama/Llama-3.2-1B-Instruct")
    assert not runs_second(with_draft(target, draft, "meta-llama/Llama-3.2-1B-Instruct"), "all")


def test_cublas_keeps_more_from_hopper_on_and_stages_hand_two_tensors_on() -> None:
    assert workspace_bytes(H100) == 32 * MIB
    assert workspace_bytes(bundled().find("A100 80GB").accelerator) == 8 * MIB + 2**17
    spec = spec_of("Qwen/Qwen3-8B")
    assert stage_bytes(spec, workload((0, 19))) == 0
    assert stage_bytes(spec, workload((0, 19), pipeline_parallel=2)) == 2 * 2 * 8192 * 4096
