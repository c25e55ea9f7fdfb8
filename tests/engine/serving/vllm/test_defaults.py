"""What vLLM takes where a flag is left out, by card and release, and what it knows no more."""

import pytest
from msgspec import structs

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.model.families import read_config
from fitgauge.engine.serving.vllm.defaults import default_batch, removed
from fitgauge.engine.serving.vllm.launch import needs_leave
from fitgauge.engine.serving.vllm.support import refusal
from workloads import workload_of


@pytest.mark.parametrize(
    "gpu, version, batch",
    [
        ("H100 SXM", (0, 33), (1024, 8192)),
        ("A100 80GB", (0, 33), (256, 2048)),
        ("A100 80GB", (0, 8), (1024, 8192)),
        ("B200", (0, 33), (1024, 16384)),
        ("B200", (0, 25), (1024, 8192)),
        ("L4", (0, 33), (256, 2048)),
        ("DGX Spark", (0, 33), (256, 2048)),
        ("DGX Spark", (0, 25), (256, 2048)),
        ("H100 SXM", (0, 6), (256, 16384)),
        ("V100 32GB", (0, 8, 5), (256, 16384)),
        ("V100 32GB", (0, 11), (256, 2048)),
    ],
)
def test_batches_follow_the_card_and_the_release(
    gpu: str, version: tuple[int, ...], batch: tuple[int, int]
) -> None:
    assert (
        default_batch(bundled().find(gpu).accelerator, 16384, version, spec_of("Qwen/Qwen3-8B"))
        == batch
    )


@pytest.mark.parametrize(
    "gpu, version, name, tokens",
    [
        ("L4", (0, 33), "google/gemma-4-31B-it", 2496),
        ("L4", (0, 22), "google/gemma-4-31B-it", 2496),
        ("L4", (0, 19, 1), "google/gemma-4-31B-it", 2048),
        ("H100 SXM", (0, 33), "google/gemma-4-31B-it", 8192),
        ("L4", (0, 33), "google/gemma-4-E2B-it", 2048),
        ("L4", (0, 33), "google/gemma-3-27b-it", 2048),
    ],
)
def test_a_batch_holds_the_largest_video_of_a_model_that_attends_to_all_of_it(
    gpu: str, version: tuple[int, ...], name: str, tokens: int
) -> None:
    """32 frames of 70 + 8 tokens; log w050 of the truth shows 2,496."""
    accelerator = bundled().find(gpu).accelerator
    assert default_batch(accelerator, 16384, version, spec_of(name))[1] == tokens


@pytest.mark.parametrize(
    "name, context, tokens",
    [
        ("Qwen/Qwen3-8B", 65536, 2048),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 65536, 65536),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 4096, 5120),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 65536, 65536),
    ],
)
def test_the_first_engine_cuts_prompts_beyond_32768_tokens_but_those_of_images_and_latent_attention(
    name: str, context: int, tokens: int
) -> None:
    assert default_batch(bundled().find("L4").accelerator, context, (0, 6), spec_of(name)) == (
        256,
        tokens,
    )


def test_a_removed_model_names_its_last_release() -> None:
    spec = spec_of("meta-llama/Llama-3.2-11B-Vision-Instruct")
    refused = removed(spec, (0, 33))
    assert refused is not None
    assert refused.alternatives[0] == {"engine_version": ("0.10.2",)}
    assert removed(spec, (0, 10, 1)) is None
    assert removed(spec, (0, 6, 3)) is None


def test_a_removed_model_that_transformers_code_runs_is_served() -> None:
    """dots.llm1: vLLM 0.33's own code answers with TransformersMoEForCausalLM."""
    config = {"model_type": "dots1", "architectures": ["Dots1ForCausalLM"], "n_routed_experts": 8}
    spec = read_config(config)
    assert removed(spec, (0, 33)) is None
    assert removed(spec, (0, 30)) is not None


@pytest.mark.parametrize(
    "name, version, tokens, refused",
    [
        ("google/gemma-4-31B-it", (0, 33), 2495, True),
        ("google/gemma-4-31B-it", (0, 33), 2496, False),
        ("google/gemma-4-31B-it", (0, 19, 1), 2048, False),
        ("google/gemma-4-E2B-it", (0, 33), 2048, False),
        ("google/gemma-3-27b-it", (0, 33), 255, True),
    ],
)
def test_a_batch_that_its_largest_video_exceeds_is_refused(
    name: str, version: tuple[int, ...], tokens: int, refused: bool
) -> None:
    workload = workload_of(
        version=version,
        tensor_parallel=1,
        pipeline_parallel=1,
        gpu_memory_utilization=0.92,
        max_batched_tokens=tokens,
        max_num_seqs=1,
    )
    error = refusal(spec_of(name), workload, bundled().find("H100 SXM").accelerator)
    assert (error is not None) == refused
    if error is not None:
        assert error.parameter == "max_batched_tokens"
        assert error.alternatives == ({"max_batched_tokens": (256 if "3-27b" in name else 2496,)},)


@pytest.mark.parametrize(
    ("method", "version", "flag"),
    [
        ("fbgemm_fp8", (0, 33), True),
        ("fp_quant", (0, 33), True),
        ("fbgemm_fp8", (0, 12), False),
        ("fp8", (0, 33), False),
    ],
)
def test_a_deprecated_format_is_read_by_leave_of_a_flag(
    method: str, version: tuple[int, ...], *, flag: bool
) -> None:
    spec = structs.replace(spec_of("Qwen/Qwen3-8B"), quantization={"quant_method": method})
    assert needs_leave(spec, workload_of(version=version)) == flag


@pytest.mark.parametrize(
    ("model", "version", "refused"),
    [
        ("adept/persimmon-8b-base", (0, 33), False),
        ("adept/persimmon-8b-base", (0, 30), True),
        ("adept/persimmon-8b-base", (0, 25), False),
        ("microsoft/biogpt", (0, 33), False),
    ],
)
def test_a_class_of_transformers_is_taken_where_vllm_has_its_own_no_more(
    model: str, version: tuple[int, ...], refused: bool
) -> None:
    assert (removed(spec_of(model), version) is not None) is refused


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", {}, None),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", {"mla_use_nope": False}, "mla_use_nope False"),
        ("Qwen/Qwen3.5-4B", {}, None),
        ("Qwen/Qwen3.5-4B", {"output_gate_type": None}, "output_gate_type None"),
        ("Qwen/Qwen3.8-Flash-Next", {}, None),
        ("Qwen/Qwen3.8-Flash-Next", {"output_gate_type": None}, "output_gate_type None"),
    ],
)
def test_settings_that_vllms_classes_do_not_take_are_refused(name, change, reason) -> None:
    """vLLM 0.33's own code stops at an assertion."""
    spec = spec_of(name)
    changed = structs.replace(spec, stated=spec.stated | change)
    refused = refusal(changed, workload_of(), bundled().find("H100").accelerator)
    expected = f"vllm runs no {spec.architecture} with {reason}." if reason else None
    assert (refused and refused.reason) == expected
