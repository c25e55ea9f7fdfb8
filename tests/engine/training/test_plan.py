"""The search over layouts."""

import pytest
from msgspec.structs import replace

from fitgauge.catalog.sizes import nominal_model
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training.estimate import training_need
from fitgauge.engine.training.odds import Demand
from fitgauge.engine.training.parallel.validate import runs
from fitgauge.engine.training.phases import stages
from fitgauge.engine.training.search.layouts import Choices, layouts
from fitgauge.engine.training.search.lower_bounds import Floors, for_all
from fitgauge.engine.training.search.plans import Plan, pareto, search
from fitgauge.engine.training.search.throughput import throughput
from fitgauge.engine.training.workload import TrainingWorkload

THIRTEEN = nominal_model("13b", 13 * 10**9).spec
BASE = TrainingWorkload(sequence_length=4096)
COUNTS = (1, 2, 4, 8, 16)
PROFILE = load_training()


def spec(name):
    row = Snapshot().get(name)
    return read_config(row.config, row.quantization)


def chosen(**settings):
    return Choices(
        **{
            "frameworks": ("megatron", "deepspeed", "fsdp"),
            "counts": COUNTS,
            "global_batch_size": 64,
            **settings,
        }
    )


def need(model):
    def most(workload):
        size = max(stage.highest.total for stage in stages(model, workload, ends=True))
        return Demand(Bytes(low=size, expected=size, high=size), size)

    return most


def plan(required, speed, **settings):
    workload = TrainingWorkload(sequence_length=1, **settings)
    return Plan(
        workload=workload,
        demand=Demand(Bytes(low=required, expected=required, high=required), required),
        throughput=speed,
    )


@pytest.mark.parametrize("model", [THIRTEEN, spec("Qwen/Qwen3-8B"), spec("Qwen/Qwen3-30B-A3B")])
def test_every_layout_runs_uses_all_cards_and_keeps_the_global_batch(model):
    found = [
        layout for count in COUNTS for layout in layouts(model, for_all(BASE), chosen(), count)
    ]
    assert found
    for layout in found:
        assert runs(model, layout)
        assert layout.gpus in COUNTS
        assert layout.micro_batch_size * layout.micro_batches * layout.data_parallel == 64


def test_what_is_asked_for_is_not_searched():
    found = list(
        layouts(
            THIRTEEN,
            for_all(BASE),
            chosen(frameworks=("megatron",), tensor=(2,), pipeline=(4,), zero_stages=(1,)),
            16,
        )
    )
    assert [
        (w.tensor_parallel, w.pipeline_parallel, w.data_parallel, w.zero_stage) for w in found
    ] == [(2, 4, 2, 1)]


def test_every_plan_fits_and_none_is_beaten_on_as_many_cards():
    model = spec("Qwen/Qwen3-8B")
    found = search(model, for_all(BASE), chosen(), need(model), 80 * 10**9)
    assert found
    assert all(one.required.expected <= 80 * 10**9 for one in found)
    for one in found:
        rivals = [two for two in found if two.workload.gpus == one.workload.gpus and two is not one]
        assert not any(
            two.throughput > one.throughput and two.required.expected < one.required.expected
            for two in rivals
        )


def test_a_plan_says_what_every_stage_needs_when_its_fullest_was_searched_by_the_ends():
    for workload in layouts(THIRTEEN, for_all(BASE), chosen(frameworks=("megatron",)), 16):
        every = max(stage.highest.total for stage in stages(THIRTEEN, workload))
        assert every == max(stage.highest.total for stage in stages(THIRTEEN, workload, ends=True))


def test_less_checkpointing_is_taken_where_it_fits():
    model = spec("Qwen/Qwen3-8B")
    roomy = search(model, for_all(BASE), chosen(counts=(16,)), need(model), 10**12)
    assert {one.workload.activation_checkpointing for one in roomy} == {"none"}


def test_the_micro_batch_grows_as_long_as_it_fits_and_divides_the_global_batch():
    model = spec("Qwen/Qwen3-0.6B")
    (one,) = search(
        model,
        for_all(BASE),
        chosen(frameworks=("fsdp",), counts=(2,), zero_stages=(3,)),
        need(model),
        10**12,
    )
    assert one.workload.micro_batch_size == 32


def brute(model, base, choices, usable):
    """By number of cards: every layout with the least checkpointing that fits it, those that no
    other beats, the fastest four."""
    found = {}
    for count in choices.counts:
        fitting = []
        for layout in layouts(model, for_all(base), choices, count):
            for kind in choices.checkpointing or ("none", "selective", "full"):
                workload = replace(layout, activation_checkpointing=kind)
                demand = need(model)(workload)
                if demand.required.expected <= usable:
                    fitting.append(
                        Plan(
                            workload=workload, demand=demand, throughput=throughput(model, workload)
                        )
                    )
                    break
        unbeaten = [
            one
            for one in fitting
            if not any(
                other.throughput >= one.throughput
                and other.required.expected <= one.required.expected
                and (other.throughput, other.required.expected)
                != (one.throughput, one.required.expected)
                for other in fitting
            )
        ]
        found[count] = sorted({(-one.throughput, one.required.expected) for one in unbeaten})[:4]
    return found


