"""SGLang starts with a pool smaller than one request: the verdict is the workload's, and a
warning says that it starts."""

from notes import codes

QUESTION = {
    "model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "context_length": 40960, "concurrency": 8,
    "settings": "defaults",
}  # fmt: skip


def test_sglang_starts_with_less_cache_than_the_workload_takes(check_fit):
    answer = check_fit(**QUESTION, engine="sglang")
    assert answer.verdict == "does_not_fit"
    assert answer.limits.kv_cache_tokens > 0
    assert ("starts-with-less", "context_length") in codes(answer.warnings)


def test_an_engine_that_refuses_to_start_is_not_said_to(check_fit):
    answer = check_fit(**QUESTION, engine="vllm")
    assert answer.verdict == "does_not_fit"
    assert ("starts-with-less", "context_length") not in codes(answer.warnings)


def test_what_fits_needs_no_such_warning(check_fit):
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="H100", engine="sglang")
    assert answer.verdict == "fits"
    assert ("starts-with-less", "context_length") not in codes(answer.warnings)


def test_weights_that_do_not_fit_do_not_start(check_fit):
    answer = check_fit(model="Qwen/Qwen3-32B", gpu="RTX 4090", engine="sglang")
    assert ("starts-with-less", "context_length") not in codes(answer.warnings)
