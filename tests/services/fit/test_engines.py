"""What every engine's answer must hold to, asked as callers ask."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from fitgauge.engine.quantity import GIB, MIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.fit_schemas import FitAnswer
from notes import codes

Check = Callable[..., FitAnswer]


@pytest.mark.parametrize("engine", ENGINES)
def test_terms_add_up_and_a_larger_card_holds_no_less(check_fit: Check, engine: EngineName) -> None:
    is_apples = set(ENGINES[engine].platforms) == {"apple"}
    cards = ("M2 16GB", "M2 Max 64GB") if is_apples else ("RTX 4090", "H100 80GB")
    asked: dict[str, Any] = {
        "model": "Qwen/Qwen3-8B",
        "engine": engine,
        "context_length": 4096,
        "detail": "full",
    }
    if engine in ("llama.cpp", "ollama"):
        asked["quantization"] = "q4_k_m"
    answers = [check_fit(gpu=card, **asked) for card in cards]
    for answer in answers:
        assert answer.verdict in ("fits", "tight", "does_not_fit")
        assert sum(term.bytes for term in answer.terms) == pytest.approx(
            answer.per_gpu.required_bytes.expected, abs=2
        )
        assert all(
            term.low <= term.bytes <= term.high and term.formula and term.source
            for term in answer.terms
        )
    assert answers[0].limits.kv_cache_tokens <= answers[1].limits.kv_cache_tokens  # type: ignore[operator]
    for answer in answers:
        assert (answer.launch is None) == (answer.verdict == "does_not_fit")


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "tgi"])
def test_a_pool_given_outright_decides_alone(check_fit: Check, engine: str) -> None:
    """10 GiB of Qwen3-8B's cache at 147456 bytes a token."""
    answer = check_fit(
        model="Qwen/Qwen3-8B",
        gpu="H100 80GB",
        engine=engine,
        context_length=4096,
        kv_cache_memory_gib=10.0,
    )
    assert answer.limits.kv_cache_tokens == pytest.approx(10 * GIB / 147_456, abs=32)


def test_mlx_sizes_a_4_bit_model_as_it_was_posted(check_fit: Check) -> None:
    """Qwen3-4B 4-bit, 2048 + 128 tokens on an M3 Pro: peak 3.30 x 10^9 bytes."""
    answer = check_fit(
        model="Qwen/Qwen3-4B-Instruct-2507",
        gpu="M3 Pro 18GB",
        engine="mlx",
        quantization="int4",
        context_length=2176,
    )
    required = answer.per_gpu.required_bytes
    assert required.low <= 3.30e9 <= required.high
    assert required.expected == pytest.approx(3.30e9, rel=0.06)


def test_host_memory_takes_what_does_not_fit(check_fit: Check) -> None:
    """A 30B mixture in 4 bit on a 12 GB card: not whole, but with the experts of its first
    layers on the host."""
    asked = {
        "model": "Qwen/Qwen3-30B-A3B",
        "gpu": "RTX 3060 12GB",
        "engine": "llama.cpp",
        "quantization": "q4_k_m",
        "context_length": 8192,
    }
    assert check_fit(**asked).verdict == "does_not_fit"
    assert check_fit(**asked, cpu_offload_gib=9.0).verdict == "fits"


def test_what_does_not_fit_whole_is_offered_with_weights_on_the_host(check_fit: Check) -> None:
    asked = {
        "model": "Qwen/Qwen3-30B-A3B",
        "gpu": "RTX 3060 12GB",
        "engine": "llama.cpp",
        "quantization": "q4_k_m",
        "context_length": 8192,
    }
    answer = check_fit(**asked)
    offered = [one for one in answer.suggestions if "cpu_offload_gib" in one.request]
    assert offered
    again = check_fit(**asked, **offered[0].request)
    assert "-ngl all --n-cpu-moe" in again.launch.command
    assert offered[0].launch == again.launch
    assert offered[0].host_memory == again.host_memory
    assert again.host_memory.total_bytes >= answer.per_gpu.required_bytes.expected - (
        again.per_gpu.required_bytes.expected
    )
    assert answer.launch is None
    assert answer.host_memory is None


HYBRID = {"model": "Qwen/Qwen3.5-9B", "quantization": "q4_k_m", "language_model_only": True}


