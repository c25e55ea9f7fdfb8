"""explain_log: estimate beside measurement, the term that differs most, and why."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accuracy.truth import Run
from fitgauge.errors import FitgaugeError, InvalidRequestError
from fitgauge.services.explain_log.schemas import ExplainLogRequest, LogAnswer
from fitgauge.services.facade import Services
from notes import codes

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
GIB = 2**30
DATA = Path(__file__).parents[2] / "logs" / "data"


@pytest.fixture
def explain(questions: Services) -> Callable[..., LogAnswer]:
    """Provide the ledger of a log given as text and fields."""
    return lambda log, **fields: asyncio.run(
        questions.explain_log(ExplainLogRequest(log=log, **fields))
    )


@pytest.fixture
def pool(check_fit):
    """Provide what is estimated to be left for the cache [GiB]."""

    def left(**fields):
        answer = check_fit(model=LLAMA, gpu="H100", **fields)
        held = sum(term.bytes for term in answer.terms if term.name != "kv_cache")
        return (answer.per_gpu.budget_bytes - held) / GIB

    return left


def vllm(
    weights: float = 14.99, pool: float = 40.0, args: str = "", config: str = "", more: str = ""
) -> str:
    """Return a log as vLLM 0.19 prints it."""
    return f"""\
INFO 04-19 11:04:53 [utils.py:233] non-default args: {{'model': '{LLAMA}'{args}}}
INFO 04-19 11:05:16 [core.py:107] Initializing a V1 LLM engine (v0.19.0) with config:\
 model='{LLAMA}', max_seq_len=8192{config}
INFO 04-19 11:05:50 [gpu_model_runner.py:4837] Model loading took\
 {weights} GiB memory and 27.6 seconds
INFO 04-19 11:07:19 [gpu_worker.py:436] Available KV cache memory: {pool} GiB
{more}
"""


def row(answer: LogAnswer, name: str):
    return next(row for row in answer.rows if row.name == name)


def test_a_measurement_is_set_beside_the_estimate(explain):
    answer = explain(vllm(), gpu="H100")
    weights = row(answer, "weights")
    assert weights.measured == round(14.99 * GIB)
    assert weights.difference == weights.measured - weights.estimated
    assert weights.lines == [3]
    assert weights.within is True
    assert answer.engine_version == "0.19.0"
    assert answer.understood_as["context_length"] == 8192


def test_a_printed_number_counts_to_its_last_digit(explain):
    """14.99 GiB stands for anything from 14.985: Llama 3.1 8B's 14.9889 with its rotary table."""
    estimated = row(explain(vllm(), gpu="H100"), "weights").estimated
    assert estimated != round(14.99 * GIB)
    assert row(explain(vllm(weights=14.9), gpu="H100"), "weights").within is False


def test_the_pool_is_what_the_budget_leaves(explain, pool):
    share = "'gpu_memory_utilization': 0.8"
    estimated = row(explain(vllm(args=f", {share}"), gpu="H100"), "kv_cache").estimated / GIB
    assert estimated == pytest.approx(
        pool(engine_version="0.19.0", context_length=8192, gpu_memory_utilization=0.8)
    )


def test_tokens_are_judged_twice_from_the_question_and_from_the_measured_pool(explain):
    bytes_per_token = 128 * 1024
    tokens = int(40 * GIB / bytes_per_token) // 16 * 16
    answer = explain(
        vllm(
            more=(
                f"INFO 04-19 11:07:19 [kv_cache_utils.py:1319] GPU KV cache size: {tokens:,} tokens"
            )
        ),
        gpu="H100",
    )
    assert row(answer, "kv_tokens_of_pool").within is True
    assert row(answer, "kv_tokens").within is False
    assert row(answer, "kv_tokens").unit == "tokens"


def test_a_draft_model_is_named_as_the_cause(explain):
    answer = explain(
        vllm(weights=15.49, config=", speculative_config=SpeculativeConfig(method='eagle')"),
        gpu="H100",
    )
    assert answer.largest_difference == "weights"
    assert answer.causes[0].startswith("weights 0.50 GiB more: a draft model is loaded")
    assert "weights differs most" in answer.summary


def test_lora_slots_are_named_as_the_cause(explain):
    assert (
        "LoRA" in explain(vllm(weights=15.49, args=", 'enable_lora': True"), gpu="H100").causes[0]
    )


