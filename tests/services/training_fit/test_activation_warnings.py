"""An answer says what its activations rest on."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.activation_warnings import recipe_notes


@pytest.mark.parametrize(
    ("model", "attention", "part"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "sdpa", None),
        ("openai-community/gpt2", "sdpa", "as CUDA kernels save them"),
        ("google-t5/t5-small", "sdpa", "as long as sequence_length"),
        ("state-spaces/mamba-130m-hf", "sdpa", "CUDA kernels"),
        ("state-spaces/mamba-130m-hf", "eager", "plain PyTorch."),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "eager", "plain PyTorch saves far more"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "sdpa", "Text only"),
        ("openai/clip-vit-base-patch32", "sdpa", "using BERT's"),
        ("deepseek-ai/DeepSeek-V4-Flash", "sdpa", "saved five times as much"),
        ("EleutherAI/gpt-j-6b", "sdpa", "has no sdpa attention"),
    ],
)
def test_a_recipe_says_what_it_takes_for_granted(model, attention, part):
    entry = Snapshot().get(model)
    notes = recipe_notes(
        read_config(entry.config, entry.quantization),
        TrainingWorkload(sequence_length=64, attention=attention),
    )
    assert notes == [] if part is None else any(part in note for note in notes)
