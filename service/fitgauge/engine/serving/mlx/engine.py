"""MLX LM. Source: mlx-lm 0.32, utils.py."""

from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.engine_facts import (
    ANY_CAPABILITY,
    ArchitectureList,
    LogParser,
    MemoryFlag,
    Platform,
)
from fitgauge.engine.serving.mlx import launch, memory, start_log
from fitgauge.engine.serving.mlx.architectures import MODEL_TYPES, VISION
from fitgauge.engine.serving.mlx.settings import LADDERS

ENGINE = Engine(
    name="mlx",
    title="MLX",
    aliases=("mlxlm",),
    estimate=memory.estimate,
    shard_weights=memory.shard_weights,
    default_batch=memory.default_batch,
    command=launch.command,
    ladders=LADDERS,
    platforms={"apple": Platform()},
    formats=dict.fromkeys(
        ("mlx", "int8", "int6", "int5", "int4", "int3", "int2", "mxfp4", "mxfp8", "nvfp4"),
        ANY_CAPABILITY,
    ),
    served_formats=("int8", "int4"),
    own_format=("MLX checkpoints", "int4"),
    without_flash_attention=None,
    architectures=ArchitectureList(
        MODEL_TYPES | VISION,
        (0, 32),
        "0.32.0 and mlx-vlm 0.6.15",
        by_type=True,
        generates_only=True,
    ),
    unsupported_flags=(
        ("data_parallel", "start as many servers"),
        ("context_length", "the server sets no bound"),
        ("kv_cache_dtype", "mlx_lm.generate has --kv-bits, the server has not"),
    ),
    ignored_fields=(
        "gpu_memory_utilization",
        "max_num_seqs",
        "cpu_offload_gib",
        "kv_cache_memory_gib",
    ),
    smaller_weights=(("take an 8-bit checkpoint", "int8"), ("take a 4-bit checkpoint", "int4")),
    log_parser=LogParser(start_log.SIGNATURES, start_log.read),
    memory_flags=(
        MemoryFlag("Take a 4-bit checkpoint", "--model mlx-community/MODEL-4bit"),
        MemoryFlag("Read the prompt in smaller steps", "--prefill-step-size 512"),
        MemoryFlag("Keep fewer finished prompts", "--prompt-cache-size 1"),
        MemoryFlag(
            "Let the GPU take more of the Mac's memory (in MiB, until the next start)",
            "sudo sysctl iogpu.wired_limit_mb=57344",
        ),
    ),
    default=True,
    preference=3,
    suggested_vendors=frozenset({"apple"}),
    own_quantizers=True,
    file_kind="mlx",
    checkpoint_kinds=("mlx",),
    checkpoint_word="MLX checkpoint",
    splits_layers=True,
)