def test_another_number_format_is_named_as_the_cause(explain):
    assert "another number format" in explain(vllm(weights=5.2), gpu="H100").causes[0]


def test_a_share_that_the_log_does_not_show_is_worked_out(explain, pool):
    """The terms of this run add up to 0.7 of the card, where 0.9 was taken."""
    left = pool(engine_version="0.19.0", context_length=8192, gpu_memory_utilization=0.7)
    answer = explain(vllm(pool=round(left, 2)), gpu="H100")
    assert answer.largest_difference == "kv_cache"
    assert any("add up to 0.70 of the GPU" in cause for cause in answer.causes)


def test_the_memory_of_others_is_named(explain):
    more = (
        "INFO [gpu_worker.py:298] Free memory on device (70.0/79.19 GiB) on startup. Desired GPU"
        " memory utilization is (0.8, 63.35 GiB). Actual usage is 14.99 GiB for weight, 2.0 GiB for"
        " peak activation, 0.2 GiB for non-torch memory, and 0.9 GiB for CUDAGraph memory."
    )
    answer = explain(vllm(more=more), gpu="H100")
    assert any("9.19 GiB were in use before the engine started" in cause for cause in answer.causes)
    assert answer.understood_as["gpu_memory_utilization"] == 0.8


def test_what_eager_mode_leaves_out_is_named(explain):
    assert any(
        "enforce_eager" in cause
        for cause in explain(vllm(config=", enforce_eager=True", pool=50.0), gpu="H100").causes
    )


def test_a_pool_made_up_by_other_terms_needs_no_cause_of_its_own(explain, pool):
    share = {"engine_version": "0.19.0", "context_length": 8192, "gpu_memory_utilization": 0.8}
    left = round(pool(**share) - 1, 2)
    answer = explain(
        vllm(weights=15.99, pool=left, args=", 'gpu_memory_utilization': 0.8"), gpu="H100"
    )
    assert any("weights +1.00 GiB leave as much less" in cause for cause in answer.causes)


def test_the_callers_word_goes_before_the_logs(explain):
    answer = explain(vllm(), gpu="H100", model="Qwen/Qwen2.5-7B-Instruct", gpu_count=2)
    assert answer.model.id == "Qwen/Qwen2.5-7B-Instruct"
    assert answer.gpu.count == 2


def test_degrees_of_the_log_make_the_gpus(explain):
    assert explain(vllm(weights=3.8, config=", tensor_parallel_size=4"), gpu="H100").gpu.count == 4


def test_a_gpu_that_is_not_named_is_taken_by_its_size(explain):
    more = (
        "INFO [worker.py:241] the current vLLM instance can use total_gpu_memory (79.19GiB) x"
        " gpu_memory_utilization (0.90) = 71.27GiB"
    )
    answer = explain(vllm(more=more))
    assert answer.gpu.name == "79.19 GiB GPU"
    assert ("log-without-gpu", "gpu") in codes(answer.warnings)


@pytest.mark.parametrize(
    ("log", "fields", "field"),
    [
        ("hello", {}, "log"),
        ("\x00", {}, "log"),
        (vllm(), {}, "gpu"),
        (vllm().replace(LLAMA, "/home/anna/llama"), {"gpu": "H100"}, "model"),
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB",
            {"model": LLAMA, "gpu": "L4", "engine": "abacus"},
            "engine",
        ),
        (vllm(), {"gpu": "H100", "model": "acme"}, None),
    ],
)
def test_what_is_missing_is_said_with_the_field_to_send(explain, log, fields, field):
    with pytest.raises(FitgaugeError) as raised:
        explain(log, **fields)
    assert raised.value.hint
    if field:
        assert isinstance(raised.value, InvalidRequestError)
        assert raised.value.field == field


LLAMA_CPP = (
    "print_info: general.name     = {name}\nprint_info: file type   = Q4_K - Medium\n"
    "load_tensors: offloaded 29/29 layers to GPU\n"
    "load_tensors:        CUDA0 model buffer size =  4168.09 MiB"
)


