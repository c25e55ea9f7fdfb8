"""What SGLang registers on a rank, against `parameter_bytes` of sglang 0.5.23's own model classes
on the meta device."""

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.engine.model.spec import Kind
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.sglang.degrees import check_parallel
from fitgauge.engine.serving.sglang.gpus import Architecture
from fitgauge.engine.serving.sglang.quantized import expert_form, registered_scheme
from fitgauge.engine.serving.sglang.weights import (
    buffer_bytes,
    lengthened_tables,
    on_gpu,
    shard_weights,
)
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.rank_bytes import rank_weights
from fitgauge.engine.weights.sharding import ShardedWeights


def laid_out(model: str, architecture: Architecture) -> ShardedWeights:
    spec = spec_of(model)
    scheme = published(spec) or Scheme(name="bf16")
    return on_gpu(spec, shard_weights(spec, scheme), architecture)


@pytest.mark.parametrize(
    ("model", "architecture", "ranks", "size"),
    [
        ("nvidia/MiniMax-M2.7-NVFP4", "hopper", 4, 37_282_637_296),
        ("openai/gpt-oss-20b", "hopper", 1, 13_761_264_768),
        ("bigcode/gpt_bigcode-santacoder", "hopper", 8, 311_115_776),
        ("nvidia/GLM-5.2-NVFP4", "hopper", 8, 64_027_497_696),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "hopper", 8, 100_206_356_480),
        ("nvidia/GLM-5.2-NVFP4", "blackwell", 8, 58_365_187_296),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "blackwell", 8, 143_550_966_784),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "hopper", 8, 120_146_750_464),
        ("openai/gpt-oss-20b", "consumer_blackwell", 1, 14_438_382_720),
        ("nvidia/MiniMax-M3-NVFP4", "hopper", 1, 275_818_721_280),
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", "blackwell", 1, 23_731_567_720),
        ("moonshotai/Kimi-K2.5", "blackwell", 2, 298_991_398_752),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "consumer_blackwell", 2, 10_651_335_632),
    ],
)
def test_bytes_of_a_rank(model: str, architecture: Architecture, ranks: int, size: int) -> None:
    weights = rank_weights(laid_out(model, architecture), tensor_parallel=ranks)
    assert weights.bytes == pytest.approx(size, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "architecture", "ranks", "size"),
    [
        ("nvidia/MiniMax-M3-NVFP4", "blackwell", 4, 62_605_457_280),
        ("deepseek-ai/DeepSeek-V4-Pro", "consumer_blackwell", 2, 429_192_533_748),
    ],
)
def test_bytes_of_a_rank_with_its_experts(
    model: str, architecture: Architecture, ranks: int, size: int
) -> None:
    """Routers in bfloat16 and scales once; `wo_a` in bfloat16 off compute capability 10."""
    sharded = laid_out(model, architecture)
    weights = rank_weights(sharded, tensor_parallel=ranks, expert_parallel=ranks)
    assert weights.bytes == pytest.approx(size, rel=1e-4)


def test_a_checkpoint_of_modelopt_without_a_method_is_read() -> None:
    settings = {"quant_algo": "FP8", "ignore": ["lm_head"], "producer": {"name": "modelopt"}}
    spec = msgspec.structs.replace(spec_of("Qwen/Qwen3-32B"), quantization=settings)
    scheme = published(spec)
    assert scheme is not None
    halved = rank_weights(shard_weights(spec, scheme)).bytes
    assert halved == pytest.approx(2 * 17_159_992_832, rel=1e-3)


@pytest.mark.parametrize(
    ("architecture", "ranks", "refused"),
    [("hopper", 2, False), ("hopper", 4, True), ("hopper", 8, True), ("blackwell", 4, False)],
)
def test_experts_whose_blocks_a_rank_would_cut_are_refused(
    architecture: Architecture, ranks: int, *, refused: bool
) -> None:
    """768 features of an expert in blocks of 128; Blackwell's kernels pad them."""
    spec = spec_of("Qwen/Qwen3-30B-A3B-FP8")
    sharded = laid_out("Qwen/Qwen3-30B-A3B-FP8", architecture)
    if not refused:
        check_parallel(spec, sharded, ranks, 1)
        return
    with pytest.raises(UnsupportedError, match="128"):
        check_parallel(spec, sharded, ranks, 1)
    if ranks <= 4:  # eight ranks cut a block of the keys
        check_parallel(spec, sharded, ranks, ranks)


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("Qwen/Qwen3-32B", 20_971_520),
        ("meta-llama/Llama-3.1-8B-Instruct", 67_108_864),
        ("deepseek-ai/DeepSeek-V3.2", 83_886_080),
        ("openai/gpt-oss-20b", 33_554_432),
        ("google/gemma-3n-E4B-it", 67_108_864),  # a table of windows, one of the others
        ("deepseek-ai/DeepSeek-V4-Flash", 1_073_741_824),  # two, and both in complex numbers
        ("Qwen/Qwen2.5-VL-32B-Instruct", 65_536_000),  # its tower has frequencies alone
    ],
)
def test_rotary_tables_are_in_float32(model: str, size: int) -> None:
    assert buffer_bytes(spec_of(model)) == size


@pytest.mark.parametrize(("context_length", "size"), [(8192, 68_325_376), (262_144, 104_960_000)])
def test_rotary_tables_of_towers_are_as_long_as_the_context(context_length: int, size: int) -> None:
    """262,400 rows of 64 and of 36 numbers; sglang registers 104,960,256 B."""
    spec = lengthened_tables(spec_of("nvidia/Qwen3.6-27B-NVFP4"), context_length)
    assert buffer_bytes(spec) == size


def test_experts_of_auto_round_have_scales_alone_in_groups_that_a_rank_holds():
    settings = {"quant_method": "auto-round", "bits": 4, "group_size": 128}
    spec = msgspec.structs.replace(spec_of("Qwen/Qwen3-30B-A3B"), quantization=settings)
    scheme = published(spec)
    assert scheme is not None
    rules = registered_scheme(spec, scheme).rules
    form = next(rule.form for rule in rules if rule.form and rule.kinds == (Kind.EXPERT,))
    here = expert_form(form, 192, 2048, 4)
    assert (here.group, here.zero_bits, here.input_bits) == (64, 0, 0)
