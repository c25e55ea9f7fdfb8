"""The questions above the engine: one recommendation over the whole catalog, and cells of a comparison a second."""

import time

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.models import Snapshot
from fitgauge.engine.architecture import Model
from fitgauge.engine.families import read_config
from fitgauge.questions.compare import Comparer
from fitgauge.questions.compare_schemas import CompareRequest
from fitgauge.questions.recommend import Recommender
from fitgauge.questions.recommend_schemas import RecommendRequest

MODELS = ("meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-32B", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3")
GPUS = ("RTX 4090", "2x L40S", "H100", "8x H100", "MI300X")
RUNS = 5


def best_seconds(call):
    """The best of RUNS calls, after one that lays the weights out [s]."""
    call()
    runs = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        runs.append(time.perf_counter() - start)
    return min(runs)


def lines():
    """Lines to print."""
    snapshot, engines = Snapshot(), load_engines()
    recommender, comparer = Recommender(engines, bundled()), Comparer(engines)
    models = []
    for name in MODELS:
        row = snapshot.get(name)
        models.append(Model(id=name, source="snapshot", spec=read_config(row.config, row.quantization)))
    for model in models:
        request = RecommendRequest(model=model.id, context_length=32768, concurrency=16)
        took = best_seconds(lambda request=request, model=model: recommender.answer(request, model))
        yield f"recommend {model.id:<34}      {took * 1000:8.0f} ms         (aim 30)"
    table = CompareRequest(
        models=list(MODELS), gpus=list(GPUS), context_lengths=[*range(1024, 11264, 1024)], concurrencies=[1, 2, 4, 8, 16]
    )
    took = best_seconds(lambda: list(comparer.compare(table, models, [bundled().find(name) for name in GPUS]).rows))
    yield f"compare, 1,000 cells            {1000 / took:8.0f} cells/s    (aim 20,000)"
