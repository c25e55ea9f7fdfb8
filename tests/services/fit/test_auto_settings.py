"""`settings: "auto"`: the launch nearest to the engine's defaults that runs the workload."""

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundled_models import model_of
from fitgauge.catalog import accelerators
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.ladders import Degrees
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.facade import Services
from fitgauge.services.fit.auto_settings import MOST_ESTIMATES
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.service import FitService

RANK = {"unsupported": -1, "does_not_fit": 0, "tight": 1, "fits": 2}
SERVICE = FitService(load_engines())
CARDS = {card.name: card for card in accelerators.load().all()}
MODEL_IDS = (
    "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "Qwen/Qwen3.5-27B", "openai/gpt-oss-20b",
    "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3.2", "google/gemma-3-27b-it",
    "meta-llama/Llama-3.1-70B-Instruct", "BAAI/bge-m3",
)  # fmt: skip


@pytest.fixture
def ask(questions: Services) -> Any:
    """Provide the answer to a question, with settings left to the search."""
    return lambda **fields: asyncio.run(questions.check_fit(FitRequest(**fields)))[1]


def estimate(fields: dict[str, Any], count: int | None = None) -> FitEstimate:
    card = GpuMatch(CARDS[fields["gpu"]], count or fields.get("gpu_count") or 1)
    return SERVICE.check(FitRequest(**fields), model_of(fields["model"]), card)


def chosen(answer: FitAnswer) -> dict[str, Any]:
    return {one.setting: one.value for one in answer.chosen}


def required_gib(answer: FitAnswer) -> float:
    assert answer.per_gpu is not None
    return answer.per_gpu.required_bytes.expected / GIB


def test_a_hybrid_starts_with_fewer_state_blocks(ask):
    question = {"model": "Qwen/Qwen3.5-27B", "gpu": "H100", "context_length": 8192}
    answer = ask(**question)
    assert (answer.verdict, chosen(answer)) == ("fits", {"max_num_seqs": 256})
    assert answer.chosen[0].default == 1024
    assert required_gib(answer) == pytest.approx(67.8, abs=0.1)
    assert answer.defaults.verdict == "does_not_fit"
    assert answer.defaults.required_bytes / GIB == pytest.approx(109.3, abs=0.1)
    assert "--max-num-seqs 256" in answer.launch.command
    assert ask(**question, settings="defaults").verdict == "does_not_fit"


def test_attention_replicas_hold_an_mla_cache_once(ask):
    answer = ask(
        model="deepseek-ai/DeepSeek-V3.2", gpu="8xH200", context_length=131_072, concurrency=16
    )
    assert answer.verdict == "fits"
    assert chosen(answer) == {"tensor_parallel": 1, "data_parallel": 8, "expert_parallel": 8}
    assert required_gib(answer) == pytest.approx(123.1, abs=0.1)
    assert answer.defaults.required_bytes / GIB == pytest.approx(242.0, abs=0.1)
    assert "--data-parallel-size 8 --enable-expert-parallel" in answer.launch.command


def test_what_does_not_fit_shows_the_least_it_takes(ask):
    answer = ask(model="openai/gpt-oss-120b", gpu="H100", context_length=131_072, concurrency=8)
    assert answer.verdict == "does_not_fit"
    assert required_gib(answer) == pytest.approx(102.0, abs=0.1)
    assert answer.per_gpu.budget_bytes / GIB == pytest.approx(75.2, abs=0.1)
    assert chosen(answer)["gpu_memory_utilization"] == 0.95
    assert chosen(answer)["enforce_eager"] is True
    fixes = [one.request for one in answer.suggestions if one.verdict == "fits"]
    assert {"gpu_count": 2} in fixes
    assert {"concurrency": 1} in fixes
    assert not any(set(one) == {"kv_cache_dtype"} for one in fixes)


