"""An answer says what its activations rest on."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.activation_warnings import recipe_notes


@pytest.mark.parametrize(
    ("model", "attention", "code"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "sdpa", None),
        ("openai-community/gpt2", "sdpa", "saved-masks-of-cuda"),
        ("google-t5/t5-small", "sdpa", "source-length-assumed"),
        ("state-spaces/mamba-130m-hf", "sdpa", "recurrent-kernels-assumed"),
        ("state-spaces/mamba-130m-hf", "eager", "recurrent-kernels-assumed"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "eager", "recurrent-kernels-assumed"),
        ("openai/clip-vit-base-patch32", "sdpa", "activations-unverified"),
        ("deepseek-ai/DeepSeek-V4-Flash", "sdpa", "activations-omitted"),
        ("EleutherAI/gpt-j-6b", "sdpa", "attention-falls-back"),
    ],
)
def test_a_recipe_says_what_it_takes_for_granted(model, attention, code):
    entry = Snapshot().get(model)
    notes = recipe_notes(
        read_config(entry.config, entry.quantization),
        TrainingWorkload(sequence_length=64, attention=attention),
    )
    assert notes == [] if code is None else code in {note.code for note in notes}


def test_a_source_is_as_long_as_the_sequence_and_not_the_longest_too(train):
    answer = train(model="facebook/nllb-200-distilled-600M", gpu="T4", method="full")
    (note,) = [one for one in answer.warnings if one.code == "source-length-assumed"]
    assert "as long as sequence_length" in note.message


@pytest.mark.parametrize(
    ("model", "said"), [("BAAI/bge-m3", True), ("BAAI/bge-reranker-v2-m3", False)]
)
def test_an_embedding_model_is_said_to_be_trained_on_pairs(train, model, said):
    answer = train(model=model, gpu="RTX 3090", method="full")
    pairs = [one for one in answer.warnings if "sentence-transformers" in one.message]
    assert bool(pairs) == said
