"""Models with prediction layers of their own, held to vLLM 0.33.0's code: its draft class on a
device without memory, and its planner's tokens of a pool of 10 GiB, one GPU of each launch."""

from collections.abc import Callable
from typing import Any

import pytest

from fitgauge.services.common.fit_schemas import FitAnswer

Check = Callable[..., FitAnswer]

HELD = [
    ("Qwen/Qwen3.5-27B", 1, 849_398_784, 68_887),
    ("Qwen/Qwen3.5-35B-A3B", 1, 1_689_281_536, 179_404),
    ("Qwen/Qwen3.5-122B-A10B", 4, 1_264_620_544, 303_513),
    ("deepseek-ai/DeepSeek-V3", 8, 1_661_047_968, 150_320),
    ("deepseek-ai/DeepSeek-V3.2", 8, 1_676_387_488, 134_848),
]
"""Model, ranks, bytes of Qwen3_5MTP, Qwen3_5MoeMTP, DeepSeekMTP and DeepseekV32MTP without the
embedding and the head that they share with the model, tokens."""


@pytest.mark.parametrize(("model", "ranks", "draft", "tokens"), HELD)
def test_a_prediction_layer_has_the_bytes_and_the_cache_that_vllm_gives_it(
    check_fit: Check, model: str, ranks: int, draft: int, tokens: int
) -> None:
    question: dict[str, Any] = {
        "model": model, "gpu": "H100 SXM", "gpu_count": ranks, "tensor_parallel": ranks,
        "engine": "vllm", "engine_version": "0.33.0", "context_length": 8192,
        "kv_cache_memory_gib": 10, "speculative_tokens": 1, "max_num_seqs": 1024,
        "max_batched_tokens": 8192, "settings": "defaults", "detail": "full",
    }  # fmt: skip
    answer = check_fit(**question)
    assert answer.terms is not None
    counted = sum(term.bytes for term in answer.terms if term.name == "draft_weights")
    assert counted == pytest.approx(draft, abs=64)
    assert answer.limits is not None
    assert answer.limits.kv_cache_tokens == tokens