def test_a_tight_question_fits_with_fewer_requests_at_once(ask):
    answer = ask(model="openai/gpt-oss-120b", gpu="H100", context_length=131_072)
    assert answer.verdict == "fits"
    assert chosen(answer)["max_num_seqs"] <= 512
    assert "enforce_eager" not in chosen(answer)
    assert answer.defaults.verdict == "tight"


def test_a_4090_does_not_hold_a_long_context(ask):
    answer = ask(model="Qwen/Qwen3-32B-AWQ", gpu="RTX 4090", context_length=32_768)
    assert answer.verdict == "does_not_fit"
    assert required_gib(answer) == pytest.approx(26.6, abs=0.1)
    assert answer.per_gpu.budget_bytes / GIB == pytest.approx(22.5, abs=0.1)
    assert {"gpu_count": 2} in [one.request for one in answer.suggestions if one.verdict == "fits"]


def test_nothing_is_chosen_where_the_defaults_fit(ask):
    answer = ask(model="Qwen/Qwen3-8B", gpu="RTX 4090", context_length=8192)
    assert (answer.verdict, answer.chosen, answer.defaults) == ("fits", [], None)
    assert answer.launch.command == "vllm serve Qwen/Qwen3-8B --max-model-len 8192"


def test_a_lower_share_leaves_room_for_what_lies_outside(ask):
    """The largest share that fits: one hundredth more does not."""
    question = {"model": "openai/gpt-oss-20b", "gpu": "4x 4060 Ti 16GB"}
    answer = ask(**question)
    assert answer.verdict == "fits"
    assert chosen(answer).keys() == {"gpu_memory_utilization"}
    share = chosen(answer)["gpu_memory_utilization"]
    assert 0.85 < share < 0.92
    more = ask(**question, settings="defaults", gpu_memory_utilization=round(share + 0.01, 2))
    assert more.verdict != "fits"


def test_a_pinned_setting_that_stops_the_launch_is_named(ask):
    answer = ask(
        model="Qwen/Qwen3.5-27B", gpu="H100", context_length=8192, max_num_seqs=1024,
        enforce_eager=False,
    )  # fmt: skip
    assert answer.verdict == "does_not_fit"
    assert "max_num_seqs" not in chosen(answer)
    assert "`max_num_seqs` 1024" in answer.defaults.reason


def test_pinned_degrees_bound_the_layouts(ask):
    answer = ask(
        model="deepseek-ai/DeepSeek-V3.2", gpu="8xH200", context_length=131_072, concurrency=16,
        tensor_parallel=8,
    )  # fmt: skip
    assert answer.verdict == "does_not_fit"
    assert not chosen(answer).keys() & set(Degrees._fields)


def test_the_settings_chosen_are_said_once_in_the_summary(ask):
    answer = ask(model="Qwen/Qwen3.5-27B", gpu="H100", context_length=8192)
    assert answer.summary.count("max_num_seqs 256 instead of 1,024") == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "context_length": 8192},
        {"model": "Qwen/Qwen3.5-27B", "gpu": "H100", "context_length": 8192},
        {"model": "deepseek-ai/DeepSeek-V3.2", "gpu": "8xH200", "concurrency": 16},
        {"model": "Qwen/Qwen3-8B", "gpu": "24GB", "engine": "sglang"},
        {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4080", "engine": "llama.cpp"},
        {"model": "openai/gpt-oss-120b", "gpu": "H100", "context_length": 131_072},
    ],
    ids=lambda fields: f"{fields['model']}-{fields['gpu']}",
)
def test_limits_hold_when_they_are_asked_for(ask, fields):
    limits = ask(**fields).limits
    for name, most in (
        ("context_length", limits.max_context_length),
        ("concurrency", limits.max_concurrency),
    ):
        if most:
            again = ask(**{**fields, name: most})
            assert again.verdict != "does_not_fit", (name, most)


