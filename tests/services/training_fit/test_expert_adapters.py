"""Adapters on routed experts: how many they are, who has them, and what is printed."""

import re

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.errors import InvalidRequestError

ASKED = {"detail": "full"}
QWEN = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "H100", "method": "qlora", "lora_rank": 16}
AXOLOTL = QWEN | {"trainer": "axolotl", "quantize_experts": True}
EXPERTS = 48 * 128 * 16 * ((2048 + 2 * 768) + (768 + 2048))
"""Layers x experts x rank x (gate and up of one product, down): PEFT's ParamWrapper."""


def trained(answer):
    """Return the trained parameters."""
    (formula,) = [term.formula for term in answer.terms if term.name == "optimizer_states"]
    return int(re.search(r"([\d,]+) trained parameters", formula)[1].replace(",", ""))


@pytest.mark.parametrize(
    ("trainer", "sent", "adapted"),
    [
        ("unsloth", {}, True),  # unsloth/models/_utils.py, get_moe_target_parameters
        ("unsloth", {"lora_experts": False}, False),
        ("unsloth", {"lora_targets": "attention"}, False),
        ("unsloth", {"lora_dropout": 0.1}, False),
        ("axolotl", {"quantize_experts": True}, False),
        ("axolotl", {"quantize_experts": True, "lora_experts": True}, True),
    ],
    ids=str,
)
def test_experts_have_a_pair_each_where_the_printed_command_gives_them_one(
    train, trainer, sent, adapted
):
    answer = train(**QWEN, trainer=trainer, **sent)
    attention = train(**QWEN, trainer=trainer, **sent | {"lora_experts": False})
    assert answer.understood_as["lora_experts"] is adapted
    assert trained(answer) - trained(attention) == EXPERTS * adapted
    command = answer.launch.command
    if trainer == "axolotl":
        assert ("lora_target_parameters" in command) == adapted
    else:
        assert bool(re.search(r"'(gate|up|down)_proj'", command)) == adapted


def test_peft_adds_their_product_to_a_copy_of_the_weights_which_the_products_save(train):
    """Unsloth applies it to the tokens (unsloth_zoo/temporary_patches/moe_utils.py)."""
    asked = {**QWEN, "quantize_experts": True, "lora_experts": True}
    asked["activation_checkpointing"] = "none"
    sizes = {
        trainer: {
            tensor.name: tensor.bytes
            for segment in train(**asked, trainer=trainer).saved
            for tensor in segment.tensors
        }
        for trainer in ("axolotl", "unsloth")
    }
    assert sizes["axolotl"]["experts.gate_up.merged"] == 128 * 2048 * 2 * 768 * 2
    assert sizes["axolotl"]["experts.down.merged"] == 128 * 768 * 2048 * 2
    assert not any("merged" in name for name in sizes["unsloth"])


def test_a_published_run_with_adapters_on_experts_is_met(train):
    """axolotl examples/glm47-flash/README.md: about 34 GiB; 24 without them."""
    asked = {
        "model": "zai-org/GLM-4.7-Flash", "method": "qlora", "gpu": "48GB", "trainer": "axolotl",
        "sequence_length": 2048, "micro_batch_size": 2, "micro_batches": 4, "loss": "fused",
        "attention": "flash", "optimizer": "adamw_torch_8bit", "lora_rank": 32,
        "quantize_experts": True,
    }  # fmt: skip
    reserved = train(**asked, lora_experts=True).per_gpu.reserved_bytes
    assert reserved.expected == pytest.approx(34 * GIB, rel=0.05)


@pytest.mark.parametrize("sent", [{"lora_dropout": 0.1}, {"method": "dora"}], ids=str)
def test_what_peft_refuses_for_experts_is_refused(train, sent):
    asked = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "H200", "lora_experts": True, "method": "lora"}
    with pytest.raises(InvalidRequestError) as refused:
        train(**asked | sent)
    assert refused.value.field == "lora_experts"


@pytest.mark.parametrize(
    ("trainer", "flag"),
    [("trl", "--lora_target_parameters experts.gate_up_proj"), ("ms-swift", "--target_parameters")],
)
def test_other_tools_name_the_parameters_of_experts(train, trainer, flag):
    asked = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "B300", "method": "lora", "trainer": trainer}
    answer = train(**asked, lora_dropout=0, lora_experts=True)
    assert flag in answer.launch.command
