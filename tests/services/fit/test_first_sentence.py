"""What the summary of an answer says, and what it advises first."""

from collections.abc import Callable

from fitgauge.services.common.fit_schemas import FitAnswer

Check = Callable[..., FitAnswer]


def test_a_pool_that_was_given_too_small_is_what_the_summary_names(check_fit: Check) -> None:
    assert (
        "The requested KV cache of 0.10 GiB is too small"
        in check_fit(
            model="meta-llama/Llama-3.1-8B-Instruct", gpu="H100", kv_cache_memory_gib=0.1
        ).summary
    )


def test_the_first_sentence_says_how_fast_host_memory_is(check_fit: Check) -> None:
    answer = check_fit(model="openai/gpt-oss-120b", gpu="RTX 4090")
    first = answer.suggestions[0]
    change, _, speed = first.change.partition(": ")
    assert f"to fit, {change}, {speed}, or take 4 GPUs. As asked" in answer.summary


def test_fewer_gpus_with_weights_in_fewer_bits_come_before_many(check_fit: Check) -> None:
    """A 70B model on RTX 4090: two with four bits, not seven as published."""
    asked = {"model": "meta-llama/Llama-3.3-70B-Instruct", "gpu": "RTX 4090", "settings": "auto"}
    answer = check_fit(**asked)
    few, many = (
        one.request
        for one in answer.suggestions
        if "gpu_count" in one.request and "gpu" not in one.request
    )
    assert few == {"model": "casperhansen/llama-3.3-70b-instruct-awq", "gpu_count": 2}
    assert many == {"gpu_count": 7}
    assert "; to fit, take 2 GPUs, with casperhansen/llama-3.3-70b-instruct-awq." in answer.summary


def test_the_summary_ends_with_a_smaller_model_where_only_more_gpus_help(check_fit: Check) -> None:
    answer = check_fit(model="google/gemma-3-27b-it", gpu="RTX 3060", settings="auto")
    assert "; to fit, take 4 GPUs, with fp8 weights. " in answer.summary
    assert " Or use google/gemma-3-12b-it in q4_k_m with llama.cpp, a smaller" in answer.summary
    by_host = check_fit(model="openai/gpt-oss-120b", gpu="RTX 4090", settings="auto")
    assert " Or " not in by_host.summary


def test_a_format_that_is_assumed_is_in_the_first_sentence(check_fit: Check) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4060", "engine": "llama.cpp"}
    assert check_fit(**asked).summary.startswith("Qwen/Qwen3-8B in Q4_K_M fits on one RTX 4060: ")
    named = check_fit(**asked, quantization="q4_k_m").summary
    assert named.startswith("Qwen/Qwen3-8B fits on one RTX 4060: ")


def test_the_first_sentence_says_what_to_do_where_it_does_not_fit_as_asked(
    check_fit: Check,
) -> None:
    answer = check_fit(model="google/gemma-4-31B-it", gpu="RTX 5090")
    step = answer.suggestions[0]
    first, second, *_ = answer.summary.split(". ")
    assert first == (f"google/gemma-4-31B-it does not fit on one RTX 5090; to fit, {step.change}")
    assert second.startswith("As asked, 1 request of 8,192 tokens needs ")


def test_what_is_tight_is_told_with_what_makes_it_sure(check_fit: Check) -> None:
    answer = check_fit(model="openai/gpt-oss-20b", gpu="RTX 4070 Ti SUPER", settings="auto")
    assert answer.verdict == "tight"
    assert answer.summary.endswith(f" To be sure, {answer.suggestions[0].change}.")


def test_where_nothing_here_does_all_the_first_sentence_says_what_more_or_less_does(
    check_fit: Check,
) -> None:
    asked = "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"
    answer = check_fit(
        model=asked, gpu="3090", quantization="awq", context_length=32768, settings="auto"
    )
    more, less = (
        next(one.change for one in answer.suggestions if name in one.request)
        for name in ("gpu_count", "context_length")
    )
    assert answer.summary.startswith(
        f"{asked} does not fit on one RTX 3090; to fit, {more}, or {less}. As asked, "
    )


def test_what_needs_other_settings_too_is_not_in_the_first_sentence(check_fit: Check) -> None:
    answer = check_fit(model="Qwen/Qwen3-32B", gpu="RTX 4090", concurrency=16)
    first, *_ = answer.summary.split(". ")
    few = "take 4 GPUs, with Qwen/Qwen3-32B-FP8"
    assert first == f"Qwen/Qwen3-32B does not fit on one RTX 4090; to fit, {few}"
    less = next(one for one in answer.suggestions if "concurrency" in one.request)
    assert less.change.count(", ") > 1
