"""How containers start TensorRT-LLM.

Source: tensorrt_llm/commands/serve.py."""

from fitgauge.engine.serving.container import ContainerStart

CONTAINER = ContainerStart(
    images=(),
    programs=(("trtllm-serve", "serve"), ("trtllm-serve",), ("dynamo.trtllm",)),
    names_model_first=True,
    settings_flags=("--extra-llm-api-options", "--config"),
    dotted_settings=True,
    spellings={
        "--kv-cache-config.dtype": "--kv-cache-dtype",
        "--kv-cache-config.free-gpu-memory-fraction": "--kv-cache-free-gpu-memory-fraction",
    },
    unrelated_flags=frozenset(
        {
            "--backend", "--host", "--kv-cache-config.enable-block-reuse", "--log-level", "--port",
            "--reasoning-parser", "--tokenizer", "--trust-remote-code",
        }
    ),
)  # fmt: skip
"""Its images start a shell, so the command is in the manifest."""
