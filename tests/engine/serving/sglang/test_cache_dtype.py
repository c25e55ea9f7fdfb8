"""The format of SGLang's cache by itself, and the rows of sparse MLA, against sglang 0.5.23's own
planner (`cell_bytes`)."""

from typing import Any

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.catalog.accelerators import load
from fitgauge.engine.serving.sglang.cache_dtype import cache_dtype, checkpoint_is_fp8, sparse_rows
from fitgauge.engine.serving.sglang.pools import radix_pool
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of


def workload(**fields: Any) -> Workload:
    return workload_of("sglang", **{"version": (0, 5, 23)} | fields)


@pytest.mark.parametrize(
    ("quantization", "narrow"),
    [
        ({}, False),
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}, True),
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}}, False),
        ({"quant_algo": "FP8", "kv_cache_scheme": {"type": "float", "num_bits": 8}}, True),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8"}, False),
        ({"quant_algo": "NVFP4", "kv_cache_quant_algo": "fp8"}, True),
        ({"quant_method": "fp8", "kv_cache_quant_algo": "FP8"}, True),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}, False),
        (
            {
                "quant_method": "compressed-tensors",
                "kv_cache_scheme": {"type": "float", "num_bits": 8, "dynamic": False},
            },
            True,
        ),
    ],
)
def test_a_checkpoint_of_modelopt_sets_the_format(
    quantization: dict[str, object], narrow: bool
) -> None:
    assert checkpoint_is_fp8(quantization) is narrow
    spec = msgspec.structs.replace(spec_of("Qwen/Qwen3-32B"), quantization=quantization)
    chosen = cache_dtype(spec, workload(), load().get("h100-sxm-80gb"))
    assert chosen == ("F8_E4M3" if narrow else "auto")


def test_sparse_mla_has_a_format_of_its_own_and_the_question_the_last_word() -> None:
    fp8 = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    spec = msgspec.structs.replace(spec_of("deepseek-ai/DeepSeek-V3.2"), quantization=fp8)
    hopper, blackwell = load().get("h200-sxm-141gb"), load().get("b200-192gb")
    assert cache_dtype(spec, workload(), hopper) == "auto"
    assert cache_dtype(spec, workload(), blackwell) == "F8_E4M3"
    assert cache_dtype(spec, workload(kv_cache_dtype="BF16"), blackwell) == "BF16"


@pytest.mark.parametrize(
    ("card", "version", "row"),
    [
        ("b200-192gb", (0, 5, 23), 576 + 132),
        ("h200-sxm-141gb", (0, 5, 23), 656 + 132),
        ("b200-192gb", (0, 5, 10), 656 + 132),
    ],
)
def test_rows_of_sparse_mla_in_fp8(card: str, version: tuple[int, ...], row: int) -> None:
    work = workload(kv_cache_dtype="F8_E4M3", version=version)
    rows = sparse_rows(spec_of("deepseek-ai/DeepSeek-V3.2"), work, load().get(card))
    pool = radix_pool(spec_of("deepseek-ai/DeepSeek-V3.2"), work, None, rows=rows)
    assert pool.cell == 61 * row


def test_layers_that_share_an_index_have_the_same_rows() -> None:
    """GLM-5.2 has 21 indexers in 78 layers."""
    spec, work = spec_of("nvidia/GLM-5.2-NVFP4"), workload(kv_cache_dtype="F8_E4M3")
    rows = sparse_rows(spec, work, load().get("h200-sxm-141gb"))
    assert radix_pool(spec, work, None, rows=rows).cell == 78 * 656 + 21 * 132


@pytest.mark.parametrize(
    ("card", "cache", "key"),
    [
        ("b200-192gb", "auto", 256),
        ("b200-192gb", "F8_E4M3", 128),
        ("h200-sxm-141gb", "F8_E4M3", 128),
        ("h200-sxm-141gb", "F8_E5M2", 256),
        ("rtx-5090-32gb", "F8_E4M3", 256),
    ],
)
def test_keys_of_minimax_m3s_indexer(card: str, cache: str, key: int) -> None:
    """45,312 B a token on a B200 with tensor parallel 4, by sglang's own planner."""
    spec, work = spec_of("nvidia/MiniMax-M3-NVFP4"), workload(kv_cache_dtype=cache)
    pool = radix_pool(spec, work, None, rows=sparse_rows(spec, work, load().get(card)))
    assert pool.cell == 60 * 4 * 256 * (1 if cache.startswith("F8") else 2) + 57 * key