@pytest.mark.parametrize(
    ("name", "settings", "usable"),
    [
        ("Qwen/Qwen3-8B", {}, 80 * 10**9),
        ("Qwen/Qwen3-8B", {"sequence_length": 32_768}, 48 * 10**9),
        ("Qwen/Qwen3-30B-A3B", {}, 80 * 10**9),
        ("google/flan-t5-xl", {"sequence_length": 512}, 24 * 10**9),
        ("Qwen/Qwen3-8B", {"method": "lora", "precision": "bf16"}, 24 * 10**9),
        ("Qwen/Qwen3-8B", {"offload": "optimizer"}, 40 * 10**9),
        ("openai/gpt-oss-20b", {"sequence_length": 32_768}, 80 * 10**9),
        ("mistralai/Mixtral-8x7B-v0.1", {"optimizer": "muon"}, 80 * 10**9),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"method": "lora", "precision": "bf16"}, 80 * 10**9),
        ("google/gemma-3-12b-pt", {"pipeline_schedule": "interleaved"}, 80 * 10**9),
    ],
)
def test_the_search_finds_what_looking_at_every_layout_finds(name, settings, usable):
    """Nothing that fits and is unbeaten is missing, nothing beaten is there, however much the
    search passes over."""
    model, base = spec(name), replace(BASE, **settings)
    choices = chosen(counts=(4, 16), micro_batch_sizes=(1,))
    by_count = brute(model, base, choices, usable)
    found = search(model, for_all(base), choices, need(model), usable)
    assert any(by_count.values())
    for count, plans in by_count.items():
        assert [
            (-one.throughput, one.required.expected) for one in found if one.workload.gpus == count
        ] == plans


FLOORED = [
    "Qwen/Qwen3-8B",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "google/flan-t5-xl",
]


@pytest.mark.parametrize("name", FLOORED)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "qlora"},
        {"optimizer": "lomo", "sequence_length": 512},
        {"offload": "parameters"},
    ],
)
def test_no_layout_holds_less_than_its_floor(name, settings):
    """The bound by which the search passes over layouts, against the estimate it stands
    for."""
    model, base = spec(name), replace(BASE, **settings)
    settings = {"expert": (1, 2, 8)} if model.routed_experts else {}
    choices = chosen(**settings)
    floors, tensors = Floors(model, for_all(base), PROFILE), Floors(model, for_all(base))
    for count in (1, 8):
        for layout in layouts(model, for_all(base), choices, count):
            for kind in ("none", "selective", "full"):
                workload = replace(layout, activation_checkpointing=kind)
                states, needed = floors.states(layout), training_need(model, workload, PROFILE)
                floor = floors.need(workload, states)
                assert states.bytes <= floor <= needed.required.expected, workload
                least = tensors.need(workload, tensors.states(layout))
                assert least <= need(model)(workload).required.expected


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "openai/gpt-oss-20b"])
@pytest.mark.parametrize(
    "degrees",
    [{"tensor": (2,)}, {"context": (4,)}, {"pipeline": (2,)}, {"tensor": (2,), "context": (2,)}],
)
@pytest.mark.parametrize("settings", [{}, {"sequence_parallel": True, "method": "lora"}])
def test_no_layout_under_fsdp_holds_less_than_its_floor(name, degrees, settings):
    model, base = spec(name), replace(BASE, **settings)
    floors, seen = Floors(model, for_all(base), PROFILE), 0
    for layout in layouts(model, for_all(base), chosen(frameworks=("fsdp",), **degrees), 8):
        for kind in ("none", "full"):
            workload = replace(layout, activation_checkpointing=kind)
            states, needed = floors.states(layout), training_need(model, workload, PROFILE)
            floor = floors.need(workload, states)
            assert states.bytes <= floor <= needed.required.expected, workload
            seen += 1
    assert seen


def test_fsdp_divides_long_sequences_and_what_is_fixed_alone():
    def degrees(**settings):
        base = replace(BASE, sequence_length=settings.pop("tokens", 4096))
        choices = chosen(frameworks=("fsdp",), **settings)
        return {
            (one.tensor_parallel, one.pipeline_parallel, one.context_parallel)
            for one in layouts(spec("Qwen/Qwen3-8B"), for_all(base), choices, 8)
        }

    assert degrees() == {(1, 1, 1)}
    assert degrees(tokens=32_768) == {(1, 1, 1), (1, 1, 2), (1, 1, 4), (1, 1, 8)}
    assert degrees(tokens=32_768, splits_sequences=False) == {(1, 1, 1)}
    assert degrees(tensor=(4,), pipeline=(2,)) == {(4, 2, 1)}


