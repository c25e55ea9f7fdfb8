"""What a layer keeps under fused kernels: the list that their save_for_backward calls make,
tensor by tensor."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.autograd.layers.losses import loss_of
from fitgauge.engine.training.autograd.layers.traits import LLAMA as LIKE_LLAMA
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

TOKENS, HIDDEN, QUERIES, KEYS, INNER = 512, 4096, 4096, 1024, 14336
LLAMA = "meta-llama/Llama-3.1-8B"
ADAPTED = {"method": "qlora", "precision": "mixed_bf16", "base_precision": "half"}


def layer(name=LLAMA, **settings):
    row = Snapshot().get(name)
    workload = TrainingWorkload(**{"sequence_length": TOKENS, "attention": "flash", **settings})
    return segments(read_config(row.config, row.quantization), workload).layers[-1]


def saved(name=LLAMA, **settings):
    """Return the numbers of every tensor as long as the sequence that a layer saves, a token
    each, with its width."""
    return {
        tensor.name: (tensor.elements // TOKENS, tensor.width)
        for tensor in layer(name, **settings).saved
        if tensor.elements > 64 * TOKENS
    }


def test_unsloth_keeps_the_inputs_of_norms_linears_and_attention_and_what_gate_and_up_give():
    """Fast_RMS_Layernorm, LoRA_QKV, LoRA_W and LoRA_MLP save nothing else as long as the
    sequence; rotation is in place."""
    assert saved(kernels="unsloth", **ADAPTED) == {
        "hidden": (HIDDEN, 2), "input_layernorm": (HIDDEN, 2), "self_attn.q_proj": (QUERIES, 2),
        "self_attn.k_proj": (KEYS, 2),
        "self_attn.v_proj": (KEYS, 2), "attention": (QUERIES, 2), "attention.residual": (HIDDEN, 2),
        "post_attention_layernorm": (HIDDEN, 2), "mlp.gate": (INNER, 2), "mlp.up": (INNER, 2),
    }  # fmt: skip


def test_liger_makes_no_fp32_copy_and_computes_the_gates_product_again():
    kept = saved(kernels="liger", precision="bf16")
    assert not [name for name, (_, width) in kept.items() if width == 4]
    assert [name for name, (size, _) in kept.items() if size == INNER] == [
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.product",
    ]


def test_axolotls_kernels_are_of_adapters_alone():
    """Norms and rotation stay as transformers writes them."""
    kept, plain = saved(kernels="lora", **ADAPTED), saved(**ADAPTED)
    assert {name for name in plain if "norm" in name} <= set(kept)
    assert "mlp.product" not in kept


@pytest.mark.parametrize("kernels", ["liger", "lora", "unsloth"])
def test_no_kernel_keeps_more_than_the_modelling_code(kernels):
    asked = ADAPTED | {"method": "lora"}
    plain, fused = layer(**asked), layer(kernels=kernels, **asked)
    assert sum(tensor.bytes for tensor in fused.saved) < sum(tensor.bytes for tensor in plain.saved)
    assert fused.backward.peak <= plain.backward.peak


def test_unsloths_kernels_take_neither_biases_nor_magnitudes_and_axolotls_do():
    """unsloth models/llama.py, patch_peft_model; axolotl kernels/lora.py, LoRA_QKV and LoRA_O
    (since March 2026)."""
    biased, decomposed = "Qwen/Qwen2.5-7B", ADAPTED | {"method": "dora"}
    apart = {
        kernels: [
            t.name
            for t in layer(biased, kernels=kernels, **ADAPTED).saved
            if "q_proj.lora" in t.name
        ]
        for kernels in ("lora", "unsloth")
    }
    assert not apart["lora"]
    assert apart["unsloth"]
    assert "mlp.gate" not in saved(kernels="unsloth", **decomposed)
    assert "mlp.gate" in saved(kernels="lora", **decomposed)


def test_a_frozen_base_may_stay_in_16_bit_beside_adapters_in_fp32():
    half, wide = (
        precision_policy(
            TrainingWorkload(sequence_length=1, **ADAPTED | {"base_precision": precision})
        )
        for precision in ("half", "fp32")
    )
    assert (half.weights, half.adapters, half.compute, half.autocast) == (
        "BF16",
        "F32",
        "BF16",
        True,
    )
    assert wide.weights == "F32"
    full = precision_policy(
        TrainingWorkload(sequence_length=1, precision="mixed_bf16", base_precision="half")
    )
    assert (full.weights, full.gradients, full.states) == ("BF16", "BF16", "BF16")


MEASURED = [
    # bytes of a number of the head, whether it is trained, under autocast; forward and backward, of
    # a piece's logit, the head, the states
    (4, True, True, (14, 0, 4), (14, 6, 8)),
    (4, False, True, (14, 0, 4), (14, 2, 8)),
    (2, False, True, (14, 0, 2), (14, 2, 4)),
    (2, True, False, (16, 0, 2), (16, 6, 4)),
]
"""TRL's _chunked_cross_entropy_loss as it ran on a CPU, its log-softmax in fp32 as CUDA's
autocast has it (trl 1.10)."""


@pytest.mark.parametrize(("width", "trained", "autocast", "forward", "backward"), MEASURED)
def test_logits_that_are_made_again_take_what_was_measured(
    width, trained, autocast, forward, backward
):
    tokens, hidden, vocabulary = 2048, 256, 8000
    tape = Tape(2 if autocast else 0)
    states = tape.input("hidden", tokens * hidden, width, grad=True)
    head = tape.parameter("head", vocabulary * hidden, width, trained=trained)
    workload = TrainingWorkload(sequence_length=tokens, loss="recomputed")
    _, loss = loss_of(tape, states, head, tokens, vocabulary, hidden, LIKE_LLAMA, workload)
    sizes = (256 * vocabulary, vocabulary * hidden, tokens * hidden)

    def total(coefficients):
        return pytest.approx(
            sum(size * each for size, each in zip(sizes, coefficients, strict=True)), rel=1e-5
        )

    there = tape.forward(loss)
    assert there.peak == total(forward)
    assert there.end + states.bytes + tape.backward(loss).peak == total(backward)
