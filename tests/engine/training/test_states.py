"""States of optimizers against the tensors their public implementations make, and the copies
that fp8 and averaging keep."""

import pytest
from msgspec.structs import replace

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import Kind, Split
from fitgauge.engine.training.estimate import training_stages
from fitgauge.engine.training.states.optimizer_states import optimizer_bytes
from fitgauge.engine.training.states.parameters import Parameter
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

PROFILE = load_training()
SPEC = read_config(Snapshot().get("Qwen/Qwen3-0.6B").config)
STEP = TrainingWorkload(sequence_length=512, precision="bf16")


def parameter(shape, kind, dtype):
    return Parameter(
        name="w", shape=shape, kind=kind, split=Split.NONE, units=0, count=1, dtype=dtype
    )


MATRIX = ((768, 256), Kind.LINEAR)
EMBEDDING = ((512, 256), Kind.EMBEDDING)
VECTOR = ((768,), Kind.NORM)
ODD = ((100, 41), Kind.LINEAR)


@pytest.mark.parametrize(
    ("optimizer", "shape", "made", "source"),
    [
        (
            "lion",
            MATRIX,
            {"fp32": 786_432, "bf16": 786_432},
            "bitsandbytes Lion: state1, in fp32 beside any weights",
        ),
        ("lion", VECTOR, {"fp32": 3072, "bf16": 3072}, "bitsandbytes Lion: state1"),
        (
            "paged_adamw",
            MATRIX,
            {"fp32": 1_572_864, "bf16": 1_572_864},
            "bitsandbytes AdamW: state1, state2",
        ),
        ("muon", MATRIX, {"fp32": 786_432, "bf16": 393_216}, "torch.optim.Muon: momentum_buffer"),
        (
            "galore_adamw",
            MATRIX,
            {"fp32": 917_504, "bf16": 458_752},
            "galore-torch: exp_avg, exp_avg_sq (768, 128), projector (128, 256)",
        ),
        (
            "galore_adamw",
            EMBEDDING,
            {"fp32": 1_048_576, "bf16": 524_288},
            "galore-torch: no projector outside its target modules",
        ),
        (
            "adam_mini",
            EMBEDDING,
            {"fp32": 526_336, "bf16": 263_168},
            "adam-mini: m, vmean (512, 1)",
        ),
        (
            "adamw",
            MATRIX,
            {"fp32": 1_572_864, "bf16": 786_432},
            "torch.optim.AdamW: exp_avg, exp_avg_sq",
        ),
        (
            "adafactor",
            MATRIX,
            {"fp32": 4096, "bf16": 2048},
            "torch.optim.Adafactor: row_var (768, 1), col_var (1, 256)",
        ),
        (
            "sgd_momentum",
            MATRIX,
            {"fp32": 786_432, "bf16": 393_216},
            "torch.optim.SGD: momentum_buffer",
        ),
        (
            "adamw_8bit",
            MATRIX,
            {"fp32": 399_360, "bf16": 399_360},
            "bitsandbytes AdamW8bit: two states of a byte, absmax of 256 in fp32",
        ),
        (
            "lion_8bit",
            MATRIX,
            {"fp32": 199_680, "bf16": 199_680},
            "bitsandbytes Lion8bit: one state, absmax",
        ),
        (
            "adamw_8bit",
            EMBEDDING,
            {"fp32": 1_048_576, "bf16": 1_048_576},
            "bitsandbytes AdamW8bit: overridden to 32 bit by the Trainer",
        ),
        (
            "adamw_torch_8bit",
            MATRIX,
            {"fp32": 399_360, "bf16": 399_360},
            "torchao AdamW8bit: codes, scales of 256",
        ),
        (
            "adamw_torch_8bit",
            EMBEDDING,
            {"fp32": 266_240, "bf16": 266_240},
            "torchao AdamW8bit: embeddings as everything else",
        ),
        (
            "adamw_torch_8bit",
            VECTOR,
            {"fp32": 6144, "bf16": 3072},
            "torchao AdamW8bit: fewer than 4096 numbers",
        ),
        (
            "adamw_torch_fp8",
            MATRIX,
            {"fp32": 399_360, "bf16": 399_360},
            "torchao AdamWFp8: codes, scales of 256",
        ),
        (
            "adamw_torch_4bit",
            MATRIX,
            {"fp32": 208_896, "bf16": 208_896},
            "torchao AdamW4bit: two codes a byte, scales of 128",
        ),
        (
            "adamw_torch_4bit",
            ODD,
            {"fp32": 32_800, "bf16": 16_400},
            "torchao AdamW4bit: no whole number of blocks",
        ),
    ],
)
def test_states_are_those_that_the_implementation_makes(optimizer, shape, made, source):
    """Each was instantiated on these shapes and stepped once; `made` are the bytes of its
    state tensors without step counters."""
    for precision, size in made.items():
        form = precision_policy(replace(STEP, precision=precision, optimizer=optimizer))
        assert optimizer_bytes(parameter(*shape, form.weights), optimizer, form) == size, (
            precision,
            source,
        )


def parts(**settings):
    (stage,) = training_stages(SPEC, replace(STEP, **settings), PROFILE)
    return stage, {term.name: term.bytes for term in stage.terms}


def test_a_moving_average_is_one_more_copy_of_the_weights_on_the_card_or_on_the_host():
    none, device, host = parts()[0], parts(ema="device"), parts(ema="host")
    assert device[1]["ema_weights"] == device[1]["weights"]
    assert host[0].host_bytes - none.host_bytes == device[1]["weights"]
    assert host[0].allocated == none.allocated


def test_an_average_of_adapters_is_as_small_as_they_are():
    _, found = parts(method="lora", ema="device")
    assert 0 < found["ema_weights"] < found["weights"] / 20


def test_an_average_is_sharded_as_the_weights_are():
    _, found = parts(ema="device", framework="fsdp", zero_stage=3, data_parallel=4)
    assert found["ema_weights"] == found["weights"]


def linears():
    return sum(
        t.elements * len(block.layers)
        for block in SPEC.blocks
        for t in block.tensors
        if t.kind is Kind.LINEAR and "{}" in block.prefix
    )


def test_transformer_engine_keeps_two_fp8_copies_of_every_linear_and_megatron_with_fp8_none():
    settings = {"framework": "megatron", "precision": "fp8"}
    _, half = parts(framework="megatron", precision="mixed_bf16")
    _, copies = parts(**settings)
    _, only = parts(**settings, fp8_parameters=True)
    assert copies["fp8_weights"] == 2 * linears()
    assert copies["weights"] == half["weights"]
    assert "fp8_weights" not in only


def test_fsdps_float8_keeps_no_copies():
    _, found = parts(framework="fsdp", precision="fp8", zero_stage=3, data_parallel=2)
    assert "fp8_weights" not in found


def test_activations_that_wait_on_the_host_are_counted_there():
    settings = {"activation_checkpointing": "full", "micro_batch_size": 4}
    here, away = parts(**settings)[0], parts(**settings, activation_offload=True)[0]
    inputs = SPEC.layers * 4 * 512 * SPEC.hidden_size * 2
    assert away.host_bytes - here.host_bytes == inputs
    assert here.phases["forward"] > away.phases["forward"]


def test_megatron_in_bf16_keeps_fp32_gradients_and_masters_whatever_its_precision_is_called():
    policies = [
        precision_policy(replace(STEP, framework="megatron", precision=name))
        for name in ("bf16", "mixed_bf16")
    ]
    assert policies[0] == policies[1]
    assert (policies[0].gradients, policies[0].masters, policies[0].states) == ("F32", "F32", "F32")