@pytest.mark.parametrize("name", FLOORED)
@pytest.mark.parametrize("settings", [{"sequence_length": 32_768}, {"attention": "flash"}])
def test_a_tape_of_fewer_ranks_or_of_fewer_sequences_bounds_what_more_hold(name, settings):
    """Layouts are looked at from few ranks to many, so that a bound rests on another tape wherever
    there is one; against that of their own."""
    model, base = spec(name), replace(BASE, pipeline_schedule="1f1b", **settings)
    choices = chosen(context=(1, 2, 8), global_batch_size=1024)
    bounds, bounded = Floors(model, for_all(base)), 0
    for count in (2, 64):
        for layout in layouts(model, for_all(base), choices, count):
            for size in (1, 2, 4, 8):
                for kind in ("none", "selective", "full"):
                    workload = replace(layout, activation_checkpointing=kind, micro_batch_size=size)
                    states, own = bounds.states(workload), Floors(model, for_all(base))
                    bound = bounds.need(workload, states, states.bytes)
                    floor = own.need(workload, own.states(workload))
                    assert bound <= floor, workload
                    bounded += bound < floor
    assert bounded


@pytest.mark.parametrize(
    ("name", "settings", "most"),
    [
        ("openai/gpt-oss-20b", {"sequence_length": 32_768}, 18),
        ("Qwen/Qwen3-30B-A3B", {}, 38),
        ("google/gemma-2-9b-it", {}, 40),
        ("google/gemma-2-9b-it", {"method": "lora", "precision": "bf16"}, 45),
    ],
)
def test_few_of_all_layouts_are_estimated(name, settings, most):
    model, base, estimated = spec(name), replace(BASE, **settings), []

    def counted(workload):
        estimated.append(workload)
        return training_need(model, workload, PROFILE)

    choices = chosen(counts=(1, 2, 4, 8, 16, 32, 64), global_batch_size=128)
    plans = search(
        model, for_all(base), choices, counted, 79 * 2**30, Floors(model, for_all(base), PROFILE)
    )
    assert plans
    assert len(estimated) <= most


@pytest.mark.parametrize(
    "name",
    [
        "Qwen/Qwen3-30B-A3B",
        "openai/gpt-oss-20b",
        "deepseek-ai/DeepSeek-V2-Lite",
        "mistralai/Mixtral-8x7B-v0.1",
    ],
)
@pytest.mark.parametrize(
    "settings", [{}, {"method": "lora", "precision": "bf16", "activation_checkpointing": "full"}]
)
def test_spread_at_all_more_expert_parallelism_is_no_slower_and_holds_no_more(name, settings):
    """Why the search tries experts all on every rank and spread as far as they go, and
    nothing between."""
    model, base, needs = spec(name), replace(BASE, **settings), need(spec(name))
    every = chosen(frameworks=("megatron",), expert=(1, 2, 4, 8, 16, 32, 64))
    spread = {}
    for layout in layouts(model, for_all(base), every, 16):
        if layout.data_parallel * layout.context_parallel % layout.expert_parallel == 0:
            spread.setdefault((layout.tensor_parallel, layout.pipeline_parallel), []).append(layout)
    tried = list(layouts(model, for_all(base), chosen(frameworks=("megatron",)), 16))
    assert tried == [
        layout
        for alike in spread.values()
        for layout in (alike[:1] if len(alike) == 1 else (alike[0], alike[-1]))
    ]
    for alike in spread.values():
        sizes = [needs(layout).required.expected for layout in alike[1:]]
        assert sizes == sorted(sizes, reverse=True)
        assert len({throughput(model, layout) for layout in alike}) == 1


def test_nothing_fits_where_nothing_can():
    assert search(THIRTEEN, for_all(BASE), chosen(counts=(1,)), need(THIRTEEN), 10**9) == []


def test_pareto_drops_what_is_slower_and_larger():
    fast, small, beaten = plan(10, 4.0), plan(5, 3.0), plan(11, 3.5)
    assert pareto([beaten, small, fast]) == [fast, small]


def test_of_two_plans_alike_the_simpler_is_kept():
    simple, divided = plan(10, 4.0), plan(10, 4.0, tensor_parallel=2)
    assert pareto([divided, simple]) == [simple]


def test_throughput_counts_cards_recomputation_bubbles_and_the_link():
    one = throughput(THIRTEEN, BASE)
    assert one == pytest.approx(1)
    assert throughput(
        THIRTEEN, TrainingWorkload(sequence_length=4096, data_parallel=8)
    ) == pytest.approx(8)
    full = TrainingWorkload(sequence_length=4096, activation_checkpointing="full")
    assert throughput(THIRTEEN, full) == pytest.approx(0.75)
    waiting = TrainingWorkload(sequence_length=4096, pipeline_parallel=4, micro_batches=12)
    assert throughput(THIRTEEN, waiting) == pytest.approx(4 / 1.25)
    assert throughput(THIRTEEN, TrainingWorkload(sequence_length=4096, tensor_parallel=2)) < 2
