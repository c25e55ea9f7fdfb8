"""Rows of a fleet: held to single questions, skipped where they are known, shared out by shards."""

import asyncio

import pytest

from bundled_models import model_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.batch_settings import best_estimate
from fitgauge.services.fit.demands import ModelDemands
from fitgauge.services.fleet.fleet_file import read_fleet
from fitgauge.services.fleet.service import FleetService, Shard

MODELS = (
    "Qwen/Qwen3-8B",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "deepseek-ai/DeepSeek-V2-Lite",
    "google/gemma-3-27b-it",
    "meta-llama/Llama-3.3-70B-Instruct",
)
GPUS = ("H100", "L40S", "RTX 4090", "T4", "MI300X", "M3 Ultra 256GB")
LOADS = """
[[loads]]
name = "one"
[[loads]]
name = "many"
context_length = 4096
concurrency = 64
"""


def fleet_of(models=MODELS, gpus=GPUS, loads=LOADS, head=""):
    return f"{head}\nmodels = {[*models]}\ngpus = {[*gpus]}\n{loads}"


def test_a_row_is_what_compare_answers_for_its_gpus(batches, questions):
    """On its number of GPUs, and no smaller number of its ladder fits."""
    text = fleet_of()
    rows = [row for batch in batches(text) for row in batch.rows]
    assert len(rows) == len(MODELS) * len(GPUS) * 2
    for row in rows:
        if row.verdict == "unsupported":
            assert row.note is not None
            continue
        counts = [count for count in (1, 2, 4, 8, 16) if count <= row.gpu_count]
        request = CompareRequest(
            models=row.model,
            gpus=[f"{count}x {row.gpu}" if count > 1 else row.gpu for count in counts],
            context_lengths=row.context_length,
            concurrencies=row.concurrency,
        )
        *fewer, same = asyncio.run(questions.whole_comparison(request)).items
        assert (row.verdict, row.engine, row.quantization) == (
            same.verdict, same.engine, same.quantization,
        )  # fmt: skip
        assert (row.required_bytes, row.budget_bytes) == (
            same.required_bytes.expected, same.budget_bytes,
        )  # fmt: skip
        assert row.chosen == same.chosen
        assert "fits" not in {cell.verdict for cell in fewer}


@pytest.mark.parametrize("release", ["0.10", "0.24", "0.28", "0.33"])
def test_a_row_of_a_release_is_what_check_answers(batches, check_fit, release):
    head = f'engine = "vllm"\nengine_version = "{release}"\nsettings = "defaults"'
    for batch in batches(fleet_of(gpus=GPUS[:3], head=head)):
        for row in batch.rows:
            if row.gpu_count is None:
                continue
            one = check_fit(
                model=row.model,
                gpu=row.gpu,
                gpu_count=row.gpu_count,
                engine="vllm",
                engine_version=release,
                context_length=row.context_length,
                concurrency=row.concurrency,
            )
            assert one.verdict == row.verdict
            assert one.per_gpu.required_bytes.expected == row.required_bytes


def test_the_release_is_of_the_fleets_engine_wherever_it_is_named(batches):
    head = 'engine_version = "0.19"\nsettings = "defaults"\n'
    entry = "[[models]]\nmodel = 'Qwen/Qwen3-8B'\n"
    gpus = "[[gpus]]\ngpu = 'H100'\n"
    named, left_out, newest = (
        batches(text)[0].rows[0].required_bytes
        for text in (
            head + entry + "engine = 'vllm'\n" + gpus,
            head + entry + gpus,
            entry + gpus + "[[loads]]\nname = 'one'\n",
        )
    )
    assert named == left_out != newest


def test_rows_that_are_known_are_not_estimated(batches, monkeypatch):
    text = fleet_of(MODELS[:2], GPUS[:3])
    first = [row for batch in batches(text) for row in batch.rows]
    known = {row.question: row for row in first}
    assert len(known) == len(first)
    monkeypatch.setattr(BatchEstimator, "demand", None)
    again = batches(text, known)
    assert [row for batch in again for row in batch.rows] == first
    assert sum(batch.skipped for batch in again) == len(first)