@pytest.mark.parametrize(
    ("fields", "posted"),
    [
        # llama.cpp b9849, 18 of 33 layers on the card: KV 160.00, RS 100.50, compute 498.00
        (
            {"gpu": "RTX 3060 Laptop", "max_batched_tokens": 2048, "n_gpu_layers": 18, **HYBRID},
            {"kv_cache": 160.0, "state_cache": 100.5, "activations": 498.0},
        ),
        ({"gpu": "RTX 3060 Laptop", "n_gpu_layers": 0, **HYBRID}, {"weights": 0, "kv_cache": 0}),
    ],
)
def test_layers_that_are_stated_are_those_that_llamacpp_keeps(check_fit: Check, fields, posted):
    """Weights of host memory and of the GPU are together those of the whole model."""
    asked = {"engine": "llama.cpp", "context_length": 8192, "detail": "full"}
    answer = check_fit(**asked, **fields)
    terms = {term.name: term.bytes / MIB for term in answer.terms}
    assert {name: terms[name] for name in posted} == pytest.approx(posted, rel=0.01)
    whole = check_fit(**asked, **{**fields, "n_gpu_layers": 999})
    of_both = answer.host_memory.total_bytes + sum(answer_bytes(answer))
    assert of_both == sum(answer_bytes(whole))
    assert str(fields["n_gpu_layers"]) in answer.launch.command


def answer_bytes(answer: FitAnswer) -> list[int]:
    held = ("weights", "kv_cache", "state_cache")
    return [term.bytes for term in answer.terms if term.name in held]


def test_experts_in_host_memory_leave_the_layers_divided_as_they_were(check_fit: Check) -> None:
    """llama.cpp build 5622, all experts of Qwen3-30B-A3B Q4_K_M on the CPU: 135.76 + 648.66 MiB on
    two cards."""
    asked = {"model": "Qwen/Qwen3-30B-A3B", "quantization": "q4_k_m", "engine": "llama.cpp"}
    answer = check_fit(**asked, gpu="2x RTX 4090", n_cpu_moe=999, detail="full")
    sizes = [
        term.bytes / MIB for stage in answer.ranks for term in stage.terms if term.name == "weights"
    ]
    assert sum(sizes) == pytest.approx(135.76 + 648.66, abs=0.01)
    assert "--n-cpu-moe 48" in answer.launch.command
    assert "--tensor-split" not in answer.launch.command


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"model": "Qwen/Qwen3-32B", "gpu": "RTX 3060 12GB", "n_gpu_layers": 60}, "n_gpu_layers"),
        ({"model": "Qwen/Qwen3-235B-A22B", "gpu": "RTX 4090", "n_cpu_moe": 20}, "n_cpu_moe"),
    ],
)
def test_where_stated_layers_do_not_fit_other_numbers_are_offered(check_fit, fields, sent):
    asked = {"engine": "llama.cpp", "quantization": "q4_k_m", "context_length": 8192}
    answer = check_fit(**asked, **fields)
    assert answer.verdict == "does_not_fit"
    assert answer.suggestions[0].request.keys() == {sent}
    assert check_fit(**asked, **fields | answer.suggestions[0].request).verdict == "fits"


def test_engines_without_such_layers_ignore_them(check_fit: Check) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "engine": "vllm"}
    answer = check_fit(**asked, n_gpu_layers=10)
    assert answer.per_gpu == check_fit(**asked).per_gpu
    assert any("ignores `n_gpu_layers`" in note.message for note in answer.warnings)


def test_dense_layers_that_stay_on_the_host_are_counted_off_the_gpu(check_fit: Check) -> None:
    """Qwen3-8B in Q4_K_M is some 4.5 GiB in 36 layers and an output: -ngl counts the output as a
    layer."""
    asked = {
        "model": "Qwen/Qwen3-8B",
        "gpu": "RTX 3060 12GB",
        "engine": "llama.cpp",
        "quantization": "q4_k_m",
        "cpu_offload_gib": 2.0,
    }
    words = check_fit(**asked).launch.command.split()
    assert 15 <= int(words[words.index("-ngl") + 1]) <= 25


