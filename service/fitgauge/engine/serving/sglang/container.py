"""How containers start SGLang.

Source: docker/compose.yaml (image, entrypoint), python/sglang/srt/server_args.py (spellings)."""

from fitgauge.engine.serving.container import ContainerStart, PositionFlags

CONTAINER = ContainerStart(
    images=("sglang",),
    programs=(("sglang.launch_server",), ("sglang", "serve"), ("dynamo.sglang",)),
    model_flags=("--model-path", "--model"),
    settings_flags=("--config",),
    spellings={
        "--tensor-parallel-size": "--tp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--data-parallel-size": "--dp-size",
        "--expert-parallel-size": "--ep-size",
    },
    default_values={"--dtype": frozenset({"auto", "half", "float16", "bfloat16"})},
    positions=PositionFlags(
        overrides=("--json-model-override-args",),
        by_positions_alone=(0,),
        any_length="SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
    ),
    unrelated_flags=frozenset(
        {
            "--admin-api-key", "--api-key", "--chat-template", "--crash-dump-folder",
            "--custom-weight-loader", "--decode-log-interval", "--disaggregation-bootstrap-port",
            "--disaggregation-ib-device", "--disaggregation-transfer-backend", "--dist-init-addr",
            "--dist-timeout", "--download-dir", "--enable-cache-report", "--enable-metrics",
            "--enable-request-time-stats-logging", "--fastapi-root-path", "--file-storage-path",
            "--grammar-backend", "--hf-chat-template-name", "--host",
            "--incremental-streaming-output", "--kv-events-config", "--load-balance-method",
            "--load-format", "--log-level", "--log-level-http", "--log-requests",
            "--log-requests-format", "--log-requests-level", "--log-requests-target",
            "--model-loader-extra-config", "--nccl-init-addr", "--nccl-port", "--nnodes",
            "--node-rank", "--otlp-traces-endpoint", "--port", "--preferred-sampling-params",
            "--random-seed", "--reasoning-parser", "--revision", "--sampling-backend",
            "--schedule-policy", "--served-model-name", "--show-time-cost", "--skip-server-warmup",
            "--skip-tokenizer-init", "--speculative-eagle-topk", "--speculative-num-steps",
            "--ssl-ca-certs", "--ssl-certfile", "--ssl-keyfile", "--ssl-keyfile-password",
            "--stream-interval", "--tokenizer-mode", "--tokenizer-path", "--tool-call-parser",
            "--tool-server", "--trust-remote-code", "--warmups", "--watchdog-timeout",
            "--weight-version",
        }
    ),
)  # fmt: skip
