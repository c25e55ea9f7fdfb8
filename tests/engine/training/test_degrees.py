"""Layouts that cannot run are refused with the values that work."""

from itertools import product

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.parallel.validate import check, runs, tensor_widths
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.unsupported import UnsupportedError

DIVIDED = {"framework": "megatron", "tensor_parallel": 2, "sequence_parallel": True}


def spec(name="Qwen/Qwen3-8B"):
    row = Snapshot().get(name)
    return read_config(row.config, row.quantization)


def work(**settings):
    return TrainingWorkload(**{"sequence_length": 2048, **settings})


@pytest.mark.parametrize(
    ("settings", "parameter"),
    [
        ({"framework": "megatron", "tensor_parallel": 3}, "tensor_parallel"),
        ({"framework": "megatron", "pipeline_parallel": 64}, "pipeline_parallel"),
        ({"framework": "megatron", "pipeline_parallel": 20}, "pipeline_parallel"),
        (
            {"framework": "megatron", "pipeline_parallel": 4, "last_stage_layers": 36},
            "last_stage_layers",
        ),
        (
            {"framework": "deepspeed", "pipeline_parallel": 2, "last_stage_layers": 7},
            "last_stage_layers",
        ),
        (
            {
                "framework": "megatron",
                "pipeline_parallel": 6,
                "pipeline_schedule": "interleaved",
                "pipeline_chunks": 4,
            },
            "pipeline_schedule",
        ),
        (
            {"framework": "megatron", "pipeline_parallel": 12, "pipeline_schedule": "interleaved"},
            "pipeline_schedule",
        ),
        (
            {
                "framework": "megatron",
                "pipeline_parallel": 3,
                "pipeline_schedule": "interleaved",
                "micro_batches": 8,
            },
            "micro_batches",
        ),
        ({"framework": "transformers", "pipeline_parallel": 2}, "pipeline_parallel"),
        ({"framework": "fsdp", "pipeline_parallel": 2, "fsdp_version": 1}, "fsdp_version"),
        ({"framework": "fsdp", "pipeline_parallel": 4, "micro_batches": 3}, "micro_batches"),
        (
            {"framework": "fsdp", "pipeline_parallel": 2, "pipeline_schedule": "zero_bubble"},
            "pipeline_schedule",
        ),
        ({"framework": "fsdp", "pipeline_parallel": 36, "micro_batches": 36}, "pipeline_parallel"),
        ({"framework": "megatron", "expert_parallel": 2}, "expert_parallel"),
        ({"framework": "megatron", "zero_stage": 3}, "zero_stage"),
        ({"framework": "deepspeed", "zero_stage": 3, "pipeline_parallel": 2}, "zero_stage"),
        ({"framework": "deepspeed", "zero_stage": 3, "optimizer": "adamw_8bit"}, "optimizer"),
        ({"framework": "deepspeed", "zero_stage": 2, "offload": "parameters"}, "offload"),
        (
            {"framework": "fsdp", "data_parallel": 8, "data_parallel_replicate": 3},
            "data_parallel_replicate",
        ),
        (
            {"framework": "deepspeed", "data_parallel": 8, "data_parallel_replicate": 2},
            "data_parallel_replicate",
        ),
        (
            {"framework": "fsdp", "data_parallel": 8, "zero_hpz_partition_size": 8},
            "zero_hpz_partition_size",
        ),
        (
            {
                "framework": "deepspeed",
                "zero_stage": 3,
                "data_parallel": 8,
                "zero_hpz_partition_size": 3,
            },
            "zero_hpz_partition_size",
        ),
        ({"framework": "megatron", "context_parallel": 3}, "context_parallel"),
        (
            {"framework": "megatron", "context_parallel": 4, "sequence_length": 2044},
            "sequence_length",
        ),
        ({"framework": "fsdp", "context_parallel": 2, "attention": "eager"}, "attention"),
        ({"framework": "transformers", "gradient_dtype": "bf16"}, "gradient_dtype"),
        (
            {"framework": "megatron", "precision": "fp32", "gradient_dtype": "bf16"},
            "gradient_dtype",
        ),
        ({"framework": "transformers", "context_parallel": 2}, "context_parallel"),
        ({"framework": "fsdp", "context_parallel": 2, "fsdp_version": 1}, "fsdp_version"),
        ({"framework": "deepspeed", "context_parallel": 64}, "context_parallel"),
        ({"framework": "megatron", "sequence_parallel": True}, "sequence_parallel"),
        (
            {"framework": "transformers", "tensor_parallel": 2, "sequence_parallel": True},
            "sequence_parallel",
        ),
        (
            {"framework": "deepspeed", "pipeline_parallel": 2, "pipeline_schedule": "gpipe"},
            "pipeline_schedule",
        ),
        ({"framework": "megatron", "method": "qlora"}, "framework"),
        ({"framework": "megatron", "method": "lora", "quantization": "int8"}, "framework"),
        (
            {"framework": "fsdp", "fsdp_version": 1, "offload": "parameters", "micro_batches": 4},
            "micro_batches",
        ),
    ],
)
def test_what_cannot_run_is_refused_with_what_can(settings, parameter):
    with pytest.raises(UnsupportedError) as refused:
        check(spec(), work(**settings))
    assert refused.value.parameter == parameter
    assert not runs(spec(), work(**settings))
    assert refused.value.alternatives
    for alternative in refused.value.alternatives:
        for changed in settings_of(alternative):
            assert runs(spec(), work(**without_none({**settings, **changed}))), changed