def test_a_row_is_known_by_all_that_decides_it(batches):
    base = {row.question for batch in batches(fleet_of(MODELS[:1], GPUS[:2])) for row in batch.rows}
    for head, loads in (
        ('engine_version = "0.30"', LOADS),
        ('settings = "defaults"', LOADS),
        ('engine = "sglang"', LOADS),
        ("", LOADS.replace("64", "32").replace('name = "one"', 'name = "one"\nconcurrency = 2')),
    ):
        text = fleet_of(MODELS[:1], GPUS[:2], loads, head)
        assert not base & {row.question for batch in batches(text) for row in batch.rows}


def test_runs_of_ones_own_change_what_a_row_answers(service, batches):
    text = fleet_of(MODELS[:1], GPUS[:2])
    base = {row.question for batch in batches(text) for row in batch.rows}
    shares = {("vllm", (0, 33)): {"h100-sxm-80gb": 0.01}}
    measured = FleetService(
        service._find, service._checkpoints, load_engines().with_own_shares(shares), bundled()
    )

    async def collect():
        question = measured.question(read_fleet(text))
        return [row async for batch in measured.batches(question, {}) for row in batch.rows]

    assert not base & {row.question for row in asyncio.run(collect())}


def test_a_new_price_changes_no_row_that_is_known_but_its_price(batches):
    text = "models = ['Qwen/Qwen3-8B']\n[[gpus]]\ngpu = 'H100'\nusd_per_hour = 2.0\n"
    (first,) = batches(text)[0].rows
    (again,) = batches(text.replace("2.0", "3.0"), {first.question: first})[0].rows
    assert (first.question, again.usd_per_hour) == (again.question, 3.0 * again.gpu_count)


