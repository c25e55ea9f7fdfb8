"""How answers are compared with SGLang's."""

from typing import Any

import pytest

from hunt.service import Answer
from hunt.sglang_ours import compared

CASE = {
    "architecture": "LlamaForCausalLM", "like": "meta-llama/Llama-3.2-1B-Instruct",
    "format": "as published", "card": "H100", "tensor_parallel": 1,
    "config": {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 256,
        "num_attention_heads": 4, "num_hidden_layers": 2,
    },
}  # fmt: skip
SGLANG = {"parameter_bytes": 1000, "groups": {}, "tokens": 500, "pool": {"cell_size": 4}}


def ours(weights: int, tokens: int, verdict: str = "fits") -> dict[str, Any]:
    return {
        "verdict": verdict,
        "terms": [{"name": "weights", "bytes": weights, "formula": ""}],
        "limits": {"kv_cache_tokens": tokens},
    }


@pytest.mark.parametrize(
    ("sglang", "status", "body", "kind"),
    [
        (SGLANG, 200, ours(1000, 504), "agrees"),
        (SGLANG, 200, ours(1002, 500), "weights"),
        (SGLANG, 200, ours(1000, 506), "tokens"),
        (SGLANG, 422, {"detail": "no"}, "refused here"),
        (SGLANG, 200, ours(1000, 500, "unsupported"), "refused here"),
        ({"error": "ValueError: too many heads"}, 200, ours(1000, 500), "refused by SGLang"),
        ({"error": "ValueError: too many heads"}, 422, {"detail": "no"}, "agrees"),
        ({"error": "AttributeError: no such field"}, 200, ours(1000, 500), "no answer"),
        (
            {**SGLANG, "plan_error": "ValueError: no memory for the KV cache"},
            200,
            ours(1000, 0, "does_not_fit"),
            "agrees",
        ),
        ({**SGLANG, "plan_error": "ValueError: x"}, 200, ours(1000, 9), "refused by SGLang"),
    ],
)
def test_a_case_is_held_to_weights_tokens_and_refusals(
    sglang: dict[str, Any], status: int, body: dict[str, Any], kind: str
) -> None:
    assert compared(CASE, sglang, Answer(status, body)).kind == kind
