"""How containers start Text Generation Inference.

Source: docs/source/reference/launcher.md: every flag is a variable too, and by default the
launcher shards over all GPUs; bitsandbytes and eetq are 8 bits, fp4 is as large as nf4."""

from fitgauge.engine.serving.container import ContainerStart

CONTAINER = ContainerStart(
    images=("text-generation-inference",),
    programs=(("text-generation-launcher",),),
    model_flags=("--model-id",),
    variables={
        name.removeprefix("--").replace("-", "_").upper(): name + " {}"
        for name in (
            "--model-id", "--num-shard", "--quantize", "--kv-cache-dtype", "--max-total-tokens",
            "--max-batch-prefill-tokens", "--max-batch-size", "--cuda-memory-fraction",
        )
    },
    quantizations={
        "bitsandbytes": "int8", "bitsandbytes-nf4": "nf4", "bitsandbytes-fp4": "nf4",
        "eetq": "int8",
    },
    default_values={"--dtype": frozenset({"float16", "bfloat16"})},
    unrelated_flags=frozenset(
        {
            "--api-key", "--disable-custom-kernels", "--hostname", "--huggingface-hub-cache",
            "--json-output", "--max-concurrent-requests", "--max-input-length",
            "--max-input-tokens", "--port", "--sharded", "--trust-remote-code",
            "--usage-stats", "--validation-workers",
        }
    ),
    takes_all_gpus=True,
)  # fmt: skip
