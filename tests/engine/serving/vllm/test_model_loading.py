"""What loading holds against "Model loading took" of posted logs."""

import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantity import GIB, MIB, Term
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm.compute_capability import padded_for
from fitgauge.engine.serving.vllm.memory import loaded_stages
from fitgauge.engine.serving.vllm.model_loading import loaded_terms
from fitgauge.engine.serving.vllm.weights import VLLM, shard_weights
from fitgauge.engine.serving.weights import Stage
from fitgauge.engine.weights.rank_bytes import Ranks, share_bytes
from workloads import workload_of


def loaded(
    name: str, version: tuple[int, ...], ranks: int = 1, gpu: str = "H100 SXM"
) -> dict[str, Term]:
    spec = spec_of(name)
    sharded = shard_weights(spec, published(spec) or Scheme(name="unquantized"))
    work = workload_of(version=version, tensor_parallel=ranks, max_num_seqs=1024)
    terms = loaded_terms(
        spec, sharded, work, bundled().find(gpu).accelerator, Stage(range(spec.layers))
    )
    return {term.name: term for term in terms}


@pytest.mark.parametrize(
    "name, version, ranks, printed",
    [
        ("meta-llama/Llama-3.1-8B-Instruct", (0, 19), 1, 14.99),
        ("Qwen/Qwen2.5-7B-Instruct", (0, 19), 1, 14.25),
        ("Qwen/Qwen2.5-72B-Instruct", (0, 19), 2, 67.80),
        ("Qwen/Qwen2.5-72B-Instruct", (0, 19), 4, 33.98),
        ("Qwen/Qwen3-32B", (0, 11), 2, 30.59),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", (0, 19), 1, 29.43),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", (0, 19), 4, 7.51),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", (0, 19), 2, 22.80),
        ("google/gemma-3-12b-it", (0, 19), 1, 23.31),
        ("openai/gpt-oss-120b", (0, 14), 1, 64.38),
    ],
)
def test_loading_holds_what_was_printed(
    name: str, version: tuple[int, ...], ranks: int, printed: float
) -> None:
    size = sum(term.bytes for term in loaded(name, version, ranks).values())
    assert size / GIB == pytest.approx(printed, abs=0.011, rel=5e-4)


def test_experts_whose_activation_triton_lacks_are_padded_for_marlin_on_hopper() -> None:
    """Width 3072 over 16 ranks is 192, padded to 256: 129.75 GiB were printed (w087)."""
    spec = spec_of("moonshotai/Kimi-K3")
    sharded = padded_for(shard_weights(spec, published(spec) or Scheme(name="none")), spec, (9, 0))
    experts = next(share for share in sharded.shares if share.experts)
    sizes = {ways: share_bytes(experts, VLLM, Ranks(ways, ways, ways, 1)) for ways in (8, 16)}
    assert sizes[16] / sizes[8] == pytest.approx(256 / 384)


def test_a_pixtral_tower_stands_whole_on_every_rank_before_0_20() -> None:
    before, after = (
        loaded("mistralai/Mistral-Small-3.1-24B-Instruct-2503", version, 4)["weights"].bytes
        for version in ((0, 19), (0, 20))
    )
    assert before - after == pytest.approx(0.613 * GIB, rel=0.01)


def test_padded_rows_are_weights_where_logs_show_them_and_an_assumption_after() -> None:
    seen, later = loaded("openai/gpt-oss-20b", (0, 11)), loaded("openai/gpt-oss-20b", (0, 33))
    assert "repacking" not in seen
    assert seen["weights"].bytes - later["weights"].bytes == later["repacking"].bytes
    assert later["repacking"].low == 0
    assert "repacking" not in loaded("openai/gpt-oss-20b", (0, 33), gpu="RTX 3090")


def test_latent_attention_allocates_its_workspace_at_import() -> None:
    assert loaded("deepseek-ai/DeepSeek-V2-Lite-Chat", (0, 33))["workspace"].bytes == 128 * MIB
    assert "workspace" not in loaded("Qwen/Qwen3-8B", (0, 33))


def test_tables_that_end_with_the_context_are_counted_anew_for_each() -> None:
    """EmbeddingGemma 2: 1,536 bytes of tables a position."""
    spec = read_config({"model_type": "embedding_gemma2", "dtype": "bfloat16"})
    laid = shard_weights(spec, Scheme(name="unquantized"))
    gpu = bundled().find("H100 SXM").accelerator
    sizes = [
        sum(
            term.bytes
            for term in loaded_stages(spec, laid, workload_of(context_length=context), gpu)[0]
            if term.name == "weights"
        )
        for context in (2048, 8192)
    ]
    assert sizes[1] - sizes[0] == 6144 * 1536
