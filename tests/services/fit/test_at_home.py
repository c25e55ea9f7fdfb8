"""What engines that people run at home hold and start with, against logs and commands that they
published."""

import re
from collections.abc import Callable

import pytest

from fitgauge.engine.quantity import MIB
from fitgauge.services.common.fit_schemas import FitAnswer

Check = Callable[..., FitAnswer]


def sizes(check_fit: Check, **fields: object) -> dict[str, float]:
    """Return the terms of an estimate with the engine's own settings [MiB]."""
    answer = check_fit(settings="defaults", detail="full", **fields)
    return {term.name: term.bytes / MIB for term in answer.terms}


@pytest.mark.parametrize(
    ("fields", "posted"),
    [
        # public file 54970614717, RX 5700 XT: 2,050 MiB with the experts of 22 layers on the host
        ({"model": "openai/gpt-oss-20b", "gpu": "RX 5700 XT", "n_cpu_moe": 22}, 2050),
        # the same file: 1,607 MiB of gpt-oss-120b without any experts
        ({"model": "openai/gpt-oss-120b", "gpu": "RX 5700 XT", "n_cpu_moe": 36}, 1607),
    ],
)
def test_a_file_in_mxfp4_keeps_the_rest_in_8_bits(check_fit: Check, fields, posted) -> None:
    assert sizes(check_fit, engine="llama.cpp", **fields)["weights"] == pytest.approx(posted, abs=1)


def test_ollamas_file_in_mxfp4_keeps_the_rest_in_16_bits(check_fit: Check) -> None:
    """gpt-oss:120b on an MI210: 59.8 GiB (public file 56930313189)."""
    fields = {"model": "openai/gpt-oss-120b", "gpu": "MI210", "engine": "ollama"}
    assert sizes(check_fit, **fields)["weights"] / 1024 == pytest.approx(59.8, rel=0.003)


@pytest.mark.parametrize(
    ("fields", "posted"),
    [
        # public file 60607662844, an M3 Max: MTL0_Mapped 8579.06 beside 417.30 of embeddings
        ({"model": "Qwen/Qwen3-14B", "gpu": "M3 Max 64GB", "quantization": "q4_k_m"}, 8579.06),
        # public file 32713047379, an M5: MTL0_Mapped 11536.18
        ({"model": "openai/gpt-oss-20b", "gpu": "M5 24GB"}, 11536.18),
    ],
)
def test_a_mac_maps_the_whole_file(check_fit: Check, fields, posted) -> None:
    assert sizes(check_fit, engine="llama.cpp", **fields)["weights"] == pytest.approx(posted, abs=1)


@pytest.mark.parametrize(
    ("version", "posted"),
    [
        ("9200", 304.75),  # public file 59166341735, May 2026: logits of all tokens
        ("9496", None),  # public file 63174159519, June 2026: none but of the sequences
    ],
)
def test_logits_of_every_token_are_held_until_june_2026(check_fit: Check, version, posted) -> None:
    fields = {"model": "Qwen/Qwen3-8B", "gpu": "Radeon VII", "quantization": "q4_k_m"}
    held = sizes(check_fit, engine="llama.cpp", engine_version=version, **fields)["activations"]
    assert held == pytest.approx(posted or 104.25, abs=0.5)


@pytest.mark.parametrize(
    ("tokens", "posted_gb"),
    [(4224, 383.213), (16512, 398.605)],  # ml-explore/mlx-lm#839, prompts of 4,096 and 16,384
)
def test_mlx_holds_the_scores_of_rotated_parts_of_mla(check_fit: Check, tokens, posted_gb) -> None:
    fields = {"model": "deepseek-ai/DeepSeek-V3", "gpu": "M3 Ultra 512GB", "quantization": "int4"}
    terms = sizes(check_fit, engine="mlx", context_length=tokens, **fields)
    assert sum(terms.values()) * MIB / 1e9 == pytest.approx(posted_gb, rel=0.005)


def test_mlx_caches_deepseek_v2_expanded(check_fit: Check) -> None:
    """16 heads of 192 + 128 numbers in 27 layers, 2 B each, for whole steps of 256 tokens."""
    fields = {"model": "deepseek-ai/DeepSeek-V2-Lite", "gpu": "M4 Max 64GB", "context_length": 8192}
    held = sizes(check_fit, engine="mlx", **fields)
    assert held["kv_cache"] == 8192 * 27 * 16 * (192 + 128) * 2 / MIB
    assert "attention_scores" not in held


@pytest.mark.parametrize(
    ("fields", "started"),
    [
        # public file 61471163053: llama-server fits 15 of 33 layers into 5,141 MiB
        (
            {
                "model": "meta-llama/Llama-3.1-8B-Instruct",
                "gpu": "RTX 2060 6GB",
                "quantization": "q4_0",
                "context_length": 32768,
            },
            range(13, 18),
        ),
        # public file 58671331675: 26 of 65 layers do not start with 10.2 GiB free
        (
            {
                "model": "Qwen/Qwen3.5-27B",
                "gpu": "RTX 4070",
                "quantization": "q4_k_s",
                "context_length": 131072,
            },
            range(18, 26),
        ),
    ],
)
def test_as_many_layers_are_offered_as_people_run(check_fit: Check, fields, started) -> None:
    """A layer takes its cache along where it leaves the GPU."""
    answer = check_fit(engine="llama.cpp", host_memory_gib=64, **fields)
    offered = next(one for one in answer.suggestions if "cpu_offload_gib" in one.request)
    layers = re.search(r"-ngl (\d+)", offered.launch.command)
    assert layers
    assert int(layers[1]) in started