@pytest.mark.parametrize("total", [1, 2, 4, 9])
def test_shards_are_the_whole(batches, total):
    text = fleet_of(gpus=GPUS[:1])
    whole = [row.question for batch in batches(text) for row in batch.rows]
    parts = [
        [row.question for batch in batches(text, shard=Shard(part, total)) for row in batch.rows]
        for part in range(1, total + 1)
    ]
    assert sorted(key for part in parts for key in part) == sorted(whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= len(whole) // len(MODELS)


def test_what_is_unknown_is_a_fault_with_its_line_and_the_others_are_answered(batches, service):
    text = fleet_of(["no/such-model-at-all", MODELS[0]], ["H100", "GPU of 1899"])
    question = service.question(read_fleet(text))
    assert [(fault.line, fault.code) for fault in question.faults] == [(3, "unknown-gpu")]
    unknown, answered = batches(text)
    assert unknown.fault.line == 2
    assert (unknown.rows, len(answered.rows)) == ([], 2)


def test_an_unknown_format_is_a_fault_of_its_model_alone(batches):
    text = "[[models]]\nmodel = '7b'\nquantization = 'fp3x'\n[[models]]\nmodel = '13b'\n"
    wrong, right = batches(text + "[[gpus]]\ngpu = 'H100'\n")
    assert (wrong.fault.line, wrong.fault.code) == (1, "unknown-quantization")
    assert [row.verdict for row in right.rows] == ["fits"]


def test_a_context_beyond_the_model_is_unsupported(batches):
    loads = "[[loads]]\nname = 'long'\ncontext_length = 90000000\n"
    (batch,) = batches(fleet_of(MODELS[:1], GPUS[:2], loads))
    assert {(row.verdict, row.note.code) for row in batch.rows} == {
        ("unsupported", "context-exceeds-model")
    }


def test_the_answer_says_what_fits_and_plans_for_it(answer):
    models = ["Qwen/Qwen3-8B", "meta-llama/Llama-3.1-405B"]
    whole = answer(f"models = {models}\n[[gpus]]\ngpu = 'L40S'\ncount = 4\nusd_per_hour = 1.0\n")
    assert (whole.fit, whole.do_not_fit) == (models[:1], models[1:])
    assert [(one.objective, one.gpus) for one in whole.plans] == [("fewest", 1), ("cheapest", 1)]
    assert whole.summary.startswith("1 of 2 models fit; fewest GPUs: 1")


def test_a_model_that_fits_nowhere_comes_with_the_load_that_none_holds(answer):
    loads = "[[loads]]\nname = 'chat'\n[[loads]]\nname = 'long'\ncontext_length = 32768\n"
    gpus = "[[gpus]]\ngpu = '1x RTX 4090'\n[[gpus]]\ngpu = '1x L4'\n"
    whole = answer(f"models = ['BAAI/bge-m3', 'Qwen/Qwen3-32B', 'Qwen/Qwen3-4B']\n{gpus}{loads}")
    assert whole.why.keys() == {"BAAI/bge-m3", "Qwen/Qwen3-32B"}
    assert whole.why["BAAI/bge-m3"].startswith("under long: `context_length` 32,768 exceeds")
    assert whole.why["Qwen/Qwen3-32B"].startswith("under chat: needs 6")
    assert whole.why["Qwen/Qwen3-32B"].endswith(" on 1 x RTX 4090")


def test_a_count_of_one_bounds_as_any_other(answer):
    whole = answer("models = ['70b']\n[[gpus]]\ngpu = '1x A100 80GB'\n")
    assert (whole.fit, whole.pools[0].count) == ([], 1)


def test_an_unknown_gpu_is_told_the_command_that_lists_them(answer):
    whole = answer("models = ['7b']\n[[gpus]]\ngpu = 'L45'\n[[gpus]]\ngpu = 'H100'\n")
    assert "`fitgauge gpus` lists all" in whole.faults[0].message


def test_a_copy_holds_each_of_its_loads(answer):
    """The plan takes the largest of the counts that the loads take."""
    whole = answer(fleet_of(MODELS[-1:], ["H100"]))
    counts = [one.gpu_count for plan in whole.plans for one in plan.placements]
    assert counts == [whole.counts[MODELS[-1]]["H100"]] * 2


def test_a_model_whose_gpus_are_all_unknown_is_not_said_not_to_fit(answer):
    text = "[[models]]\nmodel = '7b'\ngpus = ['GPU of 1899']\n[[models]]\nmodel = '13b'\n"
    whole = answer(text + "[[gpus]]\ngpu = 'GPU of 1899'\n[[gpus]]\ngpu = 'H100'\n")
    assert (whole.models, whole.fit, whole.do_not_fit) == (1, ["13b"], [])
    assert [fault.code for fault in whole.faults] == ["unknown-gpu"]
    assert whole.summary.endswith(" 1 line has no answer: see below.")


def test_a_part_has_no_plans(answer):
    part = answer(fleet_of(MODELS[:2], GPUS[:1]), shard=Shard(1, 2))
    assert (part.models, part.plans) == (1, [])
    assert part.no_plan


@pytest.fixture
def demands(monkeypatch):
    """Provide the launches that are estimated, as they are."""
    counted = []
    launch = ModelDemands.launch

    def counting(self, *arguments):
        counted.append(arguments)
        return launch(self, *arguments)

    monkeypatch.setattr(ModelDemands, "launch", counting)
    return counted


def test_gpus_alike_are_estimated_once(batches, demands):
    """Demands are counted by kind of GPU, not by GPU."""
    ada = ["L40S", "L40", "L4", "RTX 4090", "RTX 4080", "RTX 6000 Ada", "RTX 4070", "RTX 4060 Ti"]
    batches(fleet_of(MODELS[:1], ada, "[[loads]]\nname = 'one'\n"))
    assert 0 < len(demands) <= 8


def test_fine_tunes_of_one_architecture_are_estimated_once(batches, demands):
    models = ["mistralai/Mistral-7B-v0.1", "HuggingFaceH4/zephyr-7b-beta"]
    first, second = batches(fleet_of(models))
    once = len(demands)
    assert [row.required_bytes for row in first.rows] == [row.required_bytes for row in second.rows]
    assert {row.model for row in second.rows} == {models[1]}
    batches(fleet_of(models[:1]))
    assert len(demands) == 2 * once


def test_a_release_older_than_the_newest_has_its_own_coefficients():
    model, catalog, engines = model_of("Qwen/Qwen3-8B"), bundled(), load_engines()
    request = FitRequest(model=model.id, gpu="H100", engine_version="0.19", settings="defaults")
    required = {
        best_estimate(
            BatchEstimator(model, profiles, WeightCache()),
            request,
            "vllm",
            catalog.find("H100").accelerator,
            1,
        ).required
        for profiles in (engines, engines.until("vllm", (0, 19)))
    }
    assert len(required) == 2
