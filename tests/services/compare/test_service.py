"""compare_fit: every cell says what check_fit would say."""

import asyncio
from itertools import product

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.compare.schemas import CompareRequest


@pytest.fixture(scope="module")
def compare(questions):
    async def rows(request):
        comparison = await questions.compare_fit(request)
        return [row async for some in questions.rows(comparison) for row in some]

    return lambda **fields: asyncio.run(rows(CompareRequest(**fields)))


def test_every_cell_says_what_check_fit_says(compare, check_fit):
    models = ["Qwen/Qwen3-32B", "openai/gpt-oss-20b", "7b"]
    gpus = ["2x L40S", "RTX 4090", "80GB"]
    contexts = [4096, 65536]
    engines, formats = ["vllm", "sglang", "llama.cpp"], ["as published", "awq", "q4_k_m"]
    rows = compare(
        models=models,
        gpus=gpus,
        engines=engines,
        quantizations=formats,
        context_lengths=contexts,
        settings="defaults",
    )
    cells = list(product(models, gpus, engines, formats, contexts))
    assert [row.number for row in rows] == list(range(1, len(cells) + 1))
    for row, (model, gpu, engine, quantization, context) in zip(rows, cells, strict=True):
        alone = check_fit(
            model=model,
            gpu=gpu,
            engine=engine,
            quantization=quantization,
            context_length=context,
            settings="defaults",
        )
        assert (row.of, row.model, row.gpu, row.gpu_count) == (
            len(cells),
            alone.model.id,
            alone.gpu.name,
            alone.gpu.count,
        )
        assert (row.verdict, row.fit_probability) == (alone.verdict, alone.fit_probability)
        figures = None if row.verdict == "unsupported" else alone.per_gpu
        assert row.required_bytes == (figures and figures.required_bytes)
        assert row.headroom_bytes == (figures and figures.headroom_bytes)


HARD = {
    "models": "Qwen/Qwen3.5-27B, openai/gpt-oss-20b, Qwen/Qwen3-8B",
    "gpus": "H100, 4x RTX 4060 Ti 16GB, RTX 4090, 24GB",
    "engines": "vllm, sglang, llama.cpp, tensorrt-llm",
}


def test_settings_that_make_a_cell_fit_give_the_same_figures_when_they_are_sent(compare, check_fit):
    rows = compare(**HARD)
    changed = [row for row in rows if row.chosen and row.verdict == "fits"]
    assert len(changed) > 3
    for row in changed:
        again = check_fit(
            model=row.model,
            gpu=row.gpu,
            gpu_count=row.gpu_count,
            engine=row.engine,
            quantization=row.quantization,
            settings="defaults",
            **row.chosen,
        )
        assert (again.verdict, again.fit_probability) == (row.verdict, row.fit_probability)
        assert again.per_gpu.required_bytes == row.required_bytes


def test_no_cell_is_worse_than_by_the_engines_defaults(compare):
    order = ["unsupported", "does_not_fit", "tight", "fits"]
    for row, default in zip(compare(**HARD), compare(**HARD, settings="defaults"), strict=True):
        assert order.index(row.verdict) >= order.index(default.verdict)
        if default.verdict == "fits":
            assert row == default


def test_a_cell_that_fits_by_its_settings_is_one_that_check_fit_makes_fit(compare, check_fit):
    for row in compare(**HARD):
        if row.verdict == "fits":
            alone = check_fit(
                model=row.model,
                gpu=row.gpu,
                gpu_count=row.gpu_count,
                engine=row.engine,
                quantization=row.quantization,
                settings="auto",
            )
            assert alone.verdict == "fits"


def test_a_cell_that_is_impossible_says_why_and_the_others_are_answered(compare):
    rows = compare(models="Qwen/Qwen3-32B", gpus="H100, M3 Max 64GB", engines="vllm")
    assert [row.verdict for row in rows][1] == "unsupported"
    assert rows[1].note.code == "unsupported"
    assert rows[0].note is None


def test_a_cell_without_an_engine_takes_the_first_that_runs_it(compare):
    rows = compare(models="Qwen/Qwen3-4B", gpus="H100, M3 Max 64GB, GTX 1080 Ti")
    assert [(row.engine, row.verdict) for row in rows] == [
        ("vllm", "fits"),
        ("mlx", "fits"),
        ("llama.cpp", "fits"),
    ]


def test_a_context_beyond_the_models_maximum_is_unsupported(compare):
    (row,) = compare(models="google/gemma-2-9b-it", gpus="H100", context_lengths=100_000)
    assert row.verdict == "unsupported"
    assert (row.note.code, row.note.field) == ("context-exceeds-model", "context_length")


@pytest.mark.parametrize(
    "fields",
    [
        {
            "context_lengths": list(range(1, 51)),
            "concurrencies": list(range(1, 51)),
            "quantizations": "fp8,awq,gptq,int8,int4",
        },
        {"engines": "vlm"},
        {"quantizations": "q9"},
        {"kv_cache_dtype": "fp3"},
        {"models": ", ,"},
    ],
)
def test_what_is_too_large_empty_or_unknown_is_refused(compare, fields):
    with pytest.raises(InvalidRequestError) as caught:
        compare(**{"models": "7b", "gpus": "H100", **fields})
    assert caught.value.hint
