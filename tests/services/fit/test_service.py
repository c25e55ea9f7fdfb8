"""check_fit: what is understood, what is answered, what is suggested."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundled_models import model_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.service import FitService
from notes import codes, values

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def test_terms_add_up_to_what_is_required(check_fit):
    answer = check_fit(model=LLAMA, gpu="L4")
    assert sum(term.bytes for term in answer.terms) == answer.per_gpu.required_bytes.expected


def test_headroom_is_budget_less_required(check_fit):
    per_gpu = check_fit(model=LLAMA, gpu="L4").per_gpu
    assert per_gpu.headroom_bytes == per_gpu.budget_bytes - per_gpu.required_bytes.expected
    assert per_gpu.budget_bytes == int(per_gpu.usable_bytes * 0.92)


def test_a_context_left_out_is_8192_or_the_models_maximum_and_said(check_fit):
    answer = check_fit(model=LLAMA, gpu="H100")
    assert answer.understood_as["context_length"] == 8192
    assert values(answer.assumed) == {"engine": "vllm", "context_length": 8192, "concurrency": 1}
    assert (
        check_fit(model=LLAMA, gpu="H100", engine="vllm", concurrency=1, context_length=64).assumed
        == []
    )
    assert check_fit(model="gpt2", gpu="H100").understood_as["context_length"] == 1024


def test_a_context_beyond_the_models_maximum_is_unsupported_and_the_longest_is_offered(check_fit):
    question = {"model": LLAMA, "gpu": "H100", "context_length": 200_000}
    answer = check_fit(**question)
    assert answer.verdict == "unsupported"
    assert "131,072 tokens" in answer.summary
    assert answer.suggestions[0].request["context_length"] == 131_072
    for suggestion in answer.suggestions:
        again = check_fit(**{**question, **suggestion.request})
        assert (again.verdict, again.launch) == (suggestion.verdict, suggestion.launch)


def test_a_model_alike_that_reads_the_context_is_offered(check_fit):
    answer = check_fit(model="Qwen/Qwen3-235B-A22B", gpu="8x H200", context_length=250_000)
    assert answer.verdict == "unsupported"
    assert "Qwen/Qwen3-235B-A22B-Instruct-2507" in [
        suggestion.request.get("model") for suggestion in answer.suggestions
    ]


def test_the_longest_context_surely_fits_and_the_next_block_does_not(check_fit):
    question = {"model": LLAMA, "gpu": "RTX 4090", "concurrency": 2}
    longest = check_fit(**question).limits.max_context_length
    assert check_fit(**question, context_length=longest).verdict == "fits"
    assert check_fit(**question, context_length=longest + 32).verdict == "tight"


def test_the_most_requests_surely_fit_and_one_more_does_not(check_fit):
    question = {"model": LLAMA, "gpu": "RTX 4090"}
    most = check_fit(**question).limits.max_concurrency
    assert check_fit(**question, concurrency=most).verdict == "fits"
    assert check_fit(**question, concurrency=most + 1).verdict == "tight"


def test_every_suggestion_gives_what_it_promises(check_fit):
    question = {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"}
    suggestions = check_fit(**question).suggestions
    assert suggestions
    for suggestion in suggestions:
        again = check_fit(**{**question, **suggestion.request})
        assert (again.verdict, again.per_gpu.required_bytes.expected) == (
            suggestion.verdict,
            suggestion.required_bytes,
        )


def test_the_fewest_gpus_fit(check_fit):
    fewest = check_fit(model="Qwen/Qwen3-32B", gpu="RTX 4090").limits.min_gpu_count
    assert check_fit(model="Qwen/Qwen3-32B", gpu="RTX 4090", gpu_count=fewest).verdict == "fits"


def test_pipeline_stages_are_told_one_by_one_in_full_detail(check_fit):
    answer = check_fit(
        model="Qwen/Qwen3-32B",
        gpu="RTX 4090",
        gpu_count=4,
        tensor_parallel=1,
        pipeline_parallel=4,
        detail="full",
    )
    assert [rank.layers for rank in answer.ranks] == [16, 16, 16, 16]
    assert (
        max(rank.required_bytes.expected for rank in answer.ranks)
        == answer.per_gpu.required_bytes.expected
    )


def test_latents_are_replicated_by_tensor_parallelism_and_not_divided(check_fit):
    def cache(degree):
        answer = check_fit(
            model="deepseek-ai/DeepSeek-V3", gpu="1000GB", gpu_count=degree, tensor_parallel=degree
        )
        return next(term.bytes for term in answer.terms if term.name == "kv_cache")

    assert cache(1) == cache(8)


def test_an_encoder_keeps_no_cache_and_has_no_limit_of_requests(check_fit):
    answer = check_fit(model="BAAI/bge-m3", gpu="T4")
    assert answer.limits.max_concurrency is None
    assert next(term.bytes for term in answer.terms if term.name == "kv_cache") == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tensor_parallel": 3}, "1, 2, 4, 8, 16, 32"),
        ({"tensor_parallel": 2, "gpu_count": 1}, "gpu_count 2"),
        ({"pipeline_parallel": 64, "gpu_count": 64}, "at most 32"),
        ({"expert_parallel": 3}, "1 (off)"),
        ({"engine": "sglong"}, "vllm"),
        ({"engine_version": "newest"}, "0.33.0"),
        ({"kv_cache_dtype": "int3"}, "fp8"),
        ({"quantization": "q99"}, "awq"),
    ],
)
def test_what_is_impossible_is_refused_with_what_to_send(check_fit, fields, said):
    with pytest.raises(InvalidRequestError) as refused:
        check_fit(model=LLAMA, gpu="H100", **fields)
    assert said in f"{refused.value.hint} {refused.value.detail}"


@pytest.mark.parametrize(
    "text", ["llama 3.1 8b", "Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3.1-8B-Instruct"]
)
def test_forgiving_names_mean_one_model(check_fit, text):
    assert check_fit(model=text, gpu="H100").model.id == LLAMA


def test_an_answer_without_the_hub_says_so(check_fit):
    answer = check_fit(model=LLAMA, gpu="H100")
    assert answer.model.source == "snapshot"
    assert ("answered-from-snapshot", "model") in codes(answer.warnings)


def test_a_size_says_whose_shape_it_has(check_fit):
    answer = check_fit(model="13b", gpu="80GB")
    assert answer.model.source == "size"
    assert answer.model.parameters == 13_000_000_000
    (shape,) = [assumption for assumption in answer.assumed if assumption.field == "model"]
    assert shape.value == "13b"
    assert "Llama-2-13b" in shape.message


def test_the_launch_command_carries_the_settings(check_fit):
    command = check_fit(
        model="Qwen/Qwen3-32B", gpu="4x4090", kv_cache_dtype="fp8", context_length=16384
    ).launch.command
    assert (
        command == "vllm serve Qwen/Qwen3-32B --max-model-len 16384 --tensor-parallel-size 4"
        " --kv-cache-dtype fp8"
    )


@settings(max_examples=60, deadline=None)
@given(
    context=st.integers(1, 28672),
    concurrency=st.integers(1, 64),
    count=st.sampled_from([1, 2, 4, 8]),
    engine=st.sampled_from(["vllm", "transformers"]),
)
def test_more_asked_for_never_needs_less(context, concurrency, count, engine):
    service, model = FitService(load_engines()), model_of("mistralai/Mistral-7B-v0.1")
    question = {"model": model.id, "gpu": "H100", "engine": engine, "settings": "defaults"}
    match = bundled().find(f"{count}x H100")

    def required(context_length, concurrency):
        sent = FitRequest(**question, context_length=context_length, concurrency=concurrency)
        return service.check(sent, model, match).required

    needed = required(context, concurrency)
    assert needed <= required(context + 4096, concurrency)
    assert needed <= required(context, concurrency + 1)


def test_answers_encode_to_json_without_loss(check_fit):
    answer = check_fit(model=LLAMA, gpu="H100", detail="full")
    assert msgspec.json.decode(msgspec.json.encode(answer), type=type(answer)) == answer


def test_a_request_knows_no_other_fields():
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"model": "a", "gpu": "b", "gpus": 3}, FitRequest)


@pytest.mark.parametrize(
    "fields, degrees",
    [
        ({"tensor_parallel": 1}, (1, 1, 8, 8)),
        ({"tensor_parallel": 4}, (4, 1, 2, 8)),
        ({"tensor_parallel": 1, "pipeline_parallel": 8}, (1, 8, 1, 1)),
        ({"tensor_parallel": 8, "gpu_count": 16}, (8, 2, 1, 1)),
        ({"tensor_parallel": 1, "engine": "sglang"}, (1, 8, 1, 1)),
        ({"tensor_parallel": 1, "model": "Qwen/Qwen3-32B"}, (1, 8, 1, 1)),
    ],
)
def test_gpus_beside_a_narrow_tensor_degree_repeat_the_attention_of_a_mixture(
    check_fit, fields, degrees
):
    asked = {"model": "Qwen/Qwen3-235B-A22B", "gpu": "H200", "gpu_count": 8, **fields}
    understood = check_fit(**asked, settings="defaults").understood_as
    names = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
    assert tuple(understood[name] for name in names) == degrees
