"""One rank of every pipeline stage over a step."""

import pytest

from arithmetic import value_of
from fitgauge.catalog.sizes import nominal_model
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.autograd.passes import activations, in_order
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.phases import stages
from fitgauge.engine.training.states.optimizer_states import locked_bytes, states
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.workload import TrainingWorkload

THIRTEEN = nominal_model("13b", 13 * 10**9).spec


def spec(name):
    row = Snapshot().get(name)
    return read_config(row.config, row.quantization)


def work(**settings):
    return TrainingWorkload(**{"sequence_length": 2048, **settings})


def part(phase, name):
    return sum(part.size.expected for part in phase.parts if part.name == name)


@pytest.mark.parametrize("precision", ["bf16", "mixed_bf16"])
@pytest.mark.parametrize("implementation", ["foreach", "for_loop", "fused"])
def test_one_rank_without_parallelism_is_the_sum_of_states_and_passes(precision, implementation):
    model = spec("Qwen/Qwen3-0.6B")
    workload = work(precision=precision, optimizer_implementation=implementation)
    whole = states(
        [p for unit in units(model, workload) for _ in unit.layers for p in unit.parameters],
        workload,
    )
    passes = activations(model, workload)
    (stage,) = stages(model, workload)
    totals = {phase.name: phase.total for phase in stage.phases}
    kept = whole.weights + whole.optimizer_states
    assert totals["forward"] == kept + passes.forward_peak
    assert totals["backward"] == kept + passes.backward_peak
    assert totals["optimizer_step"] == kept + whole.gradients + whole.step_temporaries


def test_1f1b_fills_the_first_stage_most_and_gpipe_every_stage_alike():
    first, *_, last = stages(
        THIRTEEN, work(framework="megatron", pipeline_parallel=4, micro_batches=64)
    )
    assert (first.in_flight, last.in_flight) == (4, 1)
    assert first.highest.total > last.highest.total
    gpipe = stages(
        THIRTEEN,
        work(
            framework="megatron", pipeline_parallel=4, micro_batches=64, pipeline_schedule="gpipe"
        ),
    )
    assert [stage.in_flight for stage in gpipe] == [64] * 4


def test_pipeline_stages_have_all_parameters_between_them():
    model = spec("Qwen/Qwen3-8B")
    assert (
        sum(
            stage.parameters
            for stage in stages(model, work(framework="megatron", pipeline_parallel=4))
        )
        == model.parameters
    )


def test_the_last_stage_of_a_tied_model_holds_the_embedding_again():
    model = spec("Qwen/Qwen3-0.6B")
    both = stages(model, work(framework="deepspeed", pipeline_parallel=2))
    assert (
        sum(stage.parameters for stage in both)
        == model.parameters + model.vocabulary_size * model.hidden_size
    )


def test_sequence_parallelism_divides_what_tensor_parallelism_leaves_whole():
    model = spec("Qwen/Qwen3-8B")
    (plain,) = stages(model, work(framework="megatron", tensor_parallel=4))
    (divided,) = stages(
        model, work(framework="megatron", tensor_parallel=4, sequence_parallel=True)
    )
    assert part(divided.highest, "activations") < part(plain.highest, "activations")
    assert part(divided.highest, "weights") == part(plain.highest, "weights")


def test_sequence_parallelism_divides_the_stream_beside_adapters_too():
    """ms-swift scatters what adapters add, and gathers what those of columns read
    (swift/megatron/tuners/lora.py)."""
    settings = {"framework": "megatron", "tensor_parallel": 4, "sequence_parallel": True}
    layers = segments(spec("Qwen/Qwen3-8B"), work(**settings, method="lora")).layers
    assert layers
    for segment in layers:
        assert segment.output_bytes == segment.input_bytes == 2048 * 4096 * 2 // 4
        gathered = [one.bytes for one in segment.saved if one.name == "lora_gathered"]
        assert gathered == [2048 * 4096 * 2] * 2  # by attention's linears, by the MLP's


def test_context_parallelism_divides_activations_and_no_weights():
    model = spec("Qwen/Qwen3-8B")
    (whole,) = stages(model, work(framework="megatron"))
    (divided,) = stages(model, work(framework="megatron", context_parallel=4))
    assert part(divided.highest, "activations") < part(whole.highest, "activations") / 3
    assert part(divided.highest, "weights") == part(whole.highest, "weights")


