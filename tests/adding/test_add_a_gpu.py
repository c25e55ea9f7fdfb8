"""A GPU is added in one row of a catalog, without touching the package: every service knows it."""

import asyncio
import json

import pytest

from bundled_models import offline_questions
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.overlay import overlay
from fitgauge.catalog.overlay_file import parse
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingRequest

ROW = {
    "id": "lab-x1",
    "name": "Lab X1",
    "vendor": "nvidia",
    "compute_capability": [9, 0],
    "marketed_bytes": 48 * 10**9,
    "usable": 47 * 10**9,
    "bandwidth_gbps": 1800,
}
GPU = "2x lab x1"
MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module")
def services():
    content = json.dumps({"accelerators": [ROW]}).encode()
    services = offline_questions()
    services.use(overlay(bundled(), [("own.json", parse("own.json", content))]))
    return services


async def rows_of(services, request):
    table = await services.compare_fit(request)
    return [row async for rows in services.rows(table) for row in rows]


def test_fit_judges_it_by_its_usable_memory(services):
    _, answer = asyncio.run(services.check_fit(FitRequest(model=MODEL, gpu=GPU)))
    assert (answer.gpu.id, answer.gpu.count, answer.verdict) == ("lab-x1", 2, "fits")
    assert answer.per_gpu.usable_bytes == ROW["usable"]


def test_training_fit_knows_it(services):
    _, answer = asyncio.run(services.check_training_fit(TrainingRequest(model=MODEL, gpu=GPU)))
    assert answer.per_gpu.usable_bytes == ROW["usable"]


def test_recommend_offers_it(services):
    request = RecommendRequest(model=MODEL, gpus="lab x1")
    answer = asyncio.run(services.recommend_gpus(request))
    assert answer.options
    assert {option.gpu.id for option in answer.options} == {"lab-x1"}


def test_compare_has_a_cell_of_it(services):
    (row,) = asyncio.run(rows_of(services, CompareRequest(models=MODEL, gpus=GPU)))
    assert (row.gpu, row.verdict) == ("Lab X1", "fits")


def test_models_for_gpu_lists_what_runs_on_it(services):
    request = ModelsForGpuRequest(gpu=GPU, search="qwen3-8b")
    assert asyncio.run(services.list_models_that_fit(request)).total
