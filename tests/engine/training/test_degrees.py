"""Layouts that cannot run are refused with the values that work."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.parallel.validate import check, runs, tensor_widths
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError

DIVIDED = {"framework": "megatron", "tensor_parallel": 2, "sequence_parallel": True}


def spec(name="Qwen/Qwen3-8B"):
    row = Snapshot().get(name)
    return read_config(row.config, row.quantization)


def work(**settings):
    return TrainingWorkload(**{"sequence_length": 2048, **settings})


@pytest.mark.parametrize(
    ("settings", "field", "works"),
    [
        ({"framework": "megatron", "tensor_parallel": 3}, "tensor_parallel", "1, 2, 4, 8"),
        ({"framework": "megatron", "pipeline_parallel": 64}, "pipeline_parallel", "36"),
        (
            {"framework": "megatron", "pipeline_parallel": 20},
            "pipeline_parallel",
            "12, 13, 18, 19 or 36",
        ),
        (
            {"framework": "megatron", "pipeline_parallel": 4, "last_stage_layers": 36},
            "last_stage_layers",
            "less",
        ),
        (
            {"framework": "deepspeed", "pipeline_parallel": 2, "last_stage_layers": 7},
            "last_stage_layers",
            "megatron",
        ),
        (
            {
                "framework": "megatron",
                "pipeline_parallel": 6,
                "pipeline_schedule": "interleaved",
                "pipeline_chunks": 4,
            },
            "pipeline_schedule",
            "9",
        ),
        (
            {"framework": "megatron", "pipeline_parallel": 12, "pipeline_schedule": "interleaved"},
            "pipeline_schedule",
            "1f1b",
        ),
        (
            {
                "framework": "megatron",
                "pipeline_parallel": 3,
                "pipeline_schedule": "interleaved",
                "micro_batches": 8,
            },
            "micro_batches",
            "9",
        ),
        (
            {"framework": "transformers", "pipeline_parallel": 2},
            "pipeline_parallel",
            "megatron, deepspeed or fsdp",
        ),
        ({"framework": "fsdp", "pipeline_parallel": 2, "fsdp_version": 1}, "fsdp_version", "2"),
        ({"framework": "fsdp", "pipeline_parallel": 4, "micro_batches": 3}, "micro_batches", "4"),
        (
            {"framework": "fsdp", "pipeline_parallel": 2, "pipeline_schedule": "zero_bubble"},
            "pipeline_schedule",
            "1f1b",
        ),
        (
            {"framework": "fsdp", "pipeline_parallel": 36, "micro_batches": 36},
            "pipeline_parallel",
            "19",
        ),
        ({"framework": "megatron", "expert_parallel": 2}, "expert_parallel", "1"),
        ({"framework": "megatron", "zero_stage": 3}, "zero_stage", "0 or 1"),
        (
            {"framework": "deepspeed", "zero_stage": 3, "pipeline_parallel": 2},
            "zero_stage",
            "0 or 1",
        ),
        (
            {"framework": "deepspeed", "zero_stage": 3, "optimizer": "adamw_8bit"},
            "optimizer",
            "adamw",
        ),
        (
            {"framework": "deepspeed", "zero_stage": 2, "offload": "parameters"},
            "offload",
            "zero_stage 3",
        ),
        (
            {"framework": "fsdp", "data_parallel": 8, "data_parallel_replicate": 3},
            "data_parallel_replicate",
            "1, 2, 4 or 8",
        ),
        (
            {"framework": "deepspeed", "data_parallel": 8, "data_parallel_replicate": 2},
            "data_parallel_replicate",
            "fsdp",
        ),
        (
            {"framework": "fsdp", "data_parallel": 8, "zero_hpz_partition_size": 8},
            "zero_hpz_partition_size",
            "deepspeed",
        ),
        (
            {
                "framework": "deepspeed",
                "zero_stage": 3,
                "data_parallel": 8,
                "zero_hpz_partition_size": 3,
            },
            "zero_hpz_partition_size",
            "1, 2, 4 or 8",
        ),
        ({"framework": "megatron", "context_parallel": 3}, "context_parallel", "divides"),
        (
            {"framework": "megatron", "context_parallel": 4, "sequence_length": 2044},
            "sequence_length",
            "2048",
        ),
        ({"framework": "fsdp", "context_parallel": 2, "attention": "eager"}, "attention", "sdpa"),
        ({"framework": "transformers", "gradient_dtype": "bf16"}, "gradient_dtype", "megatron"),
        (
            {"framework": "megatron", "precision": "fp32", "gradient_dtype": "bf16"},
            "gradient_dtype",
            "mixed_bf16",
        ),
        (
            {"framework": "transformers", "context_parallel": 2},
            "context_parallel",
            "fsdp, deepspeed or megatron",
        ),
        ({"framework": "fsdp", "context_parallel": 2, "fsdp_version": 1}, "fsdp_version", "2"),
        (
            {"framework": "deepspeed", "context_parallel": 64},
            "context_parallel",
            "1, 2, 4, 8, 16 or 32",
        ),
        ({"framework": "megatron", "sequence_parallel": True}, "sequence_parallel", "above 1"),
        (
            {"framework": "transformers", "tensor_parallel": 2, "sequence_parallel": True},
            "sequence_parallel",
            "megatron or fsdp",
        ),
        (
            {"framework": "deepspeed", "pipeline_parallel": 2, "pipeline_schedule": "gpipe"},
            "pipeline_schedule",
            "1f1b",
        ),
        ({"framework": "megatron", "method": "qlora"}, "framework", "method lora"),
        (
            {"framework": "megatron", "method": "lora", "quantization": "int8"},
            "framework",
            "transformers",
        ),
        (
            {"framework": "fsdp", "fsdp_version": 1, "offload": "parameters", "micro_batches": 4},
            "micro_batches",
            "fsdp_version 2",
        ),
    ],
)
def test_what_cannot_run_is_refused_with_what_can(settings, field, works):
    with pytest.raises(InvalidRequestError) as refused:
        check(spec(), work(**settings))
    assert refused.value.field == field
    assert works in refused.value.hint
    assert not runs(spec(), work(**settings))


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
    with pytest.raises(InvalidRequestError, match="sequence parallelism"):
        check(
            mixture,
            work(framework="megatron", tensor_parallel=2, data_parallel=4, expert_parallel=8),
        )
    with pytest.raises(InvalidRequestError, match="does not divide 128 experts and 4"):
        check(mixture, work(framework="megatron", data_parallel=4, expert_parallel=8))


@pytest.mark.parametrize(
    ("name", "settings", "works"),
    [
        (
            "Qwen/Qwen3-30B-A3B",
            {**DIVIDED, "data_parallel": 4, "expert_tensor_parallel": 3},
            "1, 2, 4",
        ),
        (
            "Qwen/Qwen3-30B-A3B",
            {"framework": "fsdp", "data_parallel": 4, "expert_tensor_parallel": 2},
            "megatron",
        ),
        (
            "Qwen/Qwen3-8B",
            {"framework": "megatron", "tensor_parallel": 2, "expert_tensor_parallel": 2},
            "out",
        ),
    ],
)
def test_experts_of_a_degree_of_their_own_are_refused_where_nothing_runs_them(
    name, settings, works
):
    with pytest.raises(InvalidRequestError) as refused:
        check(spec(name), work(**settings))
    assert refused.value.field == "expert_tensor_parallel"
    assert works in refused.value.hint


def test_expert_groups_are_made_anew_of_a_stages_ranks():
    mixture, stage = spec("Qwen/Qwen3-30B-A3B"), {**DIVIDED, "data_parallel": 4}
    assert runs(mixture, work(**stage, expert_parallel=8, expert_tensor_parallel=1))
    with pytest.raises(InvalidRequestError) as refused:
        check(mixture, work(**stage, expert_parallel=8, expert_tensor_parallel=2))
    assert refused.value.hint == "Send expert_parallel 1, 2 or 4."


def test_tensor_parallelism_may_outnumber_kv_heads_that_divide_it():
    assert tensor_widths(spec(), 32) == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("framework", ["transformers", "deepspeed", "fsdp", "megatron"])
def test_one_card_runs_under_every_framework(framework):
    check(spec(), work(framework=framework))