@pytest.mark.parametrize(
    ("fields", "posted"),
    [
        # public file 61471163053: 15 of 33 layers on a RTX 2060
        (
            {
                "model": "meta-llama/Llama-3.1-8B-Instruct",
                "gpu": "RTX 2060 6GB",
                "quantization": "q4_0",
                "context_length": 32768,
                "max_num_seqs": 1,
                "n_gpu_layers": 15,
            },
            248.0,
        ),
        # public file 58671331675: 26 of 65 layers on a RTX 4070, which failed on this buffer
        (
            {
                "model": "Qwen/Qwen3.5-27B",
                "gpu": "RTX 4070",
                "quantization": "q4_k_s",
                "context_length": 131072,
                "max_num_seqs": 1,
                "max_batched_tokens": 1024,
                "n_gpu_layers": 26,
            },
            1401.75,
        ),
        # llama.cpp tools/fit-params/README.md: experts of 34 layers in 16 bits
        (
            {
                "model": "Qwen/Qwen3-30B-A3B",
                "gpu": "RTX 4090",
                "engine_version": "7342",
                "quantization": "f16",
                "context_length": 4096,
                "n_cpu_moe": 34,
            },
            898.0,
        ),
    ],
)
def test_what_is_copied_of_host_memory_for_a_batch_is_counted(
    check_fit: Check, fields, posted
) -> None:
    """A weight twice; of layers there the cache of one."""
    held = sizes(check_fit, engine="llama.cpp", **fields)["activations"]
    assert held == pytest.approx(posted, rel=0.05)


def test_the_first_gpu_alone_copies_of_host_memory(check_fit: Check) -> None:
    """GLM-5.2 with 768,000 tokens: 3252.07 MiB on the second card (public file 61219781833)."""
    answer = check_fit(
        model="zai-org/GLM-5.2",
        gpu="4x RTX PRO 6000",
        engine="llama.cpp",
        quantization="q5_k_m",
        context_length=768000,
        max_num_seqs=1,
        n_cpu_moe=18,
        settings="defaults",
        detail="full",
    )
    held = [
        next(term.bytes for term in stage.terms if term.name == "activations") / MIB
        for stage in answer.ranks
    ]
    assert held[1] == pytest.approx(3252, rel=0.05)
    assert held[0] > held[1] + 2000


def test_what_is_looked_up_for_every_layer_is_held_twice(check_fit: Check) -> None:
    """Gemma 4 E4B on an RTX 4050 Laptop: 186.30 MiB (public file 71581386961)."""
    held = sizes(
        check_fit,
        model="google/gemma-4-E4B-it",
        gpu="RTX 4050 Laptop",
        engine="llama.cpp",
        quantization="q4_k_m",
        context_length=65536,
        kv_cache_dtype="q8_0",
        max_num_seqs=1,
        language_model_only=True,
    )
    assert held["activations"] == pytest.approx(186.3, rel=0.02)


@pytest.mark.parametrize(
    ("fields", "version", "posted"),
    [
        # public file 57443583649, an RTX 4070
        (
            {
                "model": "Qwen/Qwen3.5-9B",
                "gpu": "RTX 4070",
                "context_length": 262144,
                "kv_cache_dtype": "q8_0",
                "max_num_seqs": 2,
            },
            "9000",
            808.02,
        ),
        # public file 61338146820, an M4 Pro
        (
            {
                "model": "Qwen/Qwen3.5-9B",
                "gpu": "M4 Pro 24GB",
                "context_length": 262144,
                "kv_cache_dtype": "q8_0",
                "max_num_seqs": 1,
            },
            "9000",
            832.60,
        ),
        # public file 32713047379, an M5 (b8164)
        (
            {"model": "openai/gpt-oss-20b", "gpu": "M5 24GB", "context_length": 131072},
            "8164",
            420.08,
        ),
        # public file 70898075096, a Ryzen AI Max+ 395, September 2026: 16 bits from the start
        (
            {
                "model": "Qwen/Qwen3.8-27B",
                "gpu": "Ryzen AI Max+ 395 128GB",
                "context_length": 262144,
                "max_num_seqs": 1,
            },
            None,
            378.02,
        ),
    ],
)
def test_masks_were_given_in_32_bits_until_may_2026(check_fit: Check, fields, version, posted):
    """llama.cpp#23764."""
    held = sizes(
        check_fit,
        engine="llama.cpp",
        engine_version=version,
        quantization=None if "gpt-oss" in fields["model"] else "q4_k_m",
        language_model_only=True,
        **fields,
    )
    assert held["activations"] == pytest.approx(posted, rel=0.055)
