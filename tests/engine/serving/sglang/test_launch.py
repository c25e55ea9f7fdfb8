"""Commands that SGLang takes."""

import pytest

from bundled_models import spec_of
from fitgauge.engine.serving.sglang.launch import config_overrides


@pytest.mark.parametrize(
    ("model", "context_length", "overrides"),
    [
        ("state-spaces/mamba-2.8b-hf", 2048, None),
        ("state-spaces/mamba-2.8b-hf", 8192, '{"max_position_embeddings":8192}'),
        ("mistralai/Mamba-Codestral-7B-v0.1", 32768, '{"max_position_embeddings":32768}'),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 32768, None),
        ("Qwen/Qwen3-8B", 32768, None),
    ],
)
def test_a_model_of_states_alone_is_told_its_context(
    model: str, context_length: int, overrides: str | None
) -> None:
    """Its config says no length, for which SGLang takes 2,048 tokens and refuses more."""
    assert config_overrides(spec_of(model), context_length) == overrides
