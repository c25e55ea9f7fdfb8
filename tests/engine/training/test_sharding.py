"""Which part of a model a rank has."""

import pytest

from fitgauge.catalog.sizes import nominal_model
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import Kind, Part, Split
from fitgauge.engine.training.states.parameters import Parameter, units
from fitgauge.engine.training.states.sharding import (
    gathered_bytes,
    rank_states,
    shard,
    shard_ranks,
    stage_units,
    tensor_slice,
    to_rank,
)
from fitgauge.engine.training.workload import TrainingWorkload


def work(**settings):
    return TrainingWorkload(sequence_length=2048, **settings)


def resident(rank):
    """Return all that stays on the device [bytes]."""
    states = rank.weights + rank.gradients + rank.master_weights + rank.optimizer_states
    return states + rank.averages + rank.fp8


def tensor(shape, split=Split.NONE, *, kind=Kind.LINEAR, units=0, count=1):
    return Parameter(
        name="w", shape=shape, kind=kind, split=split, units=units, count=count, dtype="F32"
    )


def spec(name):
    row = Snapshot().get(name)
    return read_config(row.config, row.quantization)


def everything(model, workload):
    return [
        parameter
        for unit in units(model, workload)
        for _ in unit.layers
        for parameter in unit.parameters
    ]


@pytest.mark.parametrize(
    ("parameter", "shape"),
    [
        (tensor((4096, 1024), Split.COLUMN), (1024, 1024)),
        (tensor((1024, 4096), Split.ROW), (1024, 1024)),
        (tensor((1024,), Split.NONE, kind=Kind.NORM), (1024,)),
        (tensor((1024, 512), Split.KV, units=8), (256, 512)),
        (tensor((256, 512), Split.KV, units=2), (128, 512)),
    ],
)
def test_four_tensor_parallel_ranks_divide_linears_and_repeat_norms_and_scarce_kv_heads(
    parameter, shape
):
    assert tensor_slice(parameter, Part.LANGUAGE, work(tensor_parallel=4)).shape == shape


