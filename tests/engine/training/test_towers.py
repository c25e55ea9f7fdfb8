"""Vision towers: what images become of published models, and what is kept of them. Whole steps:
tools/accuracy/training_own.jsonl."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.autograd.layers.traits import TRAITS, is_supported
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.autograd.vision.styles import STYLES, tower_of
from fitgauge.engine.training.workload import TrainingWorkload


def bundled(name: str) -> ModelSpec:
    entry = Snapshot().get(name)
    assert entry is not None
    return read_config(entry.config)


def kept(spec: ModelSpec, **settings: object) -> dict[str, int]:
    """Return the bytes of the tensors that are kept of what comes before the first layer of the
    language model, by name."""
    workload = TrainingWorkload(sequence_length=2048, images=1, precision="bf16", **settings)
    found: dict[str, int] = {}
    for tensor in segments(spec, workload).embedding.saved:
        found[tensor.name] = found.get(tensor.name, 0) + tensor.bytes
    return found


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", (768 // 28) ** 2),
        ("moonshotai/Kimi-K2.5", (768 // 28) ** 2),
        ("google/gemma-3-4b-it", 256),
        ("google/gemma-4-31B-it", (768 // 48) ** 2),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", 4 * (40**2 + 1)),
        ("Qwen/Qwen3-VL-8B-Instruct", (768 // 32) ** 2),
    ],
)
def test_an_image_of_768_pixels_a_side_becomes_the_tokens_that_its_processor_makes(model, tokens):
    tower = tower_of(bundled(model))
    assert tower is not None
    assert tower.usual_tokens == tokens


def test_every_family_whose_tower_is_told_has_a_language_model_with_a_recipe():
    assert STYLES.keys() <= TRAITS.keys()
    assert {family for family in STYLES if not TRAITS[family].verified} == {
        "qwen3_5",
        "qwen3_5_moe",
    }  # gated delta nets, whose kernels need a card


def test_a_layer_of_pixtral_keeps_queries_keys_and_values_of_all_images_of_a_row():
    spec, tokens = bundled("mistralai/Mistral-Small-3.1-24B-Instruct-2503"), 729
    found = kept(spec, image_tokens=tokens)
    layers, patches, width = 24, 4 * tokens, 1024
    for name in ("query.rotated", "key.rotated", "attention"):
        assert found[name] == layers * patches * width * 2
    assert "attention.scores" not in found


def test_a_frozen_tower_keeps_nothing_and_a_checkpointed_one_a_layer_s_input_each():
    spec = bundled("google/gemma-4-31B-it")
    assert is_supported(spec)
    assert "query.rotated" not in kept(spec, image_tokens=256, train_vision_tower=False)
    held = []
    for how in ("none", "full"):
        workload = TrainingWorkload(
            sequence_length=2048,
            images=1,
            image_tokens=256,
            precision="bf16",
            activation_checkpointing=how,
        )
        held.append(segments(spec, workload).embedding.forward.end)
    assert held[1] < held[0] / 10


def test_tiles_are_sequences_of_their_own_whose_scores_do_not_meet():
    spec = bundled("google/gemma-3-4b-it")
    one, four = (
        kept(spec, image_tokens=256 * tiles, attention="eager")["attention.softmax"]
        for tiles in (1, 4)
    )
    assert four == 4 * one
