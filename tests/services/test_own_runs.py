"""Runs of one's own decide how sure an estimate is, for their GPU and release alone."""

import msgspec
import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.doubt import NEVER, SAME_RELEASE, doubt, own_share
from fitgauge.errors import InvalidSettingsError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.service import FitService
from fitgauge.services.own_runs import OwnRun, read_own_runs, with_own_runs

GPU, OTHER_GPU, SHARE = "GH200 96GB", "B300", 0.9
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B-Instruct")


def question(model, **changes):
    return {"model": model, "gpu": GPU, "engine": "vllm", "gpu_memory_utilization": SHARE} | changes


def check(engines, model=MODELS[0], **changes):
    request = msgspec.convert(question(model, settings="defaults", **changes), FitRequest)
    gpu = bundled().find(request.gpu)
    return FitService(engines).check(request, Snapshot().model(model), gpu)


def run(model, miss, **changes):
    """Return the row of a run that needed more than was expected by the share `miss`."""
    checked = check(load_engines(), model, **changes)
    total = checked.query.accelerator.usable.expected
    pool = total * SHARE - checked.estimate.fullest.fixed_bytes * (1 + miss)
    return OwnRun(
        question=question(model, **changes),
        measured={"kv_gib": pool / GIB},
        scores=["need"],
        total_gpu_gib=total / GIB,
    )


def engines_of(*runs):
    return with_own_runs(load_engines(), runs, bundled(), Snapshot())


def share(engines, gpu=GPU, version=None):
    return doubt(engines.profile("vllm", version), bundled().find(gpu).accelerator).share


def width(checked):
    required = checked.estimate.fullest.required
    return required.high - required.low


def test_runs_near_the_estimate_narrow_the_interval_of_their_gpu_alone():
    before, after = load_engines(), engines_of(*(run(model, 0.005) for model in MODELS))
    assert share(before) > SAME_RELEASE.share
    assert share(after) == pytest.approx((8 * 0.04 + 4 * 2.44 * 0.005) / 12)
    assert width(check(after)) < width(check(before))
    assert share(after, OTHER_GPU) == share(before, OTHER_GPU)
    assert share(after, version=(0, 11)) == share(before, version=(0, 11))


def test_runs_far_from_the_estimate_widen_it_and_one_of_many_does_not():
    far = engines_of(*(run(model, 0.2) for model in MODELS))
    assert share(far) > NEVER.share
    odd = engines_of(run(MODELS[0], 0.4), *(run(model, 0.001) for model in MODELS[1:]))
    assert share(odd) < SAME_RELEASE.share


def test_a_process_of_a_known_size_counts_for_engines_without_a_pool():
    asked = {"engine": "transformers", "gpu_memory_utilization": None}
    needed = check(load_engines(), **asked).estimate.fullest.required.expected
    one = OwnRun(
        question={key: value for key, value in question(MODELS[0], **asked).items() if value},
        measured={"process_gib": needed * 1.01 / GIB},
        scores=["weights"],
    )
    gpu = bundled().find(GPU).accelerator
    profile = engines_of(one).profile("transformers", None)
    assert doubt(profile, gpu).share == pytest.approx(own_share([0.01]), rel=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"scores": []},
        {"settings": {"cpu": True}},
        {"measured": {}},
        {"total_gpu_gib": None},
        {"question": question("acme/not-bundled")},
        {"question": question("7b", gpu="no such GPU")},
        {"question": question(MODELS[0], context_length=-1)},
    ],
)
def test_a_run_that_tells_nothing_changes_nothing(change):
    engines = engines_of(msgspec.structs.replace(run(MODELS[0], 0.001), **change))
    assert share(engines) == share(load_engines())


def test_a_folder_is_read_and_a_broken_line_is_named(tmp_path):
    line = msgspec.json.encode(run(MODELS[0], 0.0))
    tmp_path.joinpath("a.jsonl").write_bytes(line + b"\n\n" + line)
    tmp_path.joinpath("notes.txt").write_text("no row")
    assert len(read_own_runs(tmp_path)) == 2
    assert len(read_own_runs(tmp_path / "a.jsonl")) == 2
    tmp_path.joinpath("b.jsonl").write_bytes(line + b"\n{")
    with pytest.raises(InvalidSettingsError, match=r"b\.jsonl, line 2"):
        read_own_runs(tmp_path)
    with pytest.raises(InvalidSettingsError, match="No such file"):
        read_own_runs(tmp_path / "c.jsonl")
