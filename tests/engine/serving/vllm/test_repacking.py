"""What kernels' own layouts take beyond the parameters, and CUDA graphs by kind of layer."""

import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.model.spec import Kind, count_within
from fitgauge.engine.quantity import GIB
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.runtime import graph_term
from fitgauge.engine.serving.vllm.repacking import (
    padded_row_bytes,
    repacking_terms,
    widened_scale_bytes,
)
from fitgauge.engine.serving.vllm.weights import shard_weights
from fitgauge.engine.serving.weights import Stage
from workloads import workload_of

BLOCK = 128


def _widened(name: str, gpu: str, ranks: int = 1, experts: int = 1) -> int:
    spec = spec_of(name)
    scheme = published(spec)
    assert scheme is not None
    work = workload_of(tensor_parallel=ranks, expert_parallel=experts)
    return widened_scale_bytes(
        shard_weights(spec, scheme),
        work,
        bundled().find(gpu).accelerator,
        Stage(range(spec.layers)),
    )


def test_marlin_keeps_a_scale_for_every_row_of_a_block() -> None:
    spec = spec_of("Qwen/Qwen3-32B-FP8")
    quantized = sum(
        len(block.layers) * tensor.elements
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.kind is Kind.LINEAR
    )
    scales = quantized // BLOCK * 2 - quantized // BLOCK**2 * 4
    assert _widened("Qwen/Qwen3-32B-FP8", "A100 80GB") == scales


@pytest.mark.parametrize("gpu", ["L40S", "H100", "RTX 5090", "MI300X"])
def test_blocks_stay_where_matrix_units_multiply_fp8(gpu: str) -> None:
    assert _widened("Qwen/Qwen3-32B-FP8", gpu) == 0


def test_experts_are_widened_on_every_rank_alike() -> None:
    whole = _widened("Qwen/Qwen3-30B-A3B-FP8", "A100 80GB")
    spread = _widened("Qwen/Qwen3-30B-A3B-FP8", "A100 80GB", ranks=2, experts=2)
    assert 2 * spread == whole


@pytest.mark.parametrize(("ranks", "experts"), [(1, 1), (2, 1), (2, 2)])
def test_hopper_pads_the_rows_of_packed_experts_which_ranks_divide(
    ranks: int, experts: int
) -> None:
    """gpt-oss: 32 experts of 5760 and 2880 rows of 1440 B in 24 layers, padded to 1536 B."""
    spec = spec_of("openai/gpt-oss-20b")
    scheme = published(spec)
    assert scheme is not None
    sharded = shard_weights(spec, scheme)
    work = workload_of(tensor_parallel=ranks, expert_parallel=experts)
    hopper, ampere = (bundled().find(gpu).accelerator for gpu in ("H100", "A100 80GB"))
    layers = range(spec.layers)
    padding = 24 * 32 * (5760 + 2880) * (1536 - 1440)
    assert padded_row_bytes(sharded, work, hopper, layers) == padding // ranks
    assert padded_row_bytes(sharded, work, ampere, layers) == 0


def test_unquantized_weights_are_not_repacked() -> None:
    spec = spec_of("Qwen/Qwen3-8B")
    work = workload_of()
    sharded = shard_weights(spec, published(spec) or Scheme(name="unquantized"))
    gpu = bundled().find("A100 80GB").accelerator
    assert repacking_terms(sharded, work, gpu, Stage(range(spec.layers))) == ()


def test_graphs_of_latent_layers_come_to_what_a_run_printed_that_was_not_fitted() -> None:
    """vLLM 0.25 on two RTX PRO 6000 called 0.92 equal to 0.8993 without graphs: 1.966 GiB."""
    spec = spec_of("deepseek-ai/DeepSeek-V4-Flash")
    profile = load_engines().profile("vllm", (0, 25))
    latent = count_within(spec.latent_layers, range(spec.layers))
    assert latent == spec.layers
    term = graph_term(profile, spec.layers, None, latent)
    assert term.low < 1.966 * GIB < term.high
    assert term.bytes / GIB == pytest.approx(1.966, rel=0.15)


def test_layers_of_other_attention_are_counted_apart() -> None:
    spec = spec_of("moonshotai/Kimi-K3")
    assert count_within(spec.latent_layers, range(spec.layers)) == 24
    assert count_within(spec.latent_layers, range(31)) == 7
    profile = load_engines().profile("vllm", (0, 33))
    mixed, plain = (graph_term(profile, 93, None, latent).bytes for latent in (24, 0))
    wide = profile.graph_latent_layer_bytes
    assert wide is not None
    assert mixed - plain == pytest.approx(
        24 * (wide.expected - profile.graph_layer_bytes.expected), abs=1
    )
