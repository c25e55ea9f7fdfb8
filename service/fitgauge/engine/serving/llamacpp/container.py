"""How containers start llama.cpp's server, and Ollama.

Source: llama-server(1) (flags and their variables), .devops/cuda.Dockerfile (entrypoint); ollama
envconfig/config.go."""

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
    },
    variables={
        "LLAMA_ARG_MODEL": "-m {}",
        "LLAMA_ARG_HF_REPO": "-hf {}",
        "LLAMA_ARG_HF_FILE": "-hff {}",
        "LLAMA_ARG_CTX_SIZE": "-c {}",
        "LLAMA_ARG_N_PARALLEL": "-np {}",
        "LLAMA_ARG_UBATCH": "-ub {}",
        "LLAMA_ARG_N_GPU_LAYERS": "-ngl {}",
        "LLAMA_ARG_CACHE_TYPE_K": "-ctk {}",
    },
    default_values={"-ngl": frozenset({"all", "auto", "99", "999", "-1"})},
    unrelated_flags=frozenset(
        {
            "--alias", "--api-key", "--chat-template", "--host", "--jinja", "--log-disable",
            "--metrics", "--mlock", "--no-mmap", "--port", "--threads", "--threads-batch",
            "--rope-freq-base", "--rope-scaling", "--timeout", "--yarn-orig-ctx", "-a", "-hff",
            "-t", "-tb",
        }
    ),
    takes_all_gpus=True,
)  # fmt: skip

OLLAMA = ContainerStart(
    images=("ollama/ollama",),
    programs=(("ollama", "serve"),),
    variables={
        "OLLAMA_CONTEXT_LENGTH": "KvSize:{}",
        "OLLAMA_NUM_PARALLEL": "Parallel:{}",
        "OLLAMA_KV_CACHE_TYPE": "KvCacheType:{}",
    },
    takes_all_gpus=True,
)
"""Its settings are variables alone, written as its log prints them."""
