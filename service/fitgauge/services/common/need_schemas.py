"""Parts of an answer without a GPU: what a model needs, and the GPUs that hold it."""

from typing import Annotated, Literal

from msgspec import Struct

from fitgauge.engine.quantity import Bytes
from fitgauge.field_docs import doc

Fields = dict[str, str | int | float | bool]


class MemoryNeed(Struct, kw_only=True):
    """The least that a workload takes in one format, or by one training method, on one GPU
    [bytes]."""

    name: Annotated[str, doc("The format (bf16, fp8, awq) or the method (lora, qlora, full).")]
    engine: Annotated[str | None, doc("Null for training.")]
    required_bytes: Annotated[Bytes, doc("The sum of all terms.")]
    weights_bytes: Annotated[int, doc("The weights alone.")]
    kv_cache_bytes: Annotated[
        int, doc("KV cache and recurrent states of all requests; 0 for training.")
    ]
    request: Annotated[Fields, doc("Fields to send with a `gpu`.")]


class SmallestGpus(Struct, kw_only=True):
    """GPUs sold today that hold the workload."""

    reasons: Annotated[
        list[Literal["fewest", "cheapest", "fastest"]],
        doc("fewest GPUs (of these the cheapest), cheapest an hour, fastest on the fewest GPUs."),
    ]
    name: Annotated[str, doc("The format or the method, as in `needs`.")]
    gpu: Annotated[str, doc("Name of the GPU.")]
    gpu_count: Annotated[int, doc("How many of it.")]
    required_bytes: Annotated[int, doc("Expected, of the fullest GPU.")]
    usd_per_hour: Annotated[float | None, doc("Lowest known price on demand.")]
    request: Annotated[Fields, doc("The request that fits.")]
    command: Annotated[str, doc("The command that starts it.")]
