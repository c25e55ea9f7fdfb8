"""list_models_that_fit: each row is what check_fit would say, and none is missing."""

import asyncio

import pytest

from bundled_models import SNAPSHOT
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.errors import InvalidRequestError
from fitgauge.services.fit.floors import Floors
from fitgauge.services.models_for_gpu.capability import capability
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.models_for_gpu.service import ModelsForGpu
from fitgauge.services.training_fit.schemas import TrainingRequest


@pytest.fixture(scope="module")
def models_for(questions):
    return lambda **fields: asyncio.run(
        questions.list_models_that_fit(ModelsForGpuRequest(**fields))
    )


def test_a_row_says_what_check_fit_says_and_what_is_left_out_does_not_fit(models_for, check_fit):
    listed = {
        row.model: row
        for row in models_for(
            gpu="RTX 3090",
            search="qwen3",
            task="generate",
            quantizations="as published",
            settings="defaults",
            limit=1000,
        ).items
    }
    assert len(listed) > 5
    for name in (name for name in Snapshot().own_ids if "qwen3-" in name.lower()):
        alone = check_fit(model=name, gpu="RTX 3090")
        if (alone.fit_probability or 0) >= 0.5:
            assert listed[name].required_bytes == alone.per_gpu.required_bytes
            assert listed[name].verdict == alone.verdict
            assert listed[name].parameters == alone.model.parameters
        else:
            assert name not in listed


@pytest.fixture(scope="module")
def with_bounds():
    return ModelsForGpu(load_engines(), SNAPSHOT)


@pytest.fixture(scope="module")
def without_bounds():
    """Provide a service that remembers nothing of the bounds."""
    return ModelsForGpu(load_engines(), SNAPSHOT)


@pytest.mark.parametrize("gpu", ["RTX 4090", "2x RTX 3060", "MI300X", "8GB"])
@pytest.mark.parametrize("fields", [{}, {"settings": "defaults", "concurrency": 8}])
def test_the_bound_of_memory_leaves_out_nothing_that_would_be_listed(
    monkeypatch, with_bounds, without_bounds, gpu, fields
):
    request = ModelsForGpuRequest(gpu=gpu, search="b", context_length=8192, limit=1000, **fields)
    bounded = with_bounds.answer(request, bundled().find(gpu))
    bounds = []
    monkeypatch.setattr(Floors, "of_listed", lambda *_: bounds.append(0) or 0)
    assert without_bounds.answer(request, bundled().find(gpu)) == bounded
    assert len(bounds) > len(bounded.items) > 0


def test_the_most_capable_come_first_and_pages_follow_each_other(models_for):
    whole = models_for(gpu="RTX 3090", search="llama", limit=1000)
    ranks = [capability(SNAPSHOT.model(row.model), row.parameters) for row in whole.items]
    assert ranks == sorted(ranks, reverse=True)
    assert whole.total == len(ranks)
    pages = (
        models_for(gpu="RTX 3090", search="llama", **page).items
        for page in ({"limit": 10}, {"offset": 10, "limit": 1000})
    )
    assert [row for page in pages for row in page] == whole.items
    assert len(ranks) > 20


def test_of_one_release_the_larger_and_of_one_size_the_newer_is_more_capable():
    def rank(name):
        model = SNAPSHOT.model(name)
        return capability(model, model.spec.parameters)

    assert rank("Qwen/Qwen3-32B") > rank("Qwen/Qwen3-8B") > rank("Qwen/Qwen3-0.6B")
    assert (
        rank("Qwen/Qwen3-8B") > rank("meta-llama/Llama-3.1-8B") > rank("meta-llama/Llama-2-7b-hf")
    )
    assert rank("Qwen/Qwen3-32B") > rank("Qwen/Qwen3-30B-A3B")


def test_a_row_stands_in_a_format_that_people_run_on_the_gpu(models_for):
    def formats(gpu, search):
        rows = models_for(gpu=gpu, search=search, limit=1000).items
        assert len({row.model for row in rows}) == len(rows)
        return {(row.engine, row.quantization) for row in rows}

    on_mac = formats("Mac Studio M3 Ultra 256GB", "qwen3")
    assert {engine for engine, _ in on_mac} <= {"mlx", "llama.cpp"}
    assert ("mlx", "int4") in on_mac
    assert not any("NVFP4" in row.model for row in models_for(gpu="M3 Ultra 256GB").items)
    assert {"vllm", "llama.cpp"} == {engine for engine, _ in formats("RTX 4090", "32b")}
    assert "mlx" not in {engine for engine, _ in formats("16GB", "qwen3")}


@pytest.mark.parametrize("gpu", ["RTX 4060", "M3 Ultra 256GB", "2GB", "8x H100"])
@pytest.mark.parametrize("task", ["serving", "training"])
def test_rows_fit_or_are_tight_from_a_half_and_say_so(models_for, gpu, task):
    for row in models_for(gpu=gpu, task=task, search="3", limit=1000).items:
        assert row.verdict == ("fits" if row.fit_probability >= 0.9 else "tight")
        assert row.fit_probability >= 0.5
        assert row.headroom_bytes == row.budget_bytes - row.required_bytes.expected


def test_a_training_row_says_what_check_training_fit_says(models_for, questions):
    rows = models_for(gpu="RTX 4090", task="training", search="qwen3", limit=1000).items
    assert {row.method for row in rows} >= {"lora", "qlora"}
    for row in rows[::4]:
        request = TrainingRequest(model=row.model, gpu="RTX 4090", method=row.method)
        _, alone = asyncio.run(questions.check_training_fit(request))
        assert (alone.verdict, alone.fit_probability) == (row.verdict, row.fit_probability)


def test_several_gpus_train_what_one_does_not_hold(models_for):
    def trained(gpu):
        fields = {"task": "training", "method": "lora", "search": "qwen3-14b"}
        return {row.model for row in models_for(gpu=gpu, **fields).items}

    assert not trained("RTX 3090")
    assert "Qwen/Qwen3-14B" in trained("2x RTX 3090")


@pytest.mark.parametrize(
    "fields", [{"task": "training", "engine": "vllm"}, {"method": "lora"}, {"sequence_length": 64}]
)
def test_fields_of_the_other_task_are_refused(models_for, fields):
    with pytest.raises(InvalidRequestError) as caught:
        models_for(gpu="RTX 4090", **fields)
    assert caught.value.code == "conflicting-fields"


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


def test_models_that_are_made_to_embed_come_before_encoders_that_are_not(models_for):
    names = [row.model for row in models_for(gpu="RTX 3090", task="encode", limit=1000).items]
    embed = [name for name in names if any(word in name for word in ("bge", "e5-", "gte-"))]
    plain = names.index("google-bert/bert-large-uncased")
    assert len(embed) >= 8
    assert all(names.index(name) < plain for name in embed)
    assert names.index("BAAI/bge-m3") < names.index("BAAI/bge-small-en-v1.5")


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
    for gpu in ("H100", "L4", "B200", "MI300X"):
        for count in (1, 2, 3, 4, 8):
            request = ModelsForGpuRequest(gpu=gpu, gpu_count=count, search="qwen3")
            lists.answer(request, bundled().find(gpu))
    entries = lists._preparer._weights._memo._entries.values()
    # four facts of the weights, and three of each of two numbers of GPUs
    assert max(len(prepared.sharded.memo) for _, prepared in entries) <= 10
    memos = [memo for _, (_, memo) in lists._preparer._other._memo._entries.values()]
    held = [memo.get("of any requests") for memo in memos]
    assert max(len(launches.stages) for launches in held if launches) <= 20
    assert max(len(launches.others) for launches in held if launches) <= 7
