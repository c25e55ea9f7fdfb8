"""The questions above the engine: a recommendation over the whole catalog, a list of models that
fit, and cells of a comparison a second. In seconds of one core: what else runs on the machine is
not counted."""

import statistics
import time

from bundled_models import offline_models
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.garbage import collect_rarely
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.compare.service import Comparer
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.models_for_gpu.service import ModelsForGpu
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.service import Recommender

KINDS = {
    "dense": "meta-llama/Llama-3.3-70B-Instruct",
    "dense, small": "Qwen/Qwen3-32B",
    "windows": "google/gemma-2-9b-it",
    "mixture": "Qwen/Qwen3-30B-A3B",
    "mixture, quantized": "openai/gpt-oss-20b",
    "hybrid": "Qwen/Qwen3.5-27B",
    "latent": "deepseek-ai/DeepSeek-V2-Lite",
    "latent, quantized": "deepseek-ai/DeepSeek-V3",
}
WORKLOADS = ((32768, 16), (8192, 1))
GPUS = ("RTX 4090", "2x L40S", "H100", "8x H100", "MI300X")
RUNS = 5


def best_seconds(call):
    """Return the best of RUNS calls [s of one core], after one that lays the weights out."""
    call()
    runs = []
    for _ in range(RUNS):
        start = time.process_time()
        call()
        runs.append(time.process_time() - start)
    return min(runs)


def shorter(context):
    """Yield contexts that each differ from those before: no question is asked twice."""
    while True:
        yield context
        context -= 1


def list_lines(engines, snapshot, gpu):
    """Return a list of models whose weights are laid out, of a context never asked about."""
    lists, contexts = ModelsForGpu(engines, snapshot), shorter(16384)
    took = best_seconds(
        lambda: lists.answer(
            ModelsForGpuRequest(gpu="RTX 4090", context_length=next(contexts)), gpu
        )
    )
    yield f"models-for-gpu, new context     {took * 1000:8.0f} ms         (at most 50)"


def lines():
    """Return the lines to print."""
    resolver, engines, catalog = offline_models(), load_engines(), bundled()
    snapshot, comparer = resolver.snapshot, Comparer(engines)
    recommender = Recommender(engines, catalog, Checkpoints(resolver))
    collect_rarely()  # as the service does
    models = {}
    for kind, name in KINDS.items():
        models[kind] = snapshot.model(name)
    took = {}
    for kind, model in models.items():
        for context, concurrency in WORKLOADS:
            contexts = shorter(min(context, model.spec.max_context_length or context))
            call = lambda concurrency=concurrency, contexts=contexts, model=model: (  # noqa: E731
                recommender.answer(
                    RecommendRequest(
                        model=model.id, context_length=next(contexts), concurrency=concurrency
                    ),
                    model,
                )
            )
            took[f"{kind}, {concurrency} x {context}"] = best_seconds(call) * 1000
    slowest = max(took, key=took.get)
    yield (
        f"recommend, median of {len(took):<3}        {statistics.median(took.values()):8.0f} ms    "
        "     (at most 15)"
    )
    yield f"recommend, slowest              {took[slowest]:8.0f} ms         (at most 25): {slowest}"
    yield from list_lines(engines, snapshot, catalog.find("RTX 4090"))
    asked = list(models.values())[:4]
    table = CompareRequest(
        models=[model.id for model in asked],
        gpus=list(GPUS),
        context_lengths=[*range(1024, 11264, 1024)],
        concurrencies=[1, 2, 4, 8, 16],
    )
    took = best_seconds(
        lambda: list(comparer.compare(table, asked, [catalog.find(name) for name in GPUS]).rows)
    )
    yield f"compare, 1,000 cells            {1000 / took:8.0f} cells/s    (at least 40,000)"
