"""One estimate for cards alike is the estimate that each of them gets by itself."""

import pytest
from msgspec import structs

from bundled_models import model_of
from fitgauge.catalog import accelerators
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.service import FitService


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V2-Lite"])
def test_every_card_of_the_catalog_gets_the_numbers_of_check_fit(engine, name):
    model = model_of(name)
    engines = load_engines()
    fitting, serving = BatchEstimator(model, engines, WeightCache()), FitService(engines)
    for accelerator in accelerators.load().all():
        for count in (1, 2):
            request = FitRequest(
                model=name,
                gpu=accelerator.name,
                gpu_count=count,
                engine=engine,
                quantization="as published",
                concurrency=4,
                settings="defaults",
            )
            published = structs.replace(request, quantization=None)
            shared = fitting.fitted(published, engine, accelerator, count)
            alone = serving.check(request, model, GpuMatch(accelerator, count))
            assert shared.required == alone.estimate.fullest.required, accelerator.name
            assert shared.budget == alone.estimate.budget, accelerator.name
            assert (shared.probability, shared.verdict) == (alone.probability, alone.verdict), (
                accelerator.name
            )


def test_formats_of_one_question_each_have_the_cache_that_goes_with_their_weights():
    """A checkpoint that says its cache is in fp8 says so of its own weights alone."""
    model, engines = model_of("nvidia/Llama-3.1-70B-Instruct-FP8"), load_engines()
    fitting, serving = BatchEstimator(model, engines, WeightCache()), FitService(engines)
    card = accelerators.load().get("b200-192gb")
    for quantization in (None, "bf16", None):
        request = FitRequest(
            model=model.id,
            gpu=card.name,
            gpu_count=8,
            quantization=quantization,
            concurrency=16,
            settings="defaults",
        )
        batch = fitting.fitted(request, "vllm", card, 8)
        alone = serving.check(request, model, GpuMatch(card, 8))
        assert batch.required == alone.estimate.fullest.required
