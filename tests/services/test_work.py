"""How much work a question makes, in what is counted: demands, estimates and bytes that stay. No
clock is read."""

import gc
import tracemalloc
from collections import Counter

import pytest

from bundled_models import SNAPSHOT, model_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.memo import Memo
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.vllm import stage_memory
from fitgauge.engine.serving.vllm.memory import loading_kind
from fitgauge.engine.weights.sharding import ShardedWeights
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import scheme_of
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.compare.service import Comparer
from fitgauge.services.fit.batch_estimator import BatchEstimator, gpu_class
from fitgauge.services.fit.demands import ModelDemands
from fitgauge.services.fit.service import FitService
from fitgauge.services.fit.workload import serving_workload
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.models_for_gpu.service import ModelsForGpu
from fitgauge.services.recommend import gpu_options
from fitgauge.services.recommend.gpu_options import GpuPool
from fitgauge.services.recommend.pareto import ParetoFront
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.service import Recommender

PROFILES = load_engines()


@pytest.fixture
def counted(monkeypatch):
    """Provide how often demands are worked out, and what comes beside the weights by engine."""
    calls = Counter()

    def demanding(work):
        def counting(self, *arguments):
            demand = work(self, *arguments)
            calls["demands"] += demand is not None
            return demand

        return counting

    def beside(engine, work):
        def counting_beside(*arguments):
            calls[engine] += 1
            return work(*arguments)

        return counting_beside

    for name in ("_idle_stages", "_whole"):
        monkeypatch.setattr(ModelDemands, name, demanding(getattr(ModelDemands, name)))
    for name, row in list(ENGINES.items()):
        if row.split is not None:
            split = row.split._replace(stage_memory=beside(name, row.split.stage_memory))
            monkeypatch.setitem(ENGINES, name, row._replace(split=split))
    return calls


@pytest.mark.parametrize(
    "name",
    ["Qwen/Qwen3-32B", "openai/gpt-oss-20b", "Qwen/Qwen3.5-27B", "deepseek-ai/DeepSeek-V2-Lite"],
)
def test_a_recommendation_makes_few_demands_of_the_tens_of_thousands_there_are(counted, name):
    """346 cards x 16 counts x up to 15 plans are over 50,000 deployments; cards of a kind are
    asked once, and formats share the rest."""
    answer = Recommender(PROFILES, bundled()).answer(
        RecommendRequest(model=name, context_length=32768, concurrency=16), model_of(name)
    )
    assert answer.total > 20
    # 200 while weights and the rest were compared with a GPU before they were added up
    assert counted["demands"] < 400
    assert counted["vllm"] <= 148  # 132 before block FP8 had rows of scales of its own before Ada
    assert counted["llama.cpp"] <= 32


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen3-32B", "Qwen/Qwen3.5-27B", "deepseek-ai/DeepSeek-V2-Lite"]
)
def test_a_recommendation_for_another_context_works_out_the_cache_alone(counted, name):
    """Nor does a hybrid's memory depend on it, or that of the longest video; llama.cpp's does."""
    recommender, asked = Recommender(PROFILES, bundled()), model_of(name)
    made = []
    for context in (32768, 32766):
        counted.clear()
        recommender.answer(
            RecommendRequest(model=name, context_length=context, concurrency=16), asked
        )
        made.append(dict(counted))
    assert made[0]["vllm"] > 40
    assert made[1].get("vllm", 0) == 0
    assert made[1]["demands"] < made[0]["demands"] / 3


@pytest.mark.parametrize(
    ("name", "gpus", "context", "estimates"),
    [
        ("Qwen/Qwen3-32B", "4x RTX 4090", 9000, 5),  # one of them of the most requests, at the ends
        ("Qwen/Qwen3-32B", "4x RTX 4090", 1030, 7),  # three
        # 22 before max_num_seqs decided what the sampler counts: its values are tried for the least
        ("deepseek-ai/DeepSeek-V3", "H100", 9000, 25),
        ("deepseek-ai/DeepSeek-V3", "8x H100", 9000, 41),
    ],
)
def test_a_question_takes_few_estimates(monkeypatch, name, gpus, context, estimates):
    """Layouts whose weights alone exceed the GPU are not estimated, nor are defaults where the
    ends of all ladders do not fit."""
    calls, row = Counter(), ENGINES["vllm"]

    def counting(*arguments):
        calls["estimates"] += 1
        return row.estimate(*arguments)

    monkeypatch.setitem(ENGINES, "vllm", row._replace(estimate=counting))
    request = FitRequest(model=name, gpu=gpus, context_length=context, concurrency=2)
    FitService(PROFILES).answer(request, model_of(name), bundled().find(gpus))
    assert calls["estimates"] <= estimates


