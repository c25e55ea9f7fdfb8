"""How much work a question of training makes, in what is counted: estimates and tapes. No clock is
read."""

from collections import Counter

import pytest

from bundled_models import SNAPSHOT
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.training import load_training
from fitgauge.engine.training.autograd import recorded_layers
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService
from fitgauge.services.training_plan import method_search
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from fitgauge.services.training_plan.service import Planner


@pytest.mark.parametrize(
    ("name", "settings", "layouts", "passes"),
    [
        ("Qwen/Qwen3-8B", {}, 95, 110),
        ("Qwen/Qwen3-30B-A3B", {}, 81, 114),  # 70 before counts between powers of two
        ("openai/gpt-oss-20b", {"sequence_length": 32_768}, 80, 500),
        ("Qwen/Qwen3-30B-A3B", {"method": "lora", "framework": "megatron"}, 70, 110),
    ],
)
def test_a_plan_over_64_cards_estimates_and_plays_few_of_the_hundreds_of_layouts(
    monkeypatch, name, settings, layouts, passes
):
    """Every number of cards has up to 100 layouts, each in three ways of checkpointing:
    most cannot fit, or are no better."""
    calls = Counter()
    need, forward, backward = method_search.training_need, Tape._forward, Tape._backward
    monkeypatch.setattr(
        method_search, "training_need", lambda *given: calls.update(["layouts"]) or need(*given)
    )
    monkeypatch.setattr(
        Tape,
        "_forward",
        lambda *given, **named: calls.update(["passes"]) or forward(*given, **named),
    )
    monkeypatch.setattr(
        Tape, "_backward", lambda *given: calls.update(["passes"]) or backward(*given)
    )
    request = TrainingPlanRequest(model=name, gpu="H100", **{"sequence_length": 4096, **settings})
    answer = Planner(load_training()).answer(request, SNAPSHOT.model(name), bundled().find("H100"))
    assert answer.total >= 8
    assert calls["layouts"] <= layouts
    assert calls["passes"] <= passes


@pytest.mark.parametrize(
    ("name", "settings", "tapes"),
    [
        ("google/gemma-2-9b-it", {"framework": "megatron"}, 1),
        ("google/gemma-2-9b-it", {"framework": "fsdp", "sequence_length": 8192}, 2),
        ("google/gemma-2-9b-it", {"framework": "fsdp", "sequence_length": 2048}, 1),
        ("google/gemma-2-9b-it", {"framework": "fsdp", "attention": "flash"}, 1),
        ("openai/gpt-oss-20b", {"framework": "megatron"}, 1),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", {"framework": "fsdp"}, 2),
    ],
)
def test_layers_that_run_the_same_operations_are_recorded_once(monkeypatch, name, settings, tapes):
    """Kinds of layers that differ in a window alone run the same, but where SDPA masks it."""
    recorded, record = Counter(), recorded_layers._layer

    def counting(spec, unit, numbers, context, workload):
        recorded[workload] += 1
        return record(spec, unit, numbers, context, workload)

    monkeypatch.setattr(recorded_layers, "_layer", counting)
    sent = {"attention": "sdpa", "method": "full", **settings}
    request = TrainingRequest(model=name, gpu="H100", gpu_count=8, **sent)
    service = TrainingFitService(load_training(), load_engines())
    gpu = bundled().find("H100").accelerator
    service.check(request, SNAPSHOT.model(name), gpu, 8)
    assert set(recorded.values()) == {tapes}