@pytest.mark.parametrize(
    ("engine", "fields", "flags"),
    [
        (
            "sglang",
            {"gpu_memory_utilization": 0.8, "max_batched_tokens": 4096},
            "--mem-fraction-static 0.8 --chunked-prefill-size 4096",
        ),
        ("sglang", {"kv_cache_dtype": "bf16"}, "--kv-cache-dtype bf16"),
        ("sglang", {"kv_cache_memory_gib": 10.0}, "--max-total-tokens 72817"),
        ("vllm", {"kv_cache_dtype": "bf16"}, "--kv-cache-dtype bfloat16"),
        (
            "tensorrt-llm",
            {"gpu_memory_utilization": 0.8},
            "--kv_cache_free_gpu_memory_fraction 0.8",
        ),
        ("tensorrt-llm", {"enforce_eager": True}, '{"cuda_graph_config":null}'),
        ("tensorrt-llm", {"kv_cache_dtype": "fp8"}, "--extra_llm_api_options trtllm.json"),
        ("tgi", {"max_num_seqs": 16}, "--max-batch-size 16"),
        ("tgi", {"enforce_eager": True}, "--cuda-graphs 0"),
        (
            "llama.cpp",
            {"quantization": "q4_k_m", "kv_cache_dtype": "q8_0"},
            "--cache-type-k q8_0 --cache-type-v q8_0",
        ),
        (
            "ollama",
            {"quantization": "q4_k_m", "kv_cache_dtype": "q8_0"},
            "OLLAMA_KV_CACHE_TYPE=q8_0",
        ),
        (
            "ollama",
            {"quantization": "q4_k_m", "gpu_count": 2, "max_num_seqs": 3},
            "OLLAMA_NUM_PARALLEL=3 OLLAMA_SCHED_SPREAD=1",
        ),
        (
            "tgi",
            {"gpu_memory_utilization": 0.8},
            "--cuda-memory-fraction 0.8 --max-batch-prefill-tokens 4096",
        ),
        (
            "tgi",
            {"enforce_eager": True, "concurrency": 200, "context_length": 1024},
            "--max-concurrent-requests 200 --cuda-graphs 0",
        ),
        (
            "transformers",
            {"tensor_parallel": 2, "gpu_count": 2},
            "torchrun --nproc-per-node 2 --no-python python -c",
        ),
    ],
)
def test_commands_carry_the_settings(
    check_fit: Check, engine: str, fields: dict[str, Any], flags: str
) -> None:
    assert (
        flags
        in check_fit(model="Qwen/Qwen3-8B", gpu="H100 80GB", engine=engine, **fields).launch.command
    )


def test_a_file_of_trtllm_repeats_the_share_that_it_replaces(check_fit: Check) -> None:
    """A kv_cache_config in the file replaces the one made of the flags, free_gpu_memory_fraction
    and all."""
    asked = {
        "model": "Qwen/Qwen3-8B",
        "gpu": "H100",
        "engine": "tensorrt-llm",
        "kv_cache_dtype": "fp8",
        "gpu_memory_utilization": 0.8,
    }
    command = check_fit(**asked).launch.command
    assert command.startswith(
        """echo '{"kv_cache_config":{"dtype":"fp8","free_gpu_memory_fraction":0.8}}'"""
        " > trtllm.json && trtllm-serve "
    )


@pytest.mark.parametrize(
    ("engine", "fields", "code"),
    [
        ("tensorrt-llm", {"data_parallel": 2, "gpu_count": 2}, "command-lacks-flag"),
        ("tensorrt-llm", {"kv_cache_dtype": "bf16"}, "command-lacks-flag"),
        ("ollama", {"cpu_offload_gib": 1.0, "quantization": "q8_0"}, "command-lacks-flag"),
        ("transformers", {"kv_cache_dtype": "fp8"}, "command-lacks-flag"),
        ("mlx", {"context_length": 4096}, "command-lacks-flag"),
        ("llama.cpp", {"kv_cache_memory_gib": 4.0, "quantization": "q8_0"}, "engine-ignores-field"),
    ],
)
def test_what_a_command_cannot_carry_is_said(
    check_fit: Check, engine: str, fields: dict[str, Any], code: str
) -> None:
    answer = check_fit(
        model="Qwen/Qwen3-8B",
        gpu="M2 Max 64GB" if engine == "mlx" else "H100 80GB",
        engine=engine,
        **fields,
    )
    assert (code, next(iter(fields))) in codes(answer.warnings)


def test_tgi_has_no_pipeline_and_leaves_cards_idle_that_heads_do_not_divide(
    check_fit: Check,
) -> None:
    assert (
        check_fit(model="Qwen/Qwen2.5-0.5B", gpu="4xL4", engine="tgi").understood_as[
            "tensor_parallel"
        ]
        == 2
    )
    with pytest.raises(InvalidRequestError, match="no pipeline parallelism"):
        check_fit(model="Qwen/Qwen3-8B", gpu="4xL4", engine="tgi", pipeline_parallel=2)