def test_questions_of_other_contexts_share_the_profiling_pass_and_the_layout(monkeypatch):
    calls = Counter()

    def counted(name):
        real = getattr(stage_memory, name)

        def counting(*arguments, **named):
            calls[name] += 1
            return real(*arguments, **named)

        monkeypatch.setattr(stage_memory, name, counting)

    counted("profiling_terms")
    counted("stage_layout")
    name, service = "Qwen/Qwen3-8B", FitService(PROFILES)
    model = model_of(name)
    for context in range(5000, 5010):
        request = FitRequest(model=name, gpu="H100", context_length=context)
        service.answer(request, model, bundled().find("H100"))
    # and one each at the ends of the ladders: one running request's batch is its context
    assert calls["profiling_terms"] <= 3 + 10
    assert calls["stage_layout"] <= 3 + 10


def test_cells_that_differ_in_concurrency_alone_are_estimated_once(counted):
    request = CompareRequest(
        models="Qwen/Qwen3-32B",
        gpus="H100, 4x H100",
        context_lengths=[4096, 8192],
        concurrencies=[*range(1, 21)],
        settings="defaults",
    )
    asked, found = model_of("Qwen/Qwen3-32B"), [bundled().find("H100"), bundled().find("4x H100")]
    rows = list(Comparer(PROFILES).compare(request, [asked], found).rows)
    assert len(rows) == 80
    assert counted["vllm"] == counted["demands"] == 2  # contexts change the cache alone


def test_pages_of_a_list_are_estimated_once(counted):
    lists, demands, pages = ModelsForGpu(PROFILES, SNAPSHOT), [], []
    for gpu, offset in (("RTX 4090", None), ("4090", 20), ("RTX 4090", 0), ("H100", 0)):
        request = ModelsForGpuRequest(gpu=gpu, search="qwen3", offset=offset)
        pages.append(lists.answer(request, bundled().find(gpu)).items)
        demands.append(counted["demands"])
    assert pages[0] == pages[2]
    assert pages[0][0] not in pages[1]
    assert 0 < demands[0] == demands[1] == demands[2] < demands[3]


def test_models_that_are_made_alike_are_estimated_once_in_a_list(counted):
    lists = ModelsForGpu(PROFILES, SNAPSHOT)
    request = ModelsForGpuRequest(gpu="RTX 4090", search="qwen2.5-coder-0.5b")
    items = lists.answer(request, bundled().find("RTX 4090")).items
    assert len(items) == 2
    assert counted["demands"] == 1


def test_lists_of_other_contexts_share_what_runs_on_the_gpu(monkeypatch):
    asked, runs = Counter(), BatchEstimator.runs

    def counting(self, *arguments):
        asked["runs"] += 1
        return runs(self, *arguments)

    monkeypatch.setattr(BatchEstimator, "runs", counting)
    lists, totals = ModelsForGpu(PROFILES, SNAPSHOT), []
    for context in (1000, 2000):
        request = ModelsForGpuRequest(gpu="H100", search="qwen3-", context_length=context)
        totals.append(lists.answer(request, bundled().find("H100")).total)
        asked[context] = asked["runs"]
    assert totals[0] == totals[1] > 0
    assert asked[2000] == asked[1000] > 0


def test_lists_of_other_contexts_derive_nothing_anew_of_the_weights(monkeypatch):
    derived, once = [], ShardedWeights.once

    def counting(self, key, derive):
        return once(self, key, lambda: derived.append(key) or derive())

    monkeypatch.setattr(ShardedWeights, "once", counting)
    lists, totals = ModelsForGpu(PROFILES, SNAPSHOT), []
    for context in (1000, 2000):
        request = ModelsForGpuRequest(gpu="H100", search="qwen3-", context_length=context)
        lists.answer(request, bundled().find("H100"))
        totals.append(len(derived))
    assert totals[0] == totals[1] > 0


def test_cards_asked_about_again_are_seated_and_priced_once(monkeypatch):
    halls = []
    monkeypatch.setattr(
        "fitgauge.services.recommend.service.GpuPool",
        lambda *given: halls.append(given) or GpuPool(*given),
    )
    recommender, asked = Recommender(PROFILES, bundled()), model_of("openai/gpt-oss-20b")
    for gpus in ("H100, 2x L40S", "H100, 2x L40S", "H100, 4x L40S"):
        for context in (4096, 8192):
            recommender.answer(
                RecommendRequest(model=asked.id, gpus=gpus, context_length=context), asked
            )
    assert len(halls) == 2


