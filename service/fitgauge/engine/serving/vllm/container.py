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
    programs=(
        ("vllm", "serve"),
        ("vllm", "run-batch"),
        ("vllm.entrypoints.openai.api_server",),
        ("vllm.entrypoints.openai.run_batch",),
        ("dynamo.vllm",),
    ),
    names_model_first=True,
    settings_flags=("--config",),
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
        "--kv-transfer-config": re.compile(
            r'"kv_connector"\s*:\s*"(?:Nixl|Mooncake|MoRIIO)\w*"'
        ),
        "--speculative-config": re.compile(r'"method"\s*:\s*"(?:ngram|suffix)"'),
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
            "--allow-credentials", "--allowed-headers", "--allowed-local-media-path",
            "--allowed-media-domains", "--allowed-methods", "--allowed-origins", "--api-key",
            "--api-server-count", "--block-size", "--chat-template",
            "--chat-template-content-format", "--code-revision", "--collect-detailed-traces",
            "--config-format", "--data-parallel-address", "--data-parallel-backend",
            "--data-parallel-external-lb", "--data-parallel-hybrid-lb", "--data-parallel-rank",
            "--data-parallel-rpc-port", "--data-parallel-start-rank",
            "--default-chat-template-kwargs", "--disable-access-log-for-endpoints",
            "--disable-fastapi-docs", "--disable-log-requests", "--disable-log-stats",
            "--disable-uvicorn-access-log", "--distributed-executor-backend", "--download-dir",
            "--enable-auto-tool-choice", "--enable-chunked-prefill", "--enable-force-include-usage",
            "--enable-log-deltas", "--enable-log-outputs", "--enable-log-requests",
            "--enable-offline-docs", "--enable-prefix-caching", "--enable-prompt-tokens-details",
            "--enable-request-id-headers", "--enable-server-load-tracking", "--enable-sleep-mode",
            "--enable-ssl-refresh", "--enable-tokenizer-info-endpoint",
            "--exclude-tools-when-tool-choice-none", "--generation-config",
            "--guided-decoding-backend", "--headless", "--hf-token", "--host", "--ignore-patterns",
            "--input-file",
            "--is-decode-worker", "--is-prefill-worker", "--kv-cache-metrics", "--kv-events-config",
            "--load-format", "--log-config-file", "--log-error-stack", "--master-addr",
            "--master-port", "--max-cpu-loras", "--max-log-len", "--max-logprobs",
            "--media-io-kwargs", "--middleware", "--model-dir", "--model-loader-extra-config",
            "--model-name", "--nnodes", "--node-rank", "--otlp-traces-endpoint",
            "--output-file", "--override-generation-config", "--port", "--prefix-caching-hash-algo",
            "--reasoning-parser", "--reasoning-parser-plugin", "--response-role", "--revision",
            "--root-path", "--safetensors-load-strategy", "--scheduling-policy", "--seed",
            "--served-model-name", "--show-hidden-metrics-for-version", "--shutdown-timeout",
            "--skip-tokenizer-init", "--ssl-ca-certs", "--ssl-cert-reqs", "--ssl-certfile",
            "--ssl-ciphers", "--ssl-keyfile", "--stream-interval", "--structured-outputs-config",
            "--swap-space", "--tokenizer", "--tokenizer-mode", "--tokenizer-revision",
            "--tool-call-parser", "--tool-parser-plugin", "--tool-server", "--trust-remote-code",
            "--uds", "--use-tqdm-on-load", "--uvicorn-log-level", "-i", "-o",
        }
    ),
)  # fmt: skip
"""Memory that --swap-space takes is the host's. Connectors of RDMA register the pool where it lies;
P2pNcclConnector takes buffers of its own."""