def test_a_pool_without_room_beside_the_weights_holds_nothing(check_fit: Check) -> None:
    """Qwen3-8B leaves some 6 GiB of a 4090; vLLM logs the tokens of a pool before it takes the
    memory, of one larger than the GPU too: 144 KiB a token."""
    asked: dict[str, Any] = {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "context_length": 8192}
    beside, beyond = (check_fit(**asked, kv_cache_memory_gib=size) for size in (12.0, 40.0))
    for answer in (beside, beyond):
        assert answer.verdict == "does_not_fit"
        assert (answer.limits.max_context_length, answer.limits.max_concurrency) == (0, 0)
        assert answer.suggestions[0].request == {"kv_cache_memory_gib": 1.2}
    assert beside.limits.kv_cache_tokens == 12 * 2**20 // 144 // 16 * 16
    assert beyond.limits.kv_cache_tokens == 40 * 2**20 // 144 // 16 * 16


@pytest.mark.parametrize(
    ("written", "engine"),
    [
        ("TensorRT LLM", "tensorrt-llm"),
        ("trtllm", "tensorrt-llm"),
        ("llama-server", "llama.cpp"),
        ("LLaMA.cpp", "llama.cpp"),
        ("mlx-lm", "mlx"),
    ],
)
def test_engines_are_understood_as_people_write_them(
    check_fit: Check, written: str, engine: str
) -> None:
    answer = check_fit(model="Qwen/Qwen3-0.6B", gpu="24GB", engine=written)
    assert answer.understood_as["engine"] == engine


def test_a_cache_format_of_another_engine_is_refused_with_those_that_exist(
    check_fit: Check,
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_fit(model="Qwen/Qwen3-0.6B", gpu="24GB", engine="llama.cpp", kv_cache_dtype="fp8")
    assert "q8_0" in refused.value.hint


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_stays_on_the_host_may_exceed_what_was_asked_by_one_parameter(
    check_fit: Check, engine: str
) -> None:
    """Parameters move whole until the limit is reached: the largest of Qwen2.5-72B over two
    ranks is half of gate and up, 0.45 GiB."""
    asked = {
        "model": "Qwen/Qwen2.5-72B-Instruct",
        "gpu": "2xA100 80GB",
        "engine": engine,
        "cpu_offload_gib": 30.0,
    }
    weights = next(term for term in check_fit(**asked).terms if term.name == "weights")
    assert weights.bytes == weights.high
    assert (weights.bytes - weights.low) / GIB == pytest.approx(
        2 * 29568 * 8192 * 2 / 2 / GIB, rel=1e-3
    )


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_calibrated_term_names_the_runs_behind_it(check_fit: Check, engine: str) -> None:
    terms = check_fit(model="Qwen/Qwen3-8B", gpu="H100", engine=engine, detail="full").terms
    calibrated = [str(term.source) for term in terms if term.basis == "calibrated"]
    assert calibrated
    assert all(re.search(r"\[\d+ runs?\]$", source) for source in calibrated)


def test_mlx_is_not_assumed_for_a_bare_memory_size(check_fit):
    answer = check_fit(model="meta-llama/Llama-3.2-11B-Vision-Instruct", gpu="24GB")
    assert answer.understood_as["engine"] != "mlx"


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_llama_cpp_divides_a_model_over_16_gpus_at_most(check_fit: Check, engine: str) -> None:
    asked = {"model": "meta-llama/Llama-3.3-70B-Instruct", "gpu": "20x RTX 4090", "engine": engine}
    answer = check_fit(**asked)
    assert answer.understood_as["pipeline_parallel"] == 16
    assert ("gpus-idle", "gpu_count") in codes(answer.warnings)
    with pytest.raises(InvalidRequestError, match="16 GPUs at most"):
        check_fit(**asked, pipeline_parallel=20)


def test_older_llamacpp_holds_logits_on_the_gpu_of_the_output_alone(check_fit: Check) -> None:
    """Of the whole micro-batch: 512 x (vocabulary + hidden) x 4 B, as b7342 prints, beside the
    masks and hidden states that GPUs hand over; masks in 32 bits."""

    def buffers(version: str | None) -> list[int]:
        answer = check_fit(
            model="Qwen/Qwen3-Coder-30B-A3B-Instruct",
            gpu="2x RTX 3090",
            engine="llama.cpp",
            engine_version=version,
            context_length=4096,
            detail="full",
        )
        assert answer.ranks
        return [
            term.bytes for rank in answer.ranks for term in rank.terms if term.name == "activations"
        ]

    older, newer = buffers("b7342"), buffers(None)
    mask, hidden = 512 * 4096 * 2, 512 * 2048 * 4
    logits = 512 * (151936 + 2048) * 4
    assert older == [newer[0] + 3 * mask, logits + 3 * 2 * mask + 8 * hidden]
    assert newer[1] < older[1]