def settings_of(alternative):
    """Return every combination of an alternative's values."""
    return [
        dict(zip(alternative, values, strict=True)) for values in product(*alternative.values())
    ]


def without_none(settings):
    return {name: value for name, value in settings.items() if value is not None}


def test_experts_go_only_to_ranks_that_are_there():
    mixture = spec("Qwen/Qwen3-30B-A3B")
    assert runs(mixture, work(framework="megatron", data_parallel=8, expert_parallel=8))
    assert runs(
        mixture,
        work(
            framework="megatron",
            tensor_parallel=2,
            sequence_parallel=True,
            data_parallel=4,
            expert_parallel=8,
        ),
    )
    with pytest.raises(UnsupportedError, match="sequence parallelism"):
        check(
            mixture,
            work(framework="megatron", tensor_parallel=2, data_parallel=4, expert_parallel=8),
        )
    with pytest.raises(UnsupportedError, match="does not divide 128 experts and 4"):
        check(mixture, work(framework="megatron", data_parallel=4, expert_parallel=8))


@pytest.mark.parametrize(
    ("name", "settings", "works"),
    [
        (
            "Qwen/Qwen3-30B-A3B",
            {**DIVIDED, "data_parallel": 4, "expert_tensor_parallel": 3},
            {"expert_tensor_parallel": (2, 4, 1, 8)},
        ),
        (
            "Qwen/Qwen3-30B-A3B",
            {"framework": "fsdp", "data_parallel": 4, "expert_tensor_parallel": 2},
            {"framework": ("megatron",)},
        ),
        (
            "Qwen/Qwen3-8B",
            {"framework": "megatron", "tensor_parallel": 2, "expert_tensor_parallel": 2},
            {"expert_tensor_parallel": (None,)},
        ),
    ],
)
def test_experts_of_a_degree_of_their_own_are_refused_where_nothing_runs_them(
    name, settings, works
):
    with pytest.raises(UnsupportedError) as refused:
        check(spec(name), work(**settings))
    assert refused.value.parameter == "expert_tensor_parallel"
    assert refused.value.alternatives[0] == works


def test_expert_groups_are_made_anew_of_a_stages_ranks():
    mixture, stage = spec("Qwen/Qwen3-30B-A3B"), {**DIVIDED, "data_parallel": 4}
    assert runs(mixture, work(**stage, expert_parallel=8, expert_tensor_parallel=1))
    with pytest.raises(UnsupportedError) as refused:
        check(mixture, work(**stage, expert_parallel=8, expert_tensor_parallel=2))
    assert refused.value.alternatives == ({"expert_parallel": (4, 2, 1)},)


def test_tensor_parallelism_may_outnumber_kv_heads_that_divide_it():
    assert tensor_widths(spec(), 32) == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("framework", ["transformers", "deepspeed", "fsdp", "megatron"])
def test_one_card_runs_under_every_framework(framework):
    check(spec(), work(framework=framework))