def test_expert_parallelism_divides_the_experts_alone():
    model = spec("Qwen/Qwen3-30B-A3B")
    (whole,) = stages(model, work(framework="megatron", data_parallel=8))
    (divided,) = stages(model, work(framework="megatron", data_parallel=8, expert_parallel=8))
    assert whole.parameters / 8 < divided.parameters < whole.parameters / 5


def test_ddp_copies_every_gradient_into_buckets():
    model = spec("Qwen/Qwen3-0.6B")
    (stage,) = stages(model, work(data_parallel=4))
    step = next(phase for phase in stage.phases if phase.name == "optimizer_step")
    assert part(step, "communication") == part(step, "gradients") == 4 * model.parameters


def test_deepspeed_without_zero_reduces_one_bucket_after_the_other_when_the_passes_are_over():
    model = spec("Qwen/Qwen3-8B")
    settings = {"precision": "bf16", "data_parallel": 4, "sequence_length": 512}
    (ddp,) = stages(model, work(**settings))
    (engine,) = stages(model, work(framework="deepspeed", zero_stage=0, **settings))
    copies, bucket = (part(stage.phases[1], "communication") for stage in (ddp, engine))
    assert copies == 2 * model.parameters
    assert bucket == 2 * 500_000_000
    assert part(engine.phases[2], "communication") == 0


def test_zero_2_copies_what_its_bucket_holds_once_the_passes_are_over():
    model = spec("HuggingFaceTB/SmolLM2-135M")
    settings = {"precision": "bf16", "data_parallel": 8, "sequence_length": 64}
    (stage,) = stages(model, work(framework="deepspeed", zero_stage=2, **settings))
    buckets = part(stage.phases[1], "communication")
    assert buckets == 2 * (500_000_000 + model.parameters)


def test_adafactor_steps_flat_tensors_under_zero():
    """It factors nothing of a vector, and makes its update twice as long as it: on one rank too."""
    model = spec("Qwen/Qwen3-8B")

    def of(name, ranks):
        asked = {"framework": "deepspeed", "optimizer": "adafactor", "zero_stage": 2}
        (stage,) = stages(model, work(data_parallel=ranks, **asked))
        return part(stage.phases[2], name)

    for ranks in (1, 4):
        masters = 4 * model.parameters // ranks
        assert of("optimizer_states", ranks) == pytest.approx(masters)
        assert of("optimizer_temporaries", ranks) == pytest.approx(3 * masters)


@pytest.mark.parametrize(
    ("implementation", "made"), [("fused", 0), ("foreach", 1), ("for_loop", 2)]
)
def test_a_step_of_zero_holds_what_adamw_makes_of_a_flat_partition(implementation, made):
    model = spec("Qwen/Qwen3-8B")

    def temporaries(**settings):
        asked = {"framework": "deepspeed", "optimizer_implementation": implementation, **settings}
        (stage,) = stages(model, work(**asked))
        return part(stage.phases[2], "optimizer_temporaries")

    masters = 4 * model.parameters // 4
    for stage in (1, 2):
        assert temporaries(zero_stage=stage, data_parallel=4) == pytest.approx((1 + made) * masters)
    assert temporaries(zero_stage=3, data_parallel=4) == (1 + made) * 4 * 10**9
    assert temporaries(zero_stage=2, data_parallel=4, offload="optimizer") == 0


@pytest.mark.parametrize(("implementation", "copies"), [("fused", 2), ("foreach", 2)])
@pytest.mark.parametrize("ranks", [1, 4])
def test_without_zero_deepspeed_steps_from_gradients_in_fp32(implementation, copies, ranks):
    """Each gradient for itself; flat too for its own AdamW, and square roots for another."""
    model = spec("Qwen/Qwen3-8B")
    asked = {"framework": "deepspeed", "optimizer_implementation": implementation, "zero_stage": 0}
    (stage,) = stages(model, work(data_parallel=ranks, **asked))
    step = stage.phases[2]
    assert part(step, "optimizer_temporaries") == copies * 4 * model.parameters
    assert part(step, "gradients") == 2 * model.parameters


