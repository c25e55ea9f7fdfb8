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
        ("openai-community/gpt2", "sdpa", "as CUDA's kernels keep it"),
        ("google-t5/t5-small", "sdpa", "as long as sequence_length"),
        ("state-spaces/mamba-130m-hf", "sdpa", "CUDA kernels"),
        ("state-spaces/mamba-130m-hf", "eager", "PyTorch alone."),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "eager", "in PyTorch alone they keep far more"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "sdpa", "Text alone"),
        ("openai/clip-vit-base-patch32", "sdpa", "BERT's was used"),
        ("deepseek-ai/DeepSeek-V4-Flash", "sdpa", "kept five times as much"),
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
