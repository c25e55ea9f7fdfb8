"""The truth about parallel training, as questions: ranks of tensor and context parallelism, of
ZeRO, of Megatron layouts (training_parallel.jsonl)."""

from functools import cache
from typing import NamedTuple

from accuracy.training_truth import Row, Step, own_model, rows, step_of
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.autograd.passes import Passes as Played
from fitgauge.engine.training.autograd.passes import activations, in_order
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.phases import Stage, stages
from fitgauge.engine.training.workload import TrainingWorkload


@cache
def of_kind(kind: str) -> tuple[Row, ...]:
    """Return the rows of a kind: schedule, tensor, stage, context, zero, offload, megatron,
    megatron_activations."""
    return tuple(row for row in rows("training_parallel") if row["kind"] == kind)


def gathers_attention(row: Row) -> bool:
    """OLMo 2 norms queries and keys over all heads: transformers' plan gathers them and every
    rank computes the whole attention."""
    return "OLMo-2" in row["model"] and not row["sequence_parallel"]


def tensor_workload(row: Row) -> TrainingWorkload:
    """Return the question of a rank of tensor parallelism, in FSDP2 where data parallelism
    shards its pieces once more."""
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
        gradient_dtype=(
            row.get("reduce", "fp32") if sharded and row["regime"] == "mixed_bf16" else None
        ),
    )


def stage_workload(row: Row) -> TrainingWorkload:
    """Return the question of a rank of a pipeline under FSDP2."""
    return TrainingWorkload(
        framework="fsdp",
        zero_stage=3 if row["reshard"] else 2,
        gradient_dtype=row["reduce"],
        optimizer_implementation="for_loop",
        activation_checkpointing=row["checkpointing"],
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        pipeline_parallel=row["stages"],
        pipeline_schedule=row["schedule"],
        micro_batches=row["micro_batches"],
        data_parallel=row["data_parallel"],
    )


@cache
def stage_ranks() -> tuple[tuple[Row, float], ...]:
    """Return one rank of a pipeline under FSDP2 each, and the error of its highest moment."""
    result = []
    for row in of_kind("stage"):
        stage = stages(own_model(row["model"], row["model_layers"]), stage_workload(row))[
            row["stage"]
        ]
        assert stage.layers == row["layers"]
        result.append((row, stage.highest.total / row["bytes"]["total"] - 1))
    return tuple(result)


def zero_workload(row: Row) -> TrainingWorkload:
    """Return the question of a rank of DeepSpeed's ZeRO."""
    return TrainingWorkload(
        framework="deepspeed",
        optimizer_implementation="fused",
        zero_stage=row["zero_stage"],
        data_parallel=row["ranks"],
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        micro_batches=row["micro_batches"],
        gradient_dtype=row.get("gradients"),
        zero_hpz_partition_size=row.get("hpz", 1),
    )


def offload_workload(row: Row) -> TrainingWorkload:
    """Return the question of a rank that offloads, under DeepSpeed or FSDP2."""
    sharded = row["framework"] == "fsdp"
    return TrainingWorkload(
        framework=row["framework"],
        gradient_dtype="fp32" if sharded and row["regime"] == "mixed_bf16" else None,
        precision=row["regime"] if sharded else "mixed_bf16",
        optimizer_implementation="for_loop",
        activation_checkpointing=row["checkpointing"] if sharded else "none",
        zero_stage=row["zero_stage"],
        offload=row["offload"],
        data_parallel=row["ranks"],
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        micro_batches=row["micro_batches"],
    )


@cache
def offload_ranks() -> tuple[tuple[Row, Stage], ...]:
    """Return one rank that offloads each, and what is said of it."""
    return tuple(
        (row, stage)
        for row in of_kind("offload")
        for stage in stages(read_config(row["config"]), offload_workload(row))
    )


def megatron_workload(row: Row) -> TrainingWorkload:
    """Return the question of a Megatron layout."""
    return TrainingWorkload(
        framework="megatron",
        zero_stage=1,
        sequence_length=128,
        tensor_parallel=row["tensor"],
        pipeline_parallel=row["pipeline"],
        last_stage_layers=row.get("last"),
        expert_parallel=row["expert"],
        data_parallel=row["ranks"] // (row["tensor"] * row["pipeline"]),
    )


class Passes(NamedTuple):
    """Both measured passes of a rank, and what they were played as."""

    row: Row
    passes: Played

    @property
    def error(self) -> float:
        """Of what stays between the passes."""
        return self.passes.between / int(self.row["bytes"]["after_forward"]) - 1


def context_workload(row: Row) -> TrainingWorkload:
    """Return the question of a rank of context parallelism: DeepSpeed's, or PyTorch's ring."""
    autocast = row["regime"] == "amp"
    return TrainingWorkload(
        framework=(
            "deepspeed" if row["way"] == "ulysses" else "transformers" if autocast else "fsdp"
        ),
        precision="mixed_bf16" if autocast else "bf16",
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        activation_checkpointing=row["checkpointing"],
        context_parallel=row["context_parallel"],
    )


@cache
def context_ranks() -> tuple[Passes, ...]:
    """Return one rank of context parallelism each, of a model with its head or of its layers
    alone."""
    return tuple(
        Passes(
            row,
            activations(
                own_model(row["model"], row["layers"]),
                context_workload(row),
                last=row["loss"] == "own",
            ),
        )
        for row in of_kind("context")
    )


def micro_batch_workload(row: Row) -> TrainingWorkload:
    """Return the question of one micro-batch on a rank of Megatron."""
    granularity, *modules = row["recompute"] or ["none"]
    return TrainingWorkload(
        framework="megatron",
        zero_stage=1,
        sequence_length=row["seq"],
        micro_batch_size=row["batch"],
        attention=row["attn"],
        activation_checkpointing=granularity,
        recompute_modules=tuple(modules) if granularity == "selective" else (),
        tensor_parallel=row["tensor"],
        sequence_parallel=row["sequence_parallel"],
        expert_parallel=row["expert"],
        expert_tensor_parallel=row["expert_tensor"] if row["tensor"] > 1 else None,
        data_parallel=row["ranks"] // row["tensor"],
    )


def micro_batch_bytes(row: Row) -> dict[str, int]:
    """Return what is said of the sizes that such a row measures: a layer between the passes, the
    highest moment of both."""
    spec, workload = read_config(row["config"]), micro_batch_workload(row)
    (stage,) = stages(spec, workload)
    phases = {
        phase.name: sum(part.size.expected for part in phase.parts if part.name == "activations")
        for phase in stage.phases
    }
    layer = in_order(segments(spec, workload))[-1]
    return {
        "layer": layer.forward.end,
        "forward": phases["forward"],
        "backward": phases["backward"],
    }


@cache
def tensor_ranks(*, sharded: bool) -> tuple[Step, ...]:
    """Return one rank of tensor parallelism each, alone or with FSDP2 around it."""
    chosen = (
        row
        for row in of_kind("tensor")
        if (row["data_parallel"] > 1) is sharded and not gathers_attention(row)
    )
    return tuple(
        step_of(row, own_model(row["model"], row["layers"]), tensor_workload(row)) for row in chosen
    )


@cache
def zero_ranks() -> tuple[Step, ...]:
    """Return one rank of ZeRO each."""
    every = (
        row | {"bytes": row["bytes"] | {"total": max(row["bytes"].values())}}
        for row in of_kind("zero")
    )
    return tuple(step_of(row, read_config(row["config"]), zero_workload(row)) for row in every)
