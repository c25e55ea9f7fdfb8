"""The recipes against autograd itself: what the second layer of small models saves, storage by
storage (data/saved_tensors.jsonl)."""

import json
from collections import Counter
from pathlib import Path

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.autograd.layers.traits import TRAITS, is_supported
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.workload import TrainingWorkload

ROWS = [
    json.loads(line)
    for line in Path(__file__).parent.joinpath("data/saved_tensors.jsonl").read_text().splitlines()
]
OWN_STEPS = Path(__file__).parents[3] / "tools/accuracy/training_own.jsonl"
SMALL = 10_000
"""Bytes up to which tensors are statistics, indices and vectors, of which some are counted
together or not at all."""


BESIDE_DECODERS = (
    "bert",
    "roberta",
    "electra",
    "nomic_bert",
    "distilbert",
    "bart",
    "m2m_100",
    "t5",
)


def runs_otherwise(row):
    """Return where a CPU does otherwise than CUDA, whose way the recipes go: under autocast it
    leaves softmax and layer norms in 16 bit, and it writes out the scores of an attention with a
    trained bias."""
    mixed = row["precision"] == "mixed_bf16" and row["family"] in BESIDE_DECODERS
    written = (row["family"], row["attention"]) == ("t5", "sdpa")
    return written or (mixed and (row["attention"] == "eager" or row["family"] == "electra"))


def segment(row):
    spec = read_config(row["config"])
    settings = {
        "method": row["method"],
        "precision": row["precision"],
        "attention": row["attention"],
    }
    workload = TrainingWorkload(sequence_length=64, micro_batch_size=2, **settings)
    return spec, next(found for found in segments(spec, workload).layers if 1 in found.layers)


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if not runs_otherwise(row)],
    ids=lambda r: f"{r['family']}-{r['attention']}-{r['precision']}-{r['method']}",
)
def test_a_layer_saves_what_autograd_saves(row):
    spec, layer = segment(row)
    assert is_supported(spec)
    ours, theirs = [saved.bytes for saved in layer.saved], row["saved"]
    if row["family"] == "gpt2" and row["method"] == "lora":
        pytest.skip("GPT-2's Conv1D is no Linear: the measurement put no adapters there")
    assert sum(ours) == pytest.approx(sum(theirs), rel=0.004)
    assert Counter(size for size in ours if size > SMALL) == Counter(
        size for size in theirs if size > SMALL
    )


def test_every_verified_family_was_compared_or_shares_the_recipe_of_one_that_was():
    steps = [json.loads(line) for line in OWN_STEPS.read_text().splitlines()]
    compared = {row["family"] for row in ROWS} | {
        row["config"]["model_type"] for row in steps if "config" in row
    }
    compared |= {"mpnet", "whisper", "deberta-v2"}  # in whole steps too, of bundled models
    recipes = [TRAITS[family] for family in compared if family in TRAITS]
    alone = {
        family
        for family, traits in TRAITS.items()
        if traits.verified and family not in compared and traits not in recipes
    }
    assert not alone


def test_an_activation_without_trained_numbers_saves_its_input_alone():
    config = {
        "model_type": "apertus", "architectures": ["ApertusForCausalLM"], "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 512, "hidden_act": "relu",
    }  # fmt: skip
    workload = TrainingWorkload(sequence_length=32, precision="bf16")
    saved = {
        act: sum(
            tensor.elements
            for tensor in segments(read_config(config | {"hidden_act": act}), workload)
            .layers[0]
            .saved
            if tensor.elements == 32 * 128
        )
        for act in ("relu", "xielu")
    }
    assert saved == {"relu": 2 * 32 * 128, "xielu": 6 * 32 * 128}