def test_megatron_pads_the_vocabulary_before_it_divides_it():
    words = tensor((50257, 768), Split.VOCABULARY, kind=Kind.EMBEDDING)
    assert tensor_slice(
        words, Part.EMBEDDING, work(framework="megatron", tensor_parallel=2)
    ).shape == (50432 // 2, 768)


def test_expert_parallelism_gives_whole_experts_and_tensor_parallelism_divides_each():
    experts = tensor((768, 2048), Split.COLUMN, kind=Kind.EXPERT, count=128)
    piece = tensor_slice(experts, Part.LANGUAGE, work(tensor_parallel=2, expert_parallel=8))
    assert (piece.count, piece.shape) == (16, (384, 2048))


def test_experts_stay_whole_where_their_groups_reach_over_tensor_parallel_ranks():
    reaching = work(
        framework="megatron", tensor_parallel=2, data_parallel=4, expert_parallel=8, zero_stage=1
    )
    piece = tensor_slice(
        tensor((768, 2048), Split.COLUMN, kind=Kind.EXPERT, count=128), Part.LANGUAGE, reaching
    )
    assert (reaching.expert_ways, piece.count, piece.shape) == (1, 16, (768, 2048))
    assert shard_ranks(piece, reaching) == 1
    assert (
        work(
            framework="megatron", tensor_parallel=2, data_parallel=8, expert_parallel=8
        ).expert_ways
        == 2
    )


def test_experts_are_divided_as_often_as_asked_and_their_states_over_the_ranks_that_leaves():
    whole = work(
        framework="megatron",
        tensor_parallel=2,
        data_parallel=4,
        expert_parallel=4,
        expert_tensor_parallel=1,
    )
    piece = tensor_slice(
        tensor((768, 2048), Split.COLUMN, kind=Kind.EXPERT, count=128), Part.LANGUAGE, whole
    )
    assert (piece.count, piece.shape, shard_ranks(piece, whole)) == (32, (768, 2048), 2)
    assert tensor_slice(tensor((768, 2048), Split.COLUMN), Part.LANGUAGE, whole).shape == (
        384,
        2048,
    )


def test_experts_are_sharded_over_what_expert_parallelism_leaves_of_the_data_parallel_ranks():
    workload = work(framework="fsdp", data_parallel=16, expert_parallel=4)
    assert shard_ranks(tensor((768, 2048), count=128), workload) == 4
    assert shard_ranks(tensor((768, 2048)), workload) == 16


def test_hybrid_sharding_divides_within_a_replica_alone():
    assert (
        shard_ranks(
            tensor((8, 8)), work(framework="fsdp", data_parallel=16, data_parallel_replicate=2)
        )
        == 8
    )


def test_context_parallel_ranks_share_the_shards():
    assert (
        shard_ranks(tensor((8, 8)), work(framework="megatron", data_parallel=2, context_parallel=4))
        == 8
    )


def test_fsdp2_pads_the_first_dimension_of_every_parameter():
    assert shard(tensor((10, 3)), work(framework="fsdp", data_parallel=4)).shape == (3, 3)


@pytest.mark.parametrize(
    "settings",
    [{"framework": "deepspeed"}, {"framework": "fsdp", "fsdp_version": 1}, {"framework": "fsdp"}],
)
def test_a_quantized_base_is_cut_as_it_is_packed(settings):
    model = spec("Qwen/Qwen3-8B")
    qlora = work(
        method="qlora",
        quantization="nf4",
        precision="bf16",
        zero_stage=3,
        data_parallel=8,
        **settings,
    )
    packed, *_ = (p for p in everything(model, qlora) if p.form is not None)
    assert shard(packed, qlora).bytes == pytest.approx(packed.bytes / 8, rel=0.01)


def test_fsdp1_cuts_a_flat_buffer_where_fsdp2_pads_every_parameter():
    """A router of 8 rows over 64 ranks; FullyShardedDataParallel over 8 ranks of 495
    numbers holds 62 (torch 2.13, fake process group)."""
    router = tensor((8, 4096))
    assert shard(router, work(framework="fsdp", data_parallel=64)).elements == 4096
    assert shard(router, work(framework="fsdp", fsdp_version=1, data_parallel=64)).elements == 512
    assert (
        shard(tensor((45, 11)), work(framework="fsdp", fsdp_version=1, data_parallel=8)).elements
        == 62
    )


def test_zero_cuts_a_flat_buffer():
    assert (
        shard(tensor((10, 3)), work(framework="deepspeed", zero_stage=3, data_parallel=4)).elements
        == 8
    )


def test_what_fsdp2_gathers_holds_the_padding_too():
    assert (
        gathered_bytes([tensor((10, 3))], work(framework="fsdp", data_parallel=4), 2) == 12 * 3 * 2
    )


@pytest.mark.parametrize(
    ("stage", "each"), [(0, 16), (1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)]
)
def test_each_zero_stage_divides_what_the_paper_says(stage, each):
    """2 + 2 + 12 bytes a parameter; arXiv 1910.02054, figure 1."""
    model = nominal_model("7b", 7 * 10**9).spec
    workload = work(framework="deepspeed", zero_stage=stage, data_parallel=8)
    assert resident(rank_states(everything(model, workload), workload)) == pytest.approx(
        7e9 * each, rel=1e-6
    )


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_megatrons_distributed_optimizer_leaves_six_bytes_and_twelve_over_the_ranks(ranks):
    model = nominal_model("13b", 13 * 10**9).spec
    workload = work(framework="megatron", zero_stage=1, data_parallel=ranks)
    assert resident(rank_states(everything(model, workload), workload)) == pytest.approx(
        13e9 * (6 + 12 / ranks), rel=1e-6
    )


@pytest.mark.parametrize(("asked", "each"), [(None, 18), ("fp32", 18), ("bf16", 16)])
def test_megatrons_main_gradients_are_as_wide_as_asked(asked, each):
    """2 + 4 + 4 + 4 + 4, and 2 + 2 + 4 + 4 + 4 with --grad-reduce-in-bf16."""
    model = nominal_model("7b", 7 * 10**9).spec
    workload = work(framework="megatron", gradient_dtype=asked)
    assert resident(rank_states(everything(model, workload), workload)) == each * 7 * 10**9


def test_offload_moves_states_to_the_host_beside_gradients_in_two_formats_and_keeps_the_weights():
    """4 + 8 of masters and states, 4 + 2 of gradients and what travels (deepspeed
    stage_1_and_2.py; tools/accuracy/measure_offload.py)."""
    model = nominal_model("7b", 7 * 10**9).spec
    workload = work(framework="deepspeed", zero_stage=2, data_parallel=1, offload="optimizer")
    rank = rank_states(everything(model, workload), workload)
    assert (rank.weights, resident(rank), rank.host) == (14 * 10**9, 14 * 10**9, 18 * 7 * 10**9)


def test_offloaded_parameters_leave_nothing_resident():
    model = nominal_model("7b", 7 * 10**9).spec
    workload = work(framework="deepspeed", zero_stage=3, data_parallel=8, offload="cpu")
    rank = rank_states(everything(model, workload), workload)
    assert (resident(rank), rank.host) == (0, pytest.approx(20 * 7e9 / 8, rel=1e-6))


@pytest.mark.parametrize(
    ("name", "settings", "resident"),
    [
        ("Qwen/Qwen3-8B", {"precision": "bf16", "data_parallel": 8}, 6143061820),
        (
            "meta-llama/Llama-2-70b-hf",
            {"precision": "mixed_bf16", "data_parallel": 64, "data_parallel_replicate": 2},
            25866254668,
        ),
    ],
)
def test_fsdp2_keeps_what_pytorchs_tracker_says_between_steps(name, settings, resident):
    """torch.distributed._tools.fsdp2_mem_tracker.FSDPMemTracker; it also counts step counters
    and the inputs."""
    workload = work(framework="fsdp", zero_stage=3, **settings)
    rank = rank_states(everything(spec(name), workload), workload)
    assert rank.weights + rank.optimizer_states == pytest.approx(resident, rel=1e-5)


def test_stages_together_have_every_layer_once_and_the_ends_at_the_ends():
    model = spec("Qwen/Qwen3-8B")
    parts = [to_rank(unit, work()) for unit in units(model, work())]
    stages = [
        stage_units(parts, range(i * 9, i * 9 + 9), first=i == 0, last=i == 3) for i in range(4)
    ]
    assert [sum(count for piece, count in stage if piece.unit.repeated) for stage in stages] == [
        9
    ] * 4
    assert [any(piece.unit.part is Part.EMBEDDING for piece, _ in stage) for stage in stages] == [
        True,
        False,
        False,
        False,
    ]
    assert [any(piece.unit.part is Part.HEAD for piece, _ in stage) for stage in stages] == [
        False,
        False,
        False,
        True,
    ]
