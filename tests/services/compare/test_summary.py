"""A table's sentence names what fits by what tells cells apart, or what comes nearest."""

import asyncio

import pytest

from fitgauge.services.compare.schemas import CompareRequest


@pytest.fixture(scope="module")
def summary(questions):
    def of(**fields):
        page = asyncio.run(questions.compare_page(CompareRequest(**fields)))
        return page.summary

    return of


def test_cells_that_fit_are_named_by_what_differs(summary):
    text = summary(models=["Qwen/Qwen3-32B"], gpus=["RTX 4090", "2x H100"])
    assert text.startswith("1 of 2 fit: 2 x H100 SXM (")


def test_one_of_several_formats_names_its_engine_too(summary):
    formats = ["fp8", "q4_k_m", "q3_k_m"]
    text = summary(models=["Qwen/Qwen3-32B"], gpus=["RTX 4090"], quantizations=formats)
    assert text.startswith("2 of 3 fit: q4_k_m (")


def test_engines_with_a_format_each_are_named(summary):
    text = summary(models=["Qwen/Qwen3-32B"], gpus=["RTX 4090"], engines=["vllm", "llama.cpp"])
    assert text.startswith("1 of 2 fit: q4_k_m with llama.cpp (")


def test_the_nearest_is_named_where_none_fits(summary):
    text = summary(models=["Qwen/Qwen3-32B", "Qwen/Qwen3-14B"], gpus=["RTX 3060 12GB"])
    assert text.startswith("None of 2 fits; the nearest is Qwen/Qwen3-14B (")


def test_a_row_with_an_error_is_counted_and_not_named(summary):
    text = summary(models=["Qwen/Qwen3-8B", "acme/unheard-of"], gpus=["H100"])
    assert text.startswith("1 of 2 fit: Qwen/Qwen3-8B on H100 SXM (")


@pytest.mark.parametrize(
    ("page", "start"),
    [
        ({"limit": 1}, "None of the 1 rows here fits; the nearest is "),
        ({"limit": 1, "offset": 1}, "1 of the 1 rows here fit: "),
        ({"offset": 9}, "No rows here, of 2."),
    ],
)
def test_a_page_speaks_of_its_own_rows_alone(summary, page, start):
    text = summary(models=["Qwen/Qwen3-8B"], gpus=["RTX 3050 4GB", "H100"], **page)
    assert text.startswith(start)


def test_one_request_is_not_several(summary):
    text = summary(models=["Qwen/Qwen3-8B"], gpus=["H100"], concurrencies=[1, 16])
    assert text.startswith("2 of 2 fit: 1 request (")
