"""What SGLang's own classes and quantization methods register, against `parameter_bytes` of sglang
0.5.23's model classes on the meta device."""

import contextlib
import copy

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import Part
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.sglang.degrees import check_parallel, refusal
from fitgauge.engine.serving.sglang.weights import on_gpu, shard_weights
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.rank_bytes import rank_weights
from hunt.draw import FORMATS


@pytest.mark.parametrize(
    ("model", "tensor", "experts", "size"),
    [
        ("LiquidAI/LFM2-1.2B", 2, 1, 1_304_626_688),  # a head of its own
        ("openai/clip-vit-base-patch32", 4, 1, 118_368_258),  # words whole
        ("openai/whisper-large-v3-turbo", 1, 1, 1_750_732_800),
        ("openai/whisper-small", 4, 1, 205_949_952),  # and the embedding whole
        ("google/gemma-3-1b-pt", 1, 1, 1_999_771_904),
        ("google/gemma-4-E2B-it", 2, 2, 7_659_616_768),  # embeddings whole, keys of every layer
        ("google/gemma-3n-E4B-it", 4, 1, 8_800_174_752),  # a divided audio tower
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", 4, 1, 5_497_364_038),  # a whole projector
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", 4, 1, 15_557_560_888),  # divided positions
        ("nvidia/Kimi-K2.5-NVFP4", 4, 1, 165_675_967_144),  # the tower's MLPs whole
        ("moonshotai/Kimi-K3", 2, 2, 787_428_473_024),  # biases of MXFP4 experts
        ("Qwen/Qwen3-Next-80B-A3B-Thinking", 2, 2, 79_876_026_752),  # a shared expert each rank
    ],
)
def test_bytes_of_a_rank(model: str, tensor: int, experts: int, size: int) -> None:
    spec = spec_of(model)
    scheme = published(spec) or Scheme(name="bf16")
    sharded = on_gpu(spec, shard_weights(spec, scheme), "other")
    weights = rank_weights(sharded, tensor_parallel=tensor, expert_parallel=experts)
    assert weights.bytes == pytest.approx(size, rel=5e-4)


@pytest.mark.parametrize(
    ("model", "form", "tensor", "size"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", "gptq", 2, 1_334_891_520),  # one index a fused linear
        ("Qwen/Qwen3-30B-A3B-Base", "gptq, activation order", 1, 16_885_641_216),
        ("allenai/OLMoE-1B-7B-0924", "gptq 8 bit", 4, 1_868_730_368),  # scales of all ranks
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "gptq", 2, 13_596_905_984),
        ("Qwen/Qwen2-57B-A14B", "w4a16 of 128", 1, 31_316_212_480),  # experts' indices
        ("databricks/dbrx-instruct", "awq", 1, 257_977_036_800),  # experts in 16 bit
        ("allenai/OLMo-7B-Instruct-hf", "w4a16 of 32", 8, 944_243_712),  # attention too
        ("stabilityai/stablelm-zephyr-3b", "w4a16 of 32", 1, 3_149_016_064),
        ("openai/whisper-medium", "fp8 blocks", 8, 269_555_264),  # MLPs too
        ("mistralai/Voxtral-Mini-3B-2507", "fp8 channels", 2, 3_002_562_560),
        ("mistralai/Voxtral-Mini-3B-2507", "w4a16 of 32", 1, 4_438_737_792),  # its tower, too
        ("state-spaces/mamba-130m-hf", "fp8", 4, 42_487_776),  # mixers are quantized
    ],
)
def test_bytes_of_a_rank_in_a_format(model: str, form: str, tensor: int, size: int) -> None:
    spec = msgspec.structs.replace(spec_of(model), quantization=copy.deepcopy(FORMATS[form]))
    scheme = published(spec)
    assert scheme is not None
    weights = rank_weights(shard_weights(spec, scheme), tensor_parallel=tensor)
    assert weights.bytes == pytest.approx(size, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "form", "tensor", "reason"),
    [
        ("microsoft/Phi-3-medium-128k-instruct", None, 4, "10 KV heads"),
        ("microsoft/Phi-3-medium-128k-instruct", None, 2, None),
        ("microsoft/phi-2", "w4a16 of 128", 8, "blocks of 128"),
        ("openai/clip-vit-large-patch14", None, 8, "12"),
        ("mistralai/Voxtral-Mini-3B-2507", None, 8, "20 heads"),
        ("zai-org/GLM-4.5V", None, 8, None),  # a tower of 12 heads, padded to 16
        ("Qwen/Qwen3-30B-A3B-FP8", None, 4, "blocks of 128"),
        ("Qwen/Qwen3.5-4B", "fp8 blocks", 1, "32 features"),  # b and a in one linear
        ("Qwen/Qwen3-8B", "fp8 blocks", 1, None),
        ("Qwen/Qwen3.5-122B-A10B", "awq", 4, "32 features"),  # b and a of a rank
        ("Qwen/Qwen3.5-122B-A10B", "awq", 2, None),
        ("google/gemma-3n-E4B-it", "w4a16 of 32", 1, "4 features"),  # of its four streams
        ("THUDM/chatglm2-6b", "awq", 2, "6848 features"),
        ("nvidia/NVIDIA-Nemotron-Nano-12B-v2", "awq", 8, "2832 features"),
    ],
)
def test_divisions_that_its_layers_refuse(
    model: str, form: str | None, tensor: int, reason: str | None
) -> None:
    spec = spec_of(model)
    if form:
        spec = msgspec.structs.replace(spec, quantization=copy.deepcopy(FORMATS[form]))
    sharded = shard_weights(spec, published(spec) or Scheme(name="bf16"))
    found = refusal(spec, sharded, tensor, 1)
    assert found is None if reason is None else reason in (found or "")


