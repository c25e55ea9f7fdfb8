"""A context beyond a config that a publisher says YaRN reaches: every service answers it alike."""

import asyncio
import json

import pytest

from bundled_models import offline_models
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.commands.manifests import manifest_checker
from fitgauge.errors import InvalidRequestError
from fitgauge.services.ask.schemas import AskRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fleet.fleet_file import read_fleet
from fitgauge.services.fleet.service import WHOLE, FleetService
from fitgauge.services.manifests.service import Source
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.tools.service import Tools

MODEL, GPU, LONG = "Qwen/Qwen3-32B", "4x H100", 131072
YARN = '{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768}'
LONGER = f'{{"rope_parameters":{YARN},"max_position_embeddings":131072}}'
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      containers:
      - name: server
        image: IMAGE
        env: [{name: VLLM_ALLOW_LONG_MAX_MODEL_LEN, value: "LONG"}]
        args: ARGS
        resources: {limits: {nvidia.com/gpu: "4"}}
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
"""


@pytest.fixture(scope="module")
def fit(check_fit):
    return check_fit(model=MODEL, gpu=GPU, context_length=LONG, settings="auto", detail="full")


def compare(questions, **fields):
    request = CompareRequest(models=MODEL, **fields)
    return asyncio.run(questions.whole_comparison(request)).items


def test_compare_has_the_verdict_and_the_bytes_of_fit(questions, fit):
    short, long, longer = compare(questions, gpus=GPU, context_lengths=[8192, LONG, LONG + 1])
    assert (long.verdict, long.required_bytes) == (fit.verdict, fit.per_gpu.required_bytes)
    assert (short.chosen, long.chosen) == ({}, {"rope_scaling_factor": 4})
    assert (longer.verdict, longer.note.code) == ("unsupported", "context-exceeds-model")


def test_compare_takes_an_engine_that_scales(questions):
    beyond, within = compare(
        questions, gpus="Apple M3 Ultra 256GB", context_lengths=[LONG, 8192], settings="defaults"
    )
    assert (beyond.engine, beyond.verdict) == ("llama.cpp", "fits")
    assert within.engine == "mlx"


def test_recommend_names_commands_that_scale(questions):
    request = RecommendRequest(
        model=MODEL, context_length=LONG, gpus=["H100", "A100 80GB"], limit=9
    )
    answer = asyncio.run(questions.recommend_gpus(request))
    assert answer.items
    assert all("yarn" in one.launch.command for one in [*answer.items, *answer.options])
    assert "positions-scaled" in [note.code for note in answer.warnings]


def test_recommend_refuses_what_no_engine_reads(questions):
    for fields in ({"context_length": LONG + 1}, {"context_length": LONG, "engine": "tgi"}):
        with pytest.raises(InvalidRequestError) as refused:
            asyncio.run(questions.recommend_gpus(RecommendRequest(model=MODEL, **fields)))
        assert refused.value.field == "context_length"


@pytest.mark.parametrize(
    ("gpu", "context_length", "engines"),
    [
        ("8x H100", LONG, {"vllm"}),
        ("8x H100", LONG + 1, set()),
        ("M3 Ultra 256GB", LONG, {"llama.cpp"}),
    ],
)
def test_lists_hold_the_models_that_read_it(questions, gpu, context_length, engines):
    request = ModelsForGpuRequest(gpu=gpu, search="qwen3-32b", context_length=context_length)
    items = asyncio.run(questions.list_models_that_fit(request)).items
    assert {one.engine for one in items if one.model == MODEL} == engines
    assert all(one.chosen.get("rope_scaling_factor") == 4 for one in items)


def test_a_fleet_has_the_rows_of_compare(questions):
    models = offline_models()
    service = FleetService(models.find, Checkpoints(models), load_engines(), bundled())
    loads = f"[[loads]]\nname = 'long'\ncontext_length = {LONG}\n[[loads]]\nname = 'short'\n"
    text = f"models = ['{MODEL}']\ngpus = ['H100', 'M3 Ultra 256GB']\n{loads}"
    question = service.question(read_fleet(text))

    async def collect():
        return [row async for batch in service.batches(question, {}, WHOLE) for row in batch.rows]

    rows = asyncio.run(collect())
    assert len(rows) == 4
    for row in rows:
        (same,) = compare(
            questions, gpus=f"{row.gpu_count}x {row.gpu}", context_lengths=row.context_length
        )
        assert (row.verdict, row.engine, row.required_bytes, row.chosen) == (
            same.verdict, same.engine, same.required_bytes.expected, same.chosen,
        )  # fmt: skip


@pytest.mark.parametrize("words", ["128k context", "131072 tokens of context"])
def test_a_sentence_is_answered(questions, words):
    text = f"Will Qwen3 32B fit on 4x H100 with {words}?"
    answer = asyncio.run(questions.ask(AskRequest(question=text))).answer
    assert answer["verdict"] == "fits"
    assert "--hf-overrides" in answer["launch"]["command"]


def test_the_tools_say_that_it_is_assumed(questions):
    arguments = {"model": MODEL, "gpu": GPU, "context_length": "128k"}
    short = asyncio.run(Tools(questions).call("check_fit", arguments))
    assert short.verdict == "fits"
    assert any("YaRN with factor 4" in one for one in short.assumed)


@pytest.mark.parametrize(
    ("image", "arguments", "verdict", "factor"),
    [
        ("vllm/vllm-openai:v0.10.2", ["--rope-scaling", YARN], "fits", 4),
        ("vllm/vllm-openai:v0.33.0", ["--hf-overrides", LONGER], "fits", 4),
        ("vllm/vllm-openai:v0.29.0", ["--hf-overrides", f'{{"rope_scaling":{YARN}}}'], "fits", 4),
        # its length is max_position_embeddings, which stays as it is
        ("vllm/vllm-openai:v0.33.0", ["--hf-overrides", f'{{"rope_scaling":{YARN}}}'], None, 1),
        ("vllm/vllm-openai:v0.33.0", [], None, 1),
        ("vllm/vllm-openai:v0.33.0", ["--hf-overrides", '{"rope_parameters": 4'], None, 1),
    ],
)
def test_a_manifest_is_judged_by_its_own_flags(questions, image, arguments, verdict, factor):
    words = ["--model", MODEL, "--tensor-parallel-size", "4", "--max-model-len", str(LONG)]
    text = DEPLOYMENT.replace("IMAGE", image).replace("ARGS", json.dumps([*words, *arguments]))
    for any_length in ("0", "1"):
        source = Source("x.yaml", text.replace('"LONG"', f'"{any_length}"'))
        (server,) = asyncio.run(manifest_checker(questions).check([source], {})).servers
        allowed = any_length == "1" and arguments and "factor" in arguments[1]
        assert server.verdict == ("fits" if allowed else verdict or "unsupported")
        assert server.request["rope_scaling_factor"] == (4 if allowed else factor)


def test_a_manifest_without_scaling_is_told_how(questions):
    words = ["--model", MODEL, "--tensor-parallel-size", "4", "--max-model-len", str(LONG)]
    text = DEPLOYMENT.replace("IMAGE", "vllm/vllm-openai:v0.33.0").replace(
        "ARGS", json.dumps(words)
    )
    (server,) = asyncio.run(manifest_checker(questions).check([Source("x", text)], {})).servers
    assert {"rope_scaling_factor": 4} in [change.request for change in server.changes]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_what_it_deploys_reads_back_as_the_question(check_fit, questions, engine):
    fit = check_fit(
        model=MODEL, gpu=GPU, context_length=LONG, engine=engine, settings="auto", detail="full"
    )
    source = Source("x.yaml", fit.launch.kubernetes)
    (server,) = asyncio.run(manifest_checker(questions).check([source], {})).servers
    assert [remark.message for remark in server.remarks] == []
    assert (server.verdict, server.request["rope_scaling_factor"]) == ("fits", 4)