def test_the_name_in_a_file_is_told_to_its_owner(explain):
    with pytest.raises(InvalidRequestError, match=r"only 'Our Own 7B Instruct'"):
        explain(LLAMA_CPP.format(name="Our Own 7B Instruct"), gpu="RTX 3060")


def test_layers_on_the_host_are_those_that_the_log_says(explain):
    """llama.cpp b9849 on a laptop: 18 of Qwen3.5 9B's layers and output on the card, in a file of
    5.5 GiB: 3123.80 MiB there, 2555.45 in host memory with the embeddings."""
    log = (
        "print_info: file type   = Q4_K - Medium\nload_tensors: offloaded 18/33 layers to GPU\n"
        "load_tensors:      Vulkan0 model buffer size =  3123.80 MiB\n"
        "load_tensors:   CPU_Mapped model buffer size =  2555.45 MiB\n"
        "llama_kv_cache:    Vulkan0 KV buffer size =   160.00 MiB\n"
        "llama_context: n_ctx = 8192\n"
    )
    answer = explain(log, gpu="RTX 3060 Laptop", model="Qwen/Qwen3.5-9B")
    assert answer.understood_as["n_gpu_layers"] == 18
    assert row(answer, "kv_cache").within
    assert row(answer, "weights").estimated == pytest.approx(3123.80 * 1024**2, rel=0.07)


def test_a_file_without_an_id_is_read_by_its_own_name_and_format(explain):
    answer = explain(LLAMA_CPP.format(name="Qwen2.5 7B Instruct"), gpu="RTX 3060")
    assert answer.understood_as["model"] == "Qwen/Qwen2.5-7B-Instruct"
    assert answer.understood_as["quantization"].lower() == "q4_k_m"
    assert row(answer, "weights").within
    assert "n_gpu_layers" not in answer.understood_as  # all of them
    assert answer.case.question["model"] == "Qwen/Qwen2.5-7B-Instruct"
    published = explain(
        LLAMA_CPP.format(name="x"), gpu="RTX 3060", model="Qwen/Qwen2.5-7B-Instruct"
    )
    assert published.understood_as["quantization"].lower() == "q4_k_m"


def test_weights_of_a_gguf_file_that_differ_are_of_another_type(explain):
    log = LLAMA_CPP.format(name="Qwen2.5 7B Instruct").replace("4168.09", "5168.09")
    answer = explain(log, gpu="RTX 3060")
    assert any("a file of another type" in cause for cause in answer.causes)


def test_a_log_without_a_release_says_so_where_activations_differ(explain):
    buffer = "\nsched_reserve:      CUDA0 compute buffer size =   900.00 MiB"
    answer = explain(LLAMA_CPP.format(name="Qwen2.5 7B Instruct") + buffer, gpu="RTX 3060")
    assert any("names no release" in cause for cause in answer.causes)


def test_a_peak_that_holds_the_graphs_is_compared_with_both(explain):
    more = (
        "INFO [gpu_worker.py:855] Free memory on device (78.0/79.19 GiB) on startup. Desired GPU"
        " memory utilization is (0.92, 72.85 GiB). Actual usage is 15.2 GiB for consumed memory"
        " (weights + non-torch), 4.19 GiB for peak activation, and 0.25 GiB for CUDAGraph memory."
    )
    answer = explain(vllm(more=more).replace("0.19.0", "0.31.0"), gpu="H100")
    both, graphs = row(answer, "activations_and_graphs"), row(answer, "cuda_graphs")
    assert both.estimated > graphs.estimated
    assert "activations" not in answer.case.scores
    assert answer.case.settings["graphs_in_activation"] is True


def test_flags_that_cannot_be_are_left_out_and_said(explain):
    answer = explain(
        vllm(config=", tensor_parallel_size=999999, kv_cache_dtype=turbo9"), gpu="H100"
    )
    ignored = {("flag-ignored", "tensor_parallel"), ("flag-ignored", "kv_cache_dtype")}
    assert ignored <= codes(answer.warnings)


def test_an_old_version_is_sized_as_the_oldest_known(explain):
    answer = explain(vllm().replace("v0.19.0", "v0.3.1"), gpu="H100")
    assert answer.engine_version == "0.3.1"
    assert ("engine-version-unknown", "engine_version") in codes(answer.warnings)


