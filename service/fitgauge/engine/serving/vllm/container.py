"""How containers start vLLM.

Source: docker/Dockerfile (entrypoint), entrypoints/openai/cli_args.py (flags of the HTTP server),
vllm/engine/arg_utils.py (short flags). KServe's huggingfaceserver runs vLLM unless --backend says
otherwise (kserve/kserve@master:python/huggingfaceserver/README.md)."""

import re

from fitgauge.engine.serving.container import ContainerStart, PositionFlags
from fitgauge.engine.serving.vllm import releases

CONTAINER = ContainerStart(
    images=(
        "vllm-openai", "vllm/vllm", "rocm/vllm", "vllm-gaudi", "vllm-hpu", "/vllm:",
        "huggingfaceserver", "llm-d-cuda",
    ),
    programs=(("vllm", "serve"), ("vllm.entrypoints.openai.api_server",), ("dynamo.vllm",)),
    names_model_first=True,
    spellings={
        "-tp": "--tensor-parallel-size",
        "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size",
        "-q": "--quantization",
        "--model-id": "--model",
        # argparse takes any beginning of a flag that no other flag shares
        "--gpu-memory-util": "--gpu-memory-utilization",
        "--max-num-seq": "--max-num-seqs",
        "--max-num-batched-token": "--max-num-batched-tokens",
    },
    default_values={
        "--dtype": frozenset({"auto", "half", "float16", "bfloat16"}),
        "--device": frozenset({"auto", "cuda"}),
    },
    harmless_values={
        "--kv-transfer-config": re.compile(r'"kv_connector"\s*:\s*"(?:Nixl|Mooncake|MoRIIO)\w*"')
    },
    # v1/core/kv_cache_planning.py, _auto_fit_max_model_len
    fitted_context={"--max-model-len": frozenset({"auto", "-1"})},
    positions=PositionFlags(
        overrides=("--hf-overrides", "--rope-scaling"),
        by_positions_alone=releases.LENGTH_BY_POSITIONS,
        any_length="VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    ),
    unrelated_flags=frozenset(
        {
            "--allow-credentials", "--allowed-headers", "--allowed-methods", "--allowed-origins",
            "--api-key", "--api-server-count", "--block-size", "--chat-template",
            "--chat-template-content-format", "--data-parallel-address",
            "--data-parallel-rpc-port", "--default-chat-template-kwargs",
            "--disable-access-log-for-endpoints", "--disable-fastapi-docs",
            "--disable-log-requests", "--disable-log-stats", "--disable-uvicorn-access-log",
            "--enable-log-outputs", "--enable-sleep-mode", "--max-cpu-loras",
            "--model-loader-extra-config", "--prefix-caching-hash-algo",
            "--distributed-executor-backend", "--download-dir", "--enable-auto-tool-choice",
            "--enable-chunked-prefill", "--enable-force-include-usage", "--enable-log-requests",
            "--enable-prefix-caching",
            "--enable-prompt-tokens-details", "--enable-request-id-headers",
            "--enable-server-load-tracking", "--generation-config", "--headless",
            "--host", "--is-decode-worker", "--is-prefill-worker", "--log-config-file",
            "--max-log-len", "--middleware", "--model-dir",
            "--model-name", "--otlp-traces-endpoint", "--port", "--reasoning-parser",
            "--response-role", "--root-path", "--seed", "--served-model-name", "--ssl-ca-certs",
            "--ssl-cert-reqs", "--ssl-certfile", "--ssl-keyfile", "--swap-space",
            "--tokenizer", "--tokenizer-mode", "--tool-call-parser", "--tool-parser-plugin",
            "--trust-remote-code", "--uvicorn-log-level",
        }
    ),
)  # fmt: skip
"""Memory that --swap-space takes is the host's. Connectors of RDMA register the pool where it lies;
P2pNcclConnector takes buffers of its own."""
