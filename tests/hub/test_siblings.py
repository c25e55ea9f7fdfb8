"""Quantized siblings: what the Hub lists, and which few of them are worth a look."""

import asyncio

import msgspec
import pytest

from fitgauge.errors import FitgaugeError, HubUnreachableError, MalformedModelError
from fitgauge.hub import Reference
from fitgauge.hub.siblings import choose, names_same, read_list
from hub_stand_in import gguf_repository, llama_config, safetensors_repository

FP8 = llama_config(quantization_config={"quant_method": "fp8"})
AWQ = llama_config(quantization_config={"quant_method": "awq", "bits": 4})


def listed(model_id, share, **fields):
    """Return a repository of `share` of 1000 bytes, as the Hub lists it."""
    row = {
        "id": model_id,
        "tags": ["safetensors"],
        "safetensors": {"parameters": {"I8": int(share * 1000)}},
        **fields,
    }
    return read_list(msgspec.json.encode([row]))[0]


def test_the_list_is_one_request_sorted_by_downloads(stand_in, open_hub):
    stand_in.add(safetensors_repository("acme/tiny-FP8", FP8, quantizes="acme/tiny", downloads=7))
    stand_in.add(safetensors_repository("other/tiny-AWQ", AWQ, quantizes="acme/tiny", downloads=9))
    stand_in.add(safetensors_repository("other/small-AWQ", AWQ, quantizes="acme/small"))

    async def run():
        async with open_hub() as hub:
            return await hub.quantized("acme/tiny")

    found = asyncio.run(run())
    assert [one.id for one in found] == ["other/tiny-AWQ", "acme/tiny-FP8"]
    assert [request.path for request in stand_in.requests] == ["/api/models"]
    assert stand_in.requests[0].query["filter"] == ["base_model:quantized:acme/tiny"]
    assert found[1].stored_bytes < 2 * 1_987_840


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 503},
        {"status": 404},
        {"body": b"<html>"},
        {"body": b'[{"id": 7}]'},
        {"drop": True},
    ],
)
def test_a_list_that_fails_is_an_error_and_shuts_no_gate(stand_in, open_hub, fault):
    stand_in.fault("/api/models", times=4, **fault)

    async def run():
        async with open_hub(attempts=1) as hub:
            with pytest.raises(FitgaugeError):
                await hub.quantized("acme/tiny")
            stand_in.mend()
            return await hub.resolve(Reference("acme/tiny"))

    assert asyncio.run(run()).source == "hub"


def test_offline_nothing_is_asked(stand_in, open_hub):
    async def run():
        async with open_hub(offline=True) as hub:
            await hub.quantized("acme/tiny")

    with pytest.raises(HubUnreachableError):
        asyncio.run(run())
    assert stand_in.requests == []


def test_the_most_downloaded_of_eight_and_of_four_bits_are_chosen():
    rows = [
        listed("a/m-fp8", 0.55), listed("b/m-int8", 0.55), listed("c/m-awq", 0.3),
        listed("d/m-gptq", 0.3), listed("e/m-bf16", 1.0),
        listed("f/m-q8", 0.5, tags=["gguf"]), listed("g/m-4bit", 0.3, tags=["safetensors", "mlx"]),
    ]  # fmt: skip
    assert choose(rows, "o/m", 1000, "safetensors") == (Reference("a/m-fp8"), Reference("c/m-awq"))
    assert choose(rows, "o/m", 1000, "mlx") == (Reference("g/m-4bit"),)
    assert choose(rows, "o/m", 1000, "gguf") == (
        Reference("f/m-q8", file="Q8_0"),
        Reference("f/m-q8", file="Q4_K_M"),
    )


def test_what_is_gated_uncounted_or_of_unknown_formats_is_left_out():
    rows = [
        listed("a/m-fp8", 0.5, gated="manual"), listed("b/m-fp8", 0.5, safetensors=None),
        listed("c/m-fp8", 0.5, tags=["onnx"]),
        listed("d/m-fp8", 0.5, safetensors={"parameters": {"Q?": 500}}),
        listed("e/m-fp8", 0.5, safetensors={"parameters": {"I8": -5}}),
    ]  # fmt: skip
    assert choose(rows, "o/m", 1000, "safetensors") == ()


@pytest.mark.parametrize(
    "base, other, same",
    [
        (
            "meta-llama/Llama-3.1-8B-Instruct",
            "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
            True,
        ),
        (
            "meta-llama/Llama-3.1-8B-Instruct",
            "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
            True,
        ),
        ("meta-llama/Llama-3.3-70B-Instruct", "casperhansen/llama-3.3-70b-instruct-awq", True),
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B-FP8", True),
        ("Qwen/Qwen3-32B", "unsloth/Qwen3-32B-unsloth-bnb-4bit", True),
        ("google/gemma-4-31B-it", "RedHatAI/gemma-4-31B-it-FP8-block", True),
        ("google/gemma-4-31B-it", "unsloth/gemma-4-31B-it-GGUF", True),
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B", False),
        ("Qwen/Qwen3-32B", "huihui-ai/Qwen3-32B-abliterated-AWQ", False),
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B-Instruct-AWQ", False),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-Coder-7B-Instruct-AWQ", False),
        ("Qwen/Qwen3-4B", "Qwen/Qwen3-14B-AWQ", False),
        ("deepseek-ai/DeepSeek-V3", "nvidia/DeepSeek-V3.1-NVFP4", False),
        ("deepseek-ai/DeepSeek-V3.1", "nvidia/DeepSeek-V3.1-NVFP4", True),
        ("acme/tiny-7B", "acme/tiny-7B-2.5bit", True),
    ],
)
def test_a_sibling_is_called_like_its_model_with_a_format_beside(base, other, same):
    assert names_same(base, other) is same


def test_a_list_of_nonsense_is_refused():
    with pytest.raises(MalformedModelError):
        read_list(b'{"error": "no"}')
    with pytest.raises(HubUnreachableError):
        read_list(b"<html>")


def test_a_repository_of_files_for_llama_cpp_is_known_by_its_tag(stand_in, open_hub):
    values = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.embedding_length": 256,
        "llama.attention.head_count": 8,
    }
    stand_in.add(
        gguf_repository(
            "acme/tiny-GGUF", values, {"tiny-Q8_0.gguf": 2_200_000}, quantizes="acme/tiny"
        )
    )

    async def run():
        async with open_hub() as hub:
            return await hub.quantized("acme/tiny")

    assert choose(asyncio.run(run()), "acme/tiny", 4_000_000, "gguf")[0] == Reference(
        "acme/tiny-GGUF", file="Q8_0"
    )