@pytest.mark.parametrize(
    ("model", "gpu"),
    [
        ("Qwen/Qwen3-30B-A3B", "8x H100"),
        ("Qwen/Qwen3-235B-A22B", "8x H100"),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", "4x L4"),
        ("openai/gpt-oss-120b", "4x L4"),
    ],
)
def test_more_requests_are_estimated_with_their_own_batches(ask, model, gpu):
    """A layout that holds more requests needs a larger batch, whose logits leave less for them."""
    question = {"model": model, "gpu": gpu, "context_length": 512}
    most = ask(**question).limits.max_concurrency
    assert ask(**question, concurrency=most).verdict == "fits"
    assert ask(**question, concurrency=2 * most).verdict != "fits"


@pytest.mark.parametrize(
    ("model", "gpu", "engine"),
    [
        ("Qwen/Qwen3-32B", "4x L4", "vllm"),
        ("google/gemma-3-27b-it", "H100", "vllm"),
        ("google/gemma-3-27b-it", "4x RTX 5090", "sglang"),
        ("Qwen/Qwen3-30B-A3B", "H100", "transformers"),
    ],
)
def test_the_limit_of_requests_is_the_most_that_the_default_layout_takes(ask, model, gpu, engine):
    """The default launch fits, and smaller settings make room for more requests than it."""
    question = {"model": model, "gpu": gpu, "engine": engine, "context_length": 2048}
    answer = ask(**question)
    most = answer.limits.max_concurrency
    assert answer.chosen == []
    if engine != "transformers":
        question["tensor_parallel"] = int(gpu[0]) if gpu[0].isdigit() else 1
    assert ask(**question, concurrency=most).verdict == "fits"
    assert ask(**question, concurrency=most + max(1, most // 64)).verdict != "fits"


def test_the_summary_says_what_the_launch_holds_as_it_is_and_with_other_settings(ask):
    """The command that is read with it must run as many requests at once."""
    question = {"model": "Qwen/Qwen3-32B", "gpu": "4x L4", "context_length": 8192}
    answer = ask(**question)
    own, most = map(
        int, re.findall(r"holds (\d+) such requests at once, (\d+) with other", answer.summary)[0]
    )
    assert most == answer.limits.max_concurrency
    launched = {"settings": "defaults", "tensor_parallel": 4}
    assert ask(**question, **launched, concurrency=own).verdict == "fits"
    assert ask(**question, **launched, concurrency=own + 1).verdict != "fits"


def test_limits_reach_what_other_layouts_hold(ask):
    """One request fits by default, and the limit is that of attention replicas."""
    answer = ask(model="deepseek-ai/DeepSeek-V3.2", gpu="8xH200", context_length=131_072)
    assert answer.chosen == []
    assert answer.limits.max_concurrency >= 16
    assert answer.limits.max_context_length == 163_840


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODEL_IDS),
        "gpu": st.sampled_from(sorted(CARDS)),
        "gpu_count": st.sampled_from((1, 1, 2, 3, 4, 8, 16)),
        "engine": st.sampled_from((*ENGINES, "vllm", "vllm", "sglang")),
        "context_length": st.sampled_from((512, 4096, 8192, 32_768, 131_072)),
        "concurrency": st.sampled_from((1, 1, 2, 7, 16, 64, 256)),
    },
    optional={
        "quantization": st.sampled_from(("fp8", "awq", "q4_k_m")),
        "kv_cache_dtype": st.sampled_from(("fp8", "auto")),
        "max_num_seqs": st.sampled_from((8, 1024)),
        "gpu_memory_utilization": st.sampled_from((0.5, 0.97)),
        "enforce_eager": st.booleans(),
        "tensor_parallel": st.sampled_from((1, 2, 4)),
        "other_memory_gib": st.sampled_from((1.0, 4.0)),
        "kv_cache_memory_gib": st.sampled_from((2.0, 20.0)),
        "cpu_offload_gib": st.sampled_from((4.0,)),
    },
)


def possible(fields: dict[str, Any]) -> FitEstimate | None:
    try:
        return estimate(fields)
    except IMPOSSIBLE:
        return None


