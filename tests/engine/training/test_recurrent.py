"""Mamba, Mamba 2, gated delta nets and hybrids: what their kernels keep, and Mamba's reference
in PyTorch against measured steps."""

import pytest

from accuracy import training_truth as truth
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.workload import TrainingWorkload

QWEN = "Qwen/Qwen3-Next-80B-A3B-Instruct"
MAMBA = "state-spaces/mamba-130m-hf"
NEMOTRON = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"


def layers(name, attention="sdpa", length=512):
    workload = TrainingWorkload(
        precision="bf16", sequence_length=length, micro_batch_size=2, attention=attention
    )
    return segments(truth.own_model(name, None), workload).layers


def test_mambas_reference_is_within_six_percent_of_measured_steps():
    steps = [truth.own_step(row) for row in truth.rows("training_own") if row["model"] == MAMBA]
    assert steps
    assert all(abs(step.error) <= 0.06 for step in steps)


def test_mambas_kernel_keeps_no_state_of_every_token():
    (kernel,), (written,) = layers(MAMBA), layers(MAMBA, "eager")
    tokens, channels, states = 2 * 512, 1536, 16
    assert sum(saved.bytes for saved in written.saved) > 3 * tokens * channels * states * 4
    assert sum(saved.bytes for saved in kernel.saved) < tokens * channels * states


def test_mambas_kernel_keeps_two_states_in_float32_of_every_2048th_token():
    (kernel,) = layers(MAMBA, length=4097)
    sequences, channels, chunks, states = 2, 1536, 3, 16
    sizes = {saved.name: saved.bytes for saved in kernel.saved}
    assert sizes["scan.states"] == sequences * channels * chunks * 2 * states * 4
    assert sizes["scan.b_and_c"] == sequences * 4097 * 2 * states * 2


@pytest.mark.parametrize("name", [QWEN, NEMOTRON])
def test_eager_attention_leaves_recurrent_layers_no_less_than_their_kernels_keep(name):
    """Whose reference in PyTorch is not derived."""
    kernels, eager = (
        [sum(saved.bytes for saved in layer.saved) for layer in layers(name, attention)]
        for attention in ("sdpa", "eager")
    )
    assert all(other >= one for one, other in zip(kernels, eager, strict=True))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            QWEN,
            {
                "delta.query",
                "delta.key",
                "delta.value",
                "delta.chunks",
                "gated_norm",
                "experts.tokens",
            },
        ),
        (NEMOTRON, {"mixer.in_proj", "scan.output", "experts.tokens", "attention"}),
    ],
)
def test_every_kind_of_layer_of_a_hybrid_has_its_recipe(name, wanted):
    names = {saved.name for layer in layers(name) for saved in layer.saved}
    assert wanted <= names
    assert "activation" not in names  # of layers without a recipe


def test_queries_that_come_with_a_gate_keep_it():
    (attention,) = (layer for layer in layers(QWEN) if 3 in layer.layers)
    assert "attention.sigmoid" in {saved.name for saved in attention.saved}


def test_gradients_reach_every_parameter_of_a_recurrent_layer():
    spec = truth.own_model(MAMBA, None)
    (layer,) = segments(spec, TrainingWorkload(precision="bf16", sequence_length=64)).layers
    assert layer.released == layer.gradients