def test_running_out_of_memory_gives_a_lower_bound(explain):
    text = (DATA / "torch_oom_old.log").read_text()
    answer = explain(text, model="Qwen/Qwen2.5-7B-Instruct")
    needed = row(answer, "required_by_pytorch")
    assert needed.measured_is == "at_least"
    assert needed.measured == pytest.approx(11.75 * GIB + 258 * 2**20, abs=2)
    assert answer.outcome == "oom"


def test_every_posted_log_is_answered(explain):
    """Whatever the log names or not: with a model and a card every one has a ledger and a case."""
    for path in sorted(DATA.glob("*.log")):
        answer = explain(path.read_text(), model=LLAMA, gpu="H100", detail="full")
        assert answer.summary
        assert answer.case.id.startswith("local-")
        assert len(answer.readings) >= sum(
            row.name != "kv_tokens_of_pool" for row in answer.rows
        ), path.name


SECRETS = ("anna", "/home", "10.1.2.3", "hf_abcdefgh", "gpu-box-7", "Tell me", "sk-12345")


def test_a_case_names_no_machine_no_path_and_no_person(explain):
    log = (
        vllm(
            args=(
                ", 'served_model_name': ['anna'], 'api_key': 'sk-12345', 'download_dir':"
                " '/home/anna', 'quantization': '/home/anna/q'"
            )
        )
        + "Jan 1 gpu-box-7 10.1.2.3 HF_TOKEN=hf_abcdefgh prompt: 'Tell me'"
    )
    case = msgspec.json.encode(explain(log, gpu="H100").case).decode()
    assert not [secret for secret in SECRETS if secret in case]
    private = explain(log.replace(LLAMA, "/home/anna/llama"), gpu="H100", model=LLAMA)
    assert private.case.question["model"] == LLAMA


@settings(max_examples=40, deadline=None)
@given(
    st.text(
        alphabet=st.characters(
            min_codepoint=33, max_codepoint=126, exclude_characters="'\",(){}[]="
        ),
        min_size=25,
        max_size=60,
    )
)
def test_no_long_word_of_a_log_reaches_its_case(questions, secret):
    log = vllm(
        args=f", 'quantization': '{secret}', 'dtype': '{secret}'",
        config=f", kv_cache_dtype={secret}, dtype={secret}",
        more=secret,
    )
    answer = asyncio.run(questions.explain_log(ExplainLogRequest(log=log, gpu="H100")))
    assert secret not in msgspec.json.encode(answer.case).decode()


def test_a_case_is_a_line_of_the_truth_file(explain):
    case = explain(
        vllm(args=", 'gpu_memory_utilization': 0.9", config=", dtype=torch.bfloat16"),
        gpu="h100 80gb",
    ).case
    assert case.question["model"] == LLAMA
    assert case.question["gpu"].startswith("H100")
    assert case.question["engine_version"] == "0.19.0"
    assert case.measured == {"weights_gib": 14.99, "kv_gib": 40.0}
    assert case.settings == {"dtype": "bfloat16"}
    assert case.scores == ["weights"]


def test_the_truth_set_reads_a_case(explain):
    """`make accuracy` takes a file of cases in: every one is a run of tools/accuracy."""
    for path in sorted(DATA.glob("*.log")):
        case = explain(path.read_text(), model=LLAMA, gpu="H100").case
        run = msgspec.json.decode(msgspec.json.encode(case), type=Run)
        assert run.part in ("fit", "check")
        assert run.request.model == LLAMA
        assert run.version is None or run.version


def test_a_run_of_another_model_is_scored_for_nothing(explain):
    assert explain(vllm(weights=5.2), gpu="H100").case.scores == []
    assert explain(vllm(weights=14.0), gpu="H100").case.scores == ["weights"]


def test_the_same_run_is_the_same_case(explain):
    assert explain(vllm(), gpu="H100").case == explain("noise\n" + vllm(), gpu="H100").case
    assert explain(vllm(pool=41.0), gpu="H100").case.id != explain(vllm(), gpu="H100").case.id


def test_a_build_is_told_beside_its_release(explain):
    case = explain(vllm().replace("v0.19.0", "v0.19.2rc1.dev8+g4b7f5ea1a"), gpu="H100").case
    assert case.question["engine_version"] == "0.19.2"
    assert case.build == "0.19.2rc1.dev8+g4b7f5ea1a"