@settings(max_examples=150, deadline=None)
@given(fields=QUESTIONS)
def test_auto_is_never_worse_and_its_choice_sent_back_is_the_same_launch(fields):
    auto, default = possible(fields), possible({**fields, "settings": "defaults"})
    assert (auto is None) == (default is None)
    if auto is None or default is None:
        return
    assert RANK[auto.verdict] >= RANK[default.verdict]
    changed = dict(auto.choice.changed) if auto.choice else {}
    back = estimate({**fields, **changed, "settings": "defaults"})
    assert (back.verdict, back.probability) == (auto.verdict, auto.probability)
    assert (back.required, back.estimate.budget) == (auto.required, auto.estimate.budget)
    if auto.choice is None:
        assert auto.refused or auto.verdict == "fits"
        return
    assert auto.choice.estimates <= MOST_ESTIMATES
    assert auto.choice.default.required == default.required
    assert all(fields.get(name, value) == value for name, value in changed.items())
    ladders = ENGINES[auto.workload.engine].ladders
    knobs = {one.setting for one in ladders.batch}
    knobs |= {"gpu_memory_utilization"} if ladders.share else set()
    knobs |= {"enforce_eager"} if ladders.without_graphs else set()
    knobs |= set(Degrees._fields) if ladders.layouts else set()
    assert changed.keys() <= knobs
    again = possible(fields)
    assert again is not None
    assert again.choice is not None
    assert again.choice.changed == auto.choice.changed


@settings(max_examples=100, deadline=None)
@given(fields=QUESTIONS, less=st.floats(0.5, 8.0))
def test_more_memory_never_turns_a_fit_into_less(fields, less):
    """A GPU of which others hold less is one with more memory."""
    fields = {
        name: value
        for name, value in fields.items()
        if name not in ("other_memory_gib", "gpu_memory_utilization")
    }
    full, part = possible(fields), possible({**fields, "other_memory_gib": less})
    if full is not None and part is not None:
        assert RANK[full.verdict] >= RANK[part.verdict]


PAIRS = (
    ("A100 40GB PCIe", "A100 80GB PCIe"), ("RTX 4060 Ti 8GB", "RTX 4060 Ti 16GB"),
    ("H100 SXM", "H200 SXM"), ("B200", "B300"),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(fields=QUESTIONS, cards=st.sampled_from(PAIRS))
def test_a_larger_gpu_of_the_same_kind_never_holds_less(fields, cards):
    """The larger one may take larger defaults (vLLM's batch goes by the memory)."""
    pinned = ("other_memory_gib", "gpu_memory_utilization", "max_num_seqs", "kv_cache_memory_gib")
    fields = {name: value for name, value in fields.items() if name not in pinned}
    small, large = (possible({**fields, "gpu": name}) for name in cards)
    if small is not None and large is not None and small.verdict == "fits" and not small.refused:
        assert large.verdict == "fits"


def ladder_settings() -> list[tuple[str, str]]:
    """Every setting that a search may choose, with its engine."""
    rows = [(name, row.ladders) for name, row in ENGINES.items() if row.ladders]
    return [
        (name, setting)
        for name, ladders in rows
        for setting in (
            *(ladder.setting for ladder in ladders.batch),
            *(("gpu_memory_utilization",) if ladders.share else ()),
            *(("enforce_eager",) if ladders.without_graphs else ()),
        )
    ]


CHANGED = {
    "max_num_seqs": 3,
    "max_batched_tokens": 256,
    "gpu_memory_utilization": 0.85,
    "enforce_eager": True,
}


@pytest.mark.parametrize(("engine", "setting"), ladder_settings())
def test_the_command_holds_every_setting_that_may_be_chosen(ask, engine, setting):
    gpu = "M3 Max 64GB" if engine == "mlx" else "H100"
    question = {"model": "Qwen/Qwen3-8B", "gpu": gpu, "engine": engine, "settings": "defaults"}
    default, changed = ask(**question), ask(**question, **{setting: CHANGED[setting]})
    assert changed.launch is not None
    assert changed.launch.command != default.launch.command
