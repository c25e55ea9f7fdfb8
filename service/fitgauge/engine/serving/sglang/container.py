"""How containers start SGLang.

Source: docker/compose.yaml (image, entrypoint), python/sglang/srt/server_args.py (spellings)."""

from fitgauge.engine.serving.container import ContainerStart, PositionFlags

CONTAINER = ContainerStart(
    images=("sglang",),
    programs=(("sglang.launch_server",), ("sglang", "serve"), ("dynamo.sglang",)),
    model_flags=("--model-path", "--model"),
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
            "--api-key", "--chat-template", "--disaggregation-bootstrap-port",
            "--disaggregation-ib-device", "--disaggregation-transfer-backend",
            "--dist-init-addr", "--download-dir",
            "--enable-metrics", "--host", "--log-level", "--log-requests", "--nnodes",
            "--node-rank", "--port", "--reasoning-parser", "--served-model-name",
            "--tokenizer-path", "--tool-call-parser", "--trust-remote-code",
        }
    ),
)  # fmt: skip
