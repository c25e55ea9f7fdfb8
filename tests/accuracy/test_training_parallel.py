"""Parallel training against the frameworks' own code: schedules, tensor parallelism, ZeRO, Megatron's stages (training_parallel.jsonl)."""

from functools import cache
from statistics import median

import pytest

from accuracy.training_truth import own_model, rows
from fitgauge.engine.families import read_config
from fitgauge.engine.training.pipeline import held
from fitgauge.engine.training.stages import stages
from fitgauge.engine.training.workload import TrainingWorkload

ROWS = rows("training_parallel")


def of_kind(kind):
    return [row for row in ROWS if row["kind"] == kind]


def gathers_attention(row):
    """OLMo 2 norms queries and keys over all heads: transformers' plan gathers them and every rank computes the whole attention."""
    return "OLMo-2" in row["model"] and not row["sequence_parallel"]


def tensor_workload(row):
    """The question of a rank of tensor parallelism."""
    sharded = row["data_parallel"] > 1
    return TrainingWorkload(
        framework="fsdp" if sharded else "transformers",
        precision=row["regime"],
        optimizer_implementation="for_loop",
        zero_stage=(3 if row["reshard"] else 2) if sharded else 0,
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        activation_checkpointing=row["checkpointing"],
        attention=row["attn"],
        tensor_parallel=row["tensor_parallel"],
        sequence_parallel=row["sequence_parallel"],
        data_parallel=row["data_parallel"],
    )


@cache
def tensor_errors():
    """Of the most that a step allocates, by whether FSDP2 shards the pieces once more."""
    found = {True: [], False: []}
    for row in of_kind("tensor"):
        if gathers_attention(row):
            continue
        (stage,) = stages(own_model(row["model"], row["layers"]), tensor_workload(row))
        sharded = row["data_parallel"] > 1
        found[sharded].append(abs(stage.highest.total / row["bytes"]["total" if sharded else "steady_peak"] - 1))
    return {kind: sorted(errors) for kind, errors in found.items()}


@pytest.mark.parametrize("framework", ["torch", "megatron", "deepspeed"])
def test_every_rank_of_a_schedule_holds_what_the_framework_orders(framework):
    own = [row for row in of_kind("schedule") if row["framework"] == framework]
    assert len(own) >= 20
    for row in own:
        stages_held = [held(row["schedule"], rank, row["stages"], row["micro_batches"], row["chunks"]) for rank in range(row["stages"])]
        assert [stage.most * row["chunks"] for stage in stages_held] == row["held"], row


def test_weights_and_optimizer_states_of_a_tensor_parallel_rank_are_exact():
    for row in of_kind("tensor"):
        if row["data_parallel"] > 1:
            continue
        (stage,) = stages(own_model(row["model"], row["layers"]), tensor_workload(row))
        parts = {part.name: part.size.expected for part in stage.highest.parts}
        assert parts["weights"] == row["bytes"]["parameters"]
        assert parts["optimizer_states"] == pytest.approx(row["bytes"]["optimizer"], abs=4 * 400)  # step counters


def test_a_tensor_parallel_rank_is_within_a_permille():
    errors = tensor_errors()[False]
    assert len(errors) >= 30
    assert median(errors) <= 0.0005
    assert errors[-1] <= 0.003


def test_a_rank_of_tensor_parallelism_and_fsdp_is_within_three_percent():
    errors = tensor_errors()[True]
    assert len(errors) >= 15
    assert median(errors) <= 0.001
    assert errors[-1] <= 0.03


def zero_peaks(row):
    """(estimated, measured) bytes of the passes of a rank of ZeRO."""
    workload = TrainingWorkload(
        framework="deepspeed",
        zero_stage=row["zero_stage"],
        data_parallel=row["ranks"],
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        micro_batches=row["micro_batches"],
    )
    (stage,) = stages(read_config(row["config"]), workload)
    phases = {phase.name: phase.total for phase in stage.phases}
    return {name: (phases[name], row["bytes"][name]) for name in ("forward", "backward")} | {
        "highest": (stage.highest.total, max(row["bytes"].values()))
    }


def test_a_rank_of_zero_holds_what_deepspeed_itself_holds():
    """Small models: DeepSpeed's buckets have their whole size all the same, which is most of what is there."""
    own = [zero_peaks(row) for row in of_kind("zero")]
    assert len(own) >= 9
    for name, most in (("forward", 0.04), ("backward", 0.05), ("highest", 0.05)):
        errors = sorted(abs(estimated / measured - 1) for peaks in own for estimated, measured in [peaks[name]])
        assert median(errors) <= 0.025
        assert errors[-1] <= most, name


def test_every_stage_of_a_megatron_layout_has_the_parameters_that_megatron_makes():
    """Norms whole, heads, MLPs and vocabulary cut, experts over expert groups, tied embeddings on the first and the last stage."""
    own = of_kind("megatron")
    assert len(own) >= 12
    for row in own:
        workload = TrainingWorkload(
            framework="megatron",
            zero_stage=1,
            sequence_length=128,
            tensor_parallel=row["tensor"],
            pipeline_parallel=row["pipeline"],
            expert_parallel=row["expert"],
            data_parallel=row["ranks"] // (row["tensor"] * row["pipeline"]),
        )
        assert workload.expert_tensor_parallel == row["expert_tensor"]
        assert [stage.parameters for stage in stages(own_model(row["model"], row["layers"]), workload)] == row["parameters"], row
