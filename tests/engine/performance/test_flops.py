"""FLOPs of a token, MFU and HFU, and ZeRO's communication."""

import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.sizes import nominal_model
from fitgauge.engine.model.mixers import Attention, LatentAttention, Recurrent
from fitgauge.engine.performance.flops import (
    achieved_tflops,
    attention_flops,
    budget_seconds,
    multiplied_parameters,
    peak_tflops,
    token_flops,
    utilization,
    zero_exchange,
)


def test_a_hundred_of_the_a100s_312_tflops_is_an_mfu_of_32_05_percent():
    assert utilization(
        100, peak_tflops(bundled().find("A100 80GB").accelerator, "fp16")
    ) == pytest.approx(0.3205, abs=5e-5)


def test_the_six_n_rule_holds_for_a_size_without_context():
    assert token_flops(nominal_model("7b", 7 * 10**9).spec, 1).model == pytest.approx(
        6 * 7e9, rel=1e-3
    )


def test_embedding_look_ups_are_not_multiplied_but_the_head_is():
    llama = spec_of("Qwen/Qwen3-8B")
    embedding = llama.vocabulary_size * llama.hidden_size
    norms = llama.parameters - multiplied_parameters(llama)
    assert embedding < norms < embedding * 1.001


def test_a_tied_embedding_counts_once_as_the_head():
    tied = spec_of("Qwen/Qwen3-0.6B")
    assert tied.parameters * 0.999 < multiplied_parameters(tied) <= tied.parameters


def test_of_a_mixture_only_the_visited_experts_count():
    mixture = spec_of("Qwen/Qwen3-30B-A3B")
    assert (
        3.0e9
        < multiplied_parameters(mixture) + mixture.vocabulary_size * mixture.hidden_size
        < 3.5e9
    )


def test_attention_counts_both_products_over_the_tokens_read():
    mixer = Attention(query_heads=32, kv_heads=8, head_dim=128, value_dim=128)
    assert attention_flops(mixer, 4096) == 4 * 4096 * 32 * 128


def test_a_sliding_window_bounds_what_a_query_reads():
    mixer = Attention(query_heads=4, kv_heads=4, head_dim=64, value_dim=64, window=512)
    assert attention_flops(mixer, 8192) == attention_flops(mixer, 512) > attention_flops(mixer, 256)


def test_latent_attention_multiplies_its_expanded_heads():
    mixer = LatentAttention(
        query_heads=128, latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128
    )
    assert attention_flops(mixer, 1000) == 2 * 1000 * 128 * (128 + 64 + 128)


def test_a_recurrent_state_reads_no_tokens():
    assert attention_flops(Recurrent(kind="mamba2", states=()), 4096) == 0


def test_full_checkpointing_adds_one_forward_pass_and_selective_the_attention_core():
    llama = spec_of("Qwen/Qwen3-8B")
    none, selective, full = (
        token_flops(llama, 4096, checkpointing=kind) for kind in ("none", "selective", "full")
    )
    assert (
        none.model
        == selective.model
        == full.model
        == none.hardware
        == pytest.approx(3 * none.forward)
    )
    assert full.hardware == pytest.approx(4 * full.forward)
    assert none.hardware < selective.hardware < full.hardware


def test_a_frozen_base_saves_the_gradients_of_its_weights():
    llama = spec_of("Qwen/Qwen3-8B")
    saved = token_flops(llama, 2048).model - token_flops(llama, 2048, frozen_base=True).model
    assert saved == pytest.approx(2 * multiplied_parameters(llama))


def test_a_token_budget_takes_its_operations_over_what_the_gpus_deliver():
    seconds = budget_seconds(1e12, 6 * 7e9, gpus=100, peak=312, mfu=0.5)
    assert seconds * 100 * achieved_tflops(1, 1) * 312e12 * 0.5 * 1e12 == pytest.approx(
        1e12 * 6 * 7e9
    )


def test_bf16_has_no_peak_on_hardware_that_does_not_multiply_it():
    assert peak_tflops(bundled().find("V100 32GB").accelerator, "bf16") is None


@pytest.mark.parametrize(
    "gpu, peak", [("A100 80GB", 156), ("H100", 494.7), ("V100 32GB", None), ("MI300X", None)]
)
def test_tf32_runs_at_half_of_bf16_from_ampere_on(gpu, peak):
    rate = peak_tflops(bundled().find(gpu).accelerator, "tf32")
    assert rate == (None if peak is None else pytest.approx(peak, rel=0.001))


def test_zero_3_moves_three_halves_of_what_data_parallelism_does():
    facts = {"ranks": 8, "tokens": 2048, "flops_per_token": 42e9, "peak": 312, "link_gbps": 32}
    third, first = (zero_exchange(7 * 10**9, zero_stage=stage, **facts) for stage in (3, 1))
    assert third.bytes == 3 * 2 * 7 * 10**9 * 7 // 8
    assert third.bytes * 2 == first.bytes * 3


def test_zero_3_over_pcie_is_bound_by_communication_and_over_nvlink_is_not():
    facts = {"zero_stage": 3, "ranks": 8, "tokens": 2048, "flops_per_token": 42e9, "peak": 312}
    assert (
        zero_exchange(7 * 10**9, link_gbps=32, **facts).ratio
        > 1
        > zero_exchange(7 * 10**9, link_gbps=300, **facts).ratio
    )