def test_cards_of_a_class_are_asked_once_whether_a_plan_runs(monkeypatch):
    asked_of = Counter()
    refused = BatchEstimator.refused

    def counting(self, request, engine, accelerator):
        asked_of[request.quantization, engine, gpu_class(accelerator)] += 1
        return refused(self, request, engine, accelerator)

    monkeypatch.setattr(BatchEstimator, "refused", counting)
    recommender, asked = Recommender(PROFILES, bundled()), model_of("Qwen/Qwen3-32B")
    for context in (4096, 8192):
        recommender.answer(RecommendRequest(model=asked.id, context_length=context), asked)
    assert set(asked_of.values()) == {1}


def test_recommendations_leave_nothing_behind():
    recommender, asked = Recommender(PROFILES, bundled()), model_of("openai/gpt-oss-20b")

    def ask(context):
        recommender.answer(
            RecommendRequest(model=asked.id, context_length=context, concurrency=4), asked
        )
        gc.collect()

    ask(4096)
    tracemalloc.start()
    ask(8192)
    before, _ = tracemalloc.get_traced_memory()
    ask(16384)
    ask(32768)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 64 * 1024


@pytest.mark.parametrize(
    "name",
    [
        "Qwen/Qwen3-8B",
        "Qwen/Qwen3-32B-FP8",
        "Qwen/Qwen3-30B-A3B",
        "openai/gpt-oss-20b",
        "Qwen/Qwen3.5-27B",
        "deepseek-ai/DeepSeek-V3",
        "deepseek-ai/DeepSeek-V4-Pro",
        "google/gemma-3-4b-it",
        "google/gemma-4-E4B-it",
        "google/gemma-4-31B-it",
    ],
)
@pytest.mark.parametrize("cache", [None, "fp8"])
@pytest.mark.parametrize("count", [1, 8])
def test_cards_of_a_kind_hold_the_same_whatever_the_attention(name, count, cache):
    """The estimate of every card of the catalog, made for itself, is that of the first of
    its kind, and so is what it holds beside its weights of those that one workload makes alike."""
    asked, profile, row = model_of(name), PROFILES.profile("vllm", None), ENGINES["vllm"]
    sharded, first, alike, loading = (
        row.shard_weights(asked.spec, scheme_of(asked, None)),
        {},
        {},
        {},
    )
    for accelerator in bundled().all():
        workload = serving_workload(
            FitRequest(model=name, gpu="any", concurrency=4, kv_cache_dtype=cache),
            asked.spec,
            accelerator,
            count,
            profile,
        )
        sharded.memo.clear()
        required = row.estimate(
            asked.spec, sharded, workload, accelerator, profile
        ).fullest.required
        assert (
            first.setdefault((workload, row.accelerator_kind(accelerator)), required) == required
        ), accelerator.name
        others = row.split.stage_memory(asked.spec, workload, accelerator, profile, Memo())
        for_workload = row.workload_kind(asked.spec, accelerator, workload)
        assert alike.setdefault((workload, for_workload), others) == others, accelerator.name
        sharded.memo.clear()
        loaded = row.split.loaded(asked.spec, sharded, workload, accelerator)
        kind = loading_kind(accelerator, workload, sharded)
        assert loading.setdefault((workload, kind), loaded) == loaded, accelerator.name


def test_cards_without_a_price_are_passed_over_by_their_bandwidth(monkeypatch):
    """346 cards x 16 counts x 12 plans: the best speed is looked up where it changes, not
    for each (2,500 times before), and few have their speed worked out."""
    calls, fastest, expected = Counter(), ParetoFront.fastest, gpu_options.expected_speed
    monkeypatch.setattr(
        ParetoFront, "fastest", lambda *given: calls.update(["fastest"]) or fastest(*given)
    )
    monkeypatch.setattr(
        gpu_options, "expected_speed", lambda *given: calls.update(["speeds"]) or expected(*given)
    )
    request = RecommendRequest(model="Qwen/Qwen3-32B", context_length=32768, concurrency=16)
    Recommender(PROFILES, bundled()).answer(request, model_of(request.model))
    assert 0 < calls["fastest"] <= 800
    assert 0 < calls["speeds"] <= 1500


def test_a_question_leaves_no_cycles_behind():
    """The collector seldom looks: what only it can free would stay, 1.5 MiB a recommendation."""
    name = "Qwen/Qwen3-32B"
    recommender, fit = Recommender(PROFILES, bundled()), FitService(PROFILES)
    gpu, model = bundled().find("H100"), model_of(name)

    def ask():
        recommender.answer(RecommendRequest(model=name, context_length=8192), model)
        fit.answer(FitRequest(model=name, gpu="H100", context_length=8192), model, gpu)

    ask()
    gc.collect()
    gc.disable()
    try:
        ask()
        assert gc.collect() < 100
    finally:
        gc.enable()
