"""Slices of a GPU (MIG) each hold a copy of a model, never a part of one."""

import asyncio

from fitgauge.services.compare.schemas import CompareRequest

MODEL, SLICE = "Qwen/Qwen3-4B-AWQ", "H100 MIG 1g.10gb"


def test_a_model_is_not_divided_over_slices(check_fit):
    several = check_fit(model=MODEL, gpu=f"7x {SLICE}", settings="auto")
    assert several.verdict == "unsupported"
    assert "one slice" in several.summary
    first = several.suggestions[0]
    assert first.request == {"gpu_count": 1}
    alone = check_fit(model=MODEL, gpu=SLICE, settings="auto")
    assert (first.verdict, first.required_bytes) == (
        alone.verdict,
        alone.per_gpu.required_bytes.expected,
    )


def test_a_table_says_the_same(questions):
    async def verdicts():
        table = await questions.compare_fit(
            CompareRequest(models=MODEL, gpus=[f"7x {SLICE}", SLICE])
        )
        return [row.verdict async for some in questions.rows(table) for row in some]

    assert asyncio.run(verdicts()) == ["unsupported", "fits"]