def test_each_zero_stage_needs_less_than_the_one_before():
    model = spec("Qwen/Qwen3-8B")
    totals = [
        stages(model, work(framework="deepspeed", zero_stage=n, data_parallel=8))[0].highest.total
        for n in range(4)
    ]
    assert totals == sorted(totals, reverse=True)


def test_zero_3_gathers_no_more_than_there_is():
    model = spec("Qwen/Qwen3-0.6B")
    (stage,) = stages(model, work(framework="deepspeed", zero_stage=3, data_parallel=8))
    assert part(stage.phases[0], "gathered_weights") <= 2 * model.parameters


def test_offloading_the_optimizer_moves_it_to_the_host():
    model = spec("Qwen/Qwen3-8B")
    (stage,) = stages(
        model, work(framework="deepspeed", zero_stage=2, data_parallel=8, offload="optimizer")
    )
    assert part(stage.highest, "optimizer_states") == 0
    shard, largest = model.parameters / 8, model.vocabulary_size * model.hidden_size
    unlocked = 8 * shard
    locked = sum(locked_bytes(int(size)) for size in (4 * shard, 4 * shard, 2 * shard, 2 * largest))
    assert stage.host == pytest.approx(unlocked + locked, rel=1e-6)


def test_zero_plus_plus_keeps_a_second_copy_of_the_weights_within_a_node():
    model = spec("Qwen/Qwen3-8B")
    one, two = (
        stages(
            model,
            work(
                framework="deepspeed", zero_stage=3, data_parallel=16, zero_hpz_partition_size=size
            ),
        )[0]
        for size in (1, 8)
    )
    gathered = part(one.highest, "gathered_weights")
    assert (
        part(two.highest, "gathered_weights") - gathered == (2 * model.parameters - gathered) // 8
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pipeline_parallel": 2, "micro_batches": 4},
        {"zero_stage": 3},
        {"optimizer": "adafactor"},
        {"optimizer": "adamw_8bit", "ema": "device"},
        {"offload": "optimizer", "zero_stage": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("framework", ["transformers", "deepspeed", "fsdp", "megatron"])
def test_every_part_of_every_phase_is_what_its_formula_gives(framework, settings):
    workload = work(**{"framework": framework, "data_parallel": 4, "zero_stage": 1, **settings})
    for stage in stages(spec("Qwen/Qwen3-8B"), workload):
        for phase in stage.phases:
            for part in phase.parts:
                size = part.size.expected
                assert value_of(part.formula) == pytest.approx(size, rel=1e-6, abs=2), part


@pytest.mark.parametrize("framework", ["megatron", "deepspeed", "fsdp"])
@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-30B-A3B"])
def test_when_every_gradient_has_left_nothing_is_left_of_the_passes(name, framework):
    """A pass that lets go of more than it made would hide what later layers need.
    Megatron's dispatchers keep which expert got a token, and with which weight, until the next
    pass."""
    model = spec(name)
    kept = 2048 * 128 * (1 + 4) * 48 if "A3B" in name and framework == "megatron" else 0
    settings = {
        "framework": framework,
        "tensor_parallel": 2,
        "expert_parallel": 2 if "A3B" in name else 1,
        "data_parallel": 2,
    }
    cut = segments(model, work(**settings))
    live = cut.constants
    for segment in (cut.embedding, *in_order(cut), cut.head):
        live += segment.forward.end - segment.casts
    live -= cut.head.logits
    for segment in (cut.head, *reversed(in_order(cut)), cut.embedding):
        live += segment.backward.end - segment.released
    assert abs(live - cut.constants - kept) < 1024


def test_tensor_parallel_fsdp_gathers_its_own_slices_alone():
    model = spec("Qwen/Qwen3-8B")
    one, four = (
        stages(model, work(framework="fsdp", zero_stage=3, data_parallel=8, tensor_parallel=ways))[
            0
        ]
        for ways in (1, 4)
    )
    whole, sliced = (part(stage.phases[0], "gathered_weights") for stage in (one, four))
    assert whole / 4 < sliced < whole / 3.9
