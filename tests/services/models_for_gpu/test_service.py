"""list_models_that_fit: each row is what check_fit would say, and none is missing."""

import asyncio

import pytest

from bundled_models import SNAPSHOT
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.errors import InvalidRequestError
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.models_for_gpu.service import ModelsForGpu


@pytest.fixture(scope="module")
def models_for(questions):
    return lambda **fields: asyncio.run(
        questions.list_models_that_fit(ModelsForGpuRequest(**fields))
    )


def test_a_row_says_what_check_fit_says_and_what_is_left_out_does_not_fit(models_for, check_fit):
    listed = {
        row.model: row
        for row in models_for(gpu="RTX 3090", search="qwen3", task="generate", limit=1000).items
    }
    assert len(listed) > 5
    for name in (name for name in Snapshot().own_ids() if "qwen3-" in name.lower()):
        alone = check_fit(model=name, gpu="RTX 3090")
        if alone.verdict in ("fits", "tight"):
            assert listed[name].required_bytes == alone.per_gpu.required_bytes
            assert listed[name].verdict == alone.verdict
            assert listed[name].parameters == alone.model.parameters
        else:
            assert name not in listed


def test_the_largest_come_first_and_pages_follow_each_other(models_for):
    whole = models_for(gpu="RTX 3090", search="llama", limit=1000)
    sizes = [row.parameters for row in whole.items]
    assert sizes == sorted(sizes, reverse=True)
    assert whole.total == len(sizes)
    pages = (
        models_for(gpu="RTX 3090", search="llama", **page).items
        for page in ({"limit": 10}, {"offset": 10, "limit": 1000})
    )
    assert [row for page in pages for row in page] == whole.items
    assert len(sizes) > 20


def test_narrower_formats_let_larger_models_in_but_never_those_published_in_one(models_for):
    def formats(name):
        rows = models_for(gpu="24GB", quantizations="as published, awq", search=name).items
        return {row.quantization for row in rows if row.model == name}

    assert formats("Qwen/Qwen3-14B") == {"awq"}
    assert formats("openai/gpt-oss-20b") == {"as published"}


def test_models_that_cannot_hold_the_context_are_left_out(models_for):
    names = {
        row.model
        for row in models_for(gpu="H100", context_length=32768, search="gemma", limit=1000).items
    }
    assert any("gemma-3-" in name for name in names)
    assert not any("gemma-2-" in name for name in names)


def test_tasks_are_told_apart(models_for):
    assert {row.task for row in models_for(gpu="RTX 3090", task="encode", limit=1000).items} == {
        "encode"
    }


@pytest.mark.parametrize(
    "fields",
    [{"engine": "vlm"}, {"quantizations": "q9"}, {"quantizations": ",".join(map(str, range(20)))}],
)
def test_unknown_words_are_refused(models_for, fields):
    with pytest.raises(InvalidRequestError):
        models_for(gpu="RTX 3090", **fields)


def test_what_is_remembered_of_a_bundled_model_does_not_grow_with_the_questions():
    lists = ModelsForGpu(load_engines(), SNAPSHOT)
    for count in (1, 2, 4, 8):
        lists.answer(
            ModelsForGpuRequest(gpu="H100", gpu_count=count, search="qwen3"), bundled().find("H100")
        )
    entries = lists._preparer._weights._memo._entries.values()
    assert max(len(prepared.laid.memo) for _, prepared in entries) <= 2
