"""How containers start llama.cpp's server, and Ollama.

Source: llama-server(1) (flags and their variables), .devops/cuda.Dockerfile (entrypoint); ollama
envconfig/config.go."""

import re

from fitgauge.engine.serving.container import ContainerStart, PositionFlags

CONTAINER = ContainerStart(
    images=("llama.cpp:server",),
    programs=(("llama-server",),),
    model_flags=("-m", "-hf"),
    positions=PositionFlags(factor="--rope-scale"),
    spellings={
        "--model": "-m",
        "--hf-repo": "-hf",
        "-hfr": "-hf",
        "--hf-file": "-hff",
        "--n-gpu-layers": "-ngl",
        "--gpu-layers": "-ngl",
        "--flash-attn": "-fa",
        "--batch-size": "-b",
        "-cmoe": "--cpu-moe",
        "-ncmoe": "--n-cpu-moe",
        "-ot": "--override-tensor",
    },
    variables={
        "LLAMA_ARG_MODEL": "-m {}",
        "LLAMA_ARG_HF_REPO": "-hf {}",
        "LLAMA_ARG_HF_FILE": "-hff {}",
        "LLAMA_ARG_CTX_SIZE": "-c {}",
        "LLAMA_ARG_N_PARALLEL": "-np {}",
        "LLAMA_ARG_UBATCH": "-ub {}",
        "LLAMA_ARG_N_GPU_LAYERS": "-ngl {}",
        "LLAMA_ARG_N_CPU_MOE": "--n-cpu-moe {}",
        "LLAMA_ARG_CPU_MOE": "--cpu-moe",
        "LLAMA_ARG_OVERRIDE_TENSOR": "--override-tensor {}",
        "LLAMA_ARG_CACHE_TYPE_K": "-ctk {}",
        "LLAMA_ARG_CACHE_TYPE_V": "-ctv {}",
    },
    default_values={
        "-fa": frozenset({"", "1", "auto", "on", "true"}),
        "-ngl": frozenset({"all", "auto", "99", "999", "-1"}),
    },
    host_weights="--override-tensor",
    # a batch of fewer tokens than those of one pass (-ub, 512) would narrow that
    harmless_values={"-b": re.compile(r"\A(?:[6-9]\d\d|5[2-9]\d|51[2-9]|\d{4,6})\Z")},
    unrelated_flags=frozenset(
        {
            "--alias", "--api-key", "--api-key-file", "--api-prefix", "--cache-reuse",
            "--chat-template", "--chat-template-file", "--chat-template-kwargs", "--cont-batching",
            "--context-shift", "--hf-token", "--host", "--jinja", "--keep", "--kv-unified",
            "--log-colors", "--log-disable", "--log-file", "--log-prefix", "--log-timestamps",
            "--log-verbosity", "--metrics", "--min-p", "--mlock", "--n-predict",
            "--no-context-shift", "--no-mmap", "--no-warmup", "--no-webui", "--numa", "--offline",
            "--path", "--port", "--predict", "--presence-penalty", "--prio", "--props",
            "--reasoning-budget", "--reasoning-format", "--repeat-penalty", "--rope-freq-base",
            "--rope-scaling", "--seed", "--slot-save-path", "--slots", "--ssl-cert-file",
            "--ssl-key-file", "--temp", "--threads", "--threads-batch", "--threads-http",
            "--timeout", "--top-k", "--top-p", "--verbose", "--yarn-orig-ctx", "-a", "-cb", "-hff",
            "-hft", "-kvu", "-lv", "-n", "-s", "-t", "-tb", "-to", "-v",
        }
    ),
    takes_all_gpus=True,
)  # fmt: skip

OLLAMA = ContainerStart(
    images=("ollama/ollama",),
    programs=(("ollama", "serve"), ("ollama", "run")),
    variables={
        "OLLAMA_CONTEXT_LENGTH": "OLLAMA_CONTEXT_LENGTH:{}",
        "OLLAMA_NUM_PARALLEL": "OLLAMA_NUM_PARALLEL:{}",
        "OLLAMA_KV_CACHE_TYPE": "KvCacheType:{}",
    },
    takes_all_gpus=True,
)
"""Its settings are variables alone, written as its log prints them."""