def test_a_tower_that_transformers_builds_has_its_pooling_head() -> None:
    """Aya Vision, for which SGLang has no class; Command A Vision has one."""
    sizes = {}
    for model_type, architecture in (
        ("aya_vision", "AyaVisionForConditionalGeneration"),
        ("cohere2_vision", "Cohere2VisionForConditionalGeneration"),
    ):
        spec = read_config({
            "model_type": model_type, "architectures": [architecture],
            "text_config": {"model_type": "cohere2", "num_hidden_layers": 2},
            "vision_config": {"model_type": "siglip_vision_model"},
        })  # fmt: skip
        rank = rank_weights(shard_weights(spec, Scheme(name="bf16")))
        sizes[model_type] = rank.by_part[Part.VISION]
    probe, attention, mlp = 768, 4 * 768 * 769, 2 * 768 * 3072 + 768 + 3072
    head = probe + attention + 2 * 768 + mlp
    assert sizes["aya_vision"] - sizes["cohere2_vision"] == 2 * head


def test_towers_and_projectors_that_transformers_builds_are_whole_on_every_rank() -> None:
    """PaliGemma, whose language model alone has a plan of tensor parallelism."""
    spec = read_config({
        "model_type": "paligemma", "architectures": ["PaliGemmaForConditionalGeneration"],
        "text_config": {"model_type": "gemma", "num_key_value_heads": 4},
        "vision_config": {"model_type": "siglip_vision_model"},
    })  # fmt: skip
    sharded = shard_weights(spec, Scheme(name="bf16"))
    one, four = (rank_weights(sharded, tensor_parallel=ways).by_part for ways in (1, 4))
    assert [four[part] - one[part] for part in (Part.VISION, Part.PROJECTOR)] == [0, 0]
    assert four[Part.LANGUAGE] < one[Part.LANGUAGE]
    assert refusal(spec, sharded, 4, 1) is None
    assert "4 KV heads cannot be divided by 8" in (refusal(spec, sharded, 8, 1) or "")


def test_patches_of_llama_3_2_are_a_column_that_ranks_divide() -> None:
    """As SGLang 0.5.23 built the tower for four ranks, less biases of attention (179,200 bytes)
    that no checkpoint fills."""
    spec = spec_of("meta-llama/Llama-3.2-11B-Vision-Instruct")
    rank = rank_weights(shard_weights(spec, Scheme(name="bf16")), tensor_parallel=4)
    assert rank.by_part[Part.VISION] == 546_229_798 - 179_200


def test_gpus_without_marlins_kernels_read_awq_of_any_width() -> None:
    spec = spec_of("Qwen/Qwen3.5-122B-A10B")
    spec = msgspec.structs.replace(spec, quantization=copy.deepcopy(FORMATS["awq"]))
    sharded = shard_weights(spec, published(spec) or Scheme(name="awq"))
    assert refusal(spec, sharded, 4, 1, marlin=False) is None


def test_awq_with_one_scale_a_channel_is_judged_as_any_other() -> None:
    quantization = {**FORMATS["awq"], "group_size": -1}
    spec = msgspec.structs.replace(spec_of("THUDM/chatglm2-6b"), quantization=quantization)
    sharded = shard_weights(spec, published(spec) or Scheme(name="awq"))
    assert "6848 features" in (refusal(spec, sharded, 2, 1) or "")
    assert refusal(spec, sharded, 1, 1) is None


@pytest.mark.parametrize(
    ("experts", "capability", "refused"),
    [(2, (9, 0), True), (1, (9, 0), False), (4, (9, 0), False), (2, (10, 0), False)],
)
def test_cutlass_kernels_take_no_or_all_ranks_for_experts(
    experts: int, capability: tuple[int, int], *, refused: bool
) -> None:
    spec = spec_of("nvidia/Nemotron-H-8B-Base-8K")
    sharded = shard_weights(spec, Scheme(name="bf16"))
    with pytest.raises(UnsupportedError) if refused else contextlib.nullcontext():
        check_parallel(spec, sharded, 4, experts, capability)
