"""What a reader must know of an estimate besides its numbers."""

from typing import Annotated, Literal

from msgspec import Struct

from fitgauge.field_docs import doc

NoteCode = Literal[
    # the model
    "answered-from-snapshot",
    "architecture-unknown",
    "architecture-unverified",
    "dtype-unknown",
    "draft-model-alone",
    "experts-unquantized",
    "gguf-file-chosen",
    "gguf-layers-differ",
    "hub-counts-missing",
    "language-model-unknown",
    "layers-omitted",
    "layers-share-weights",
    "model-is-a-size",
    "model-read-as",
    "model-without-weights",
    "parameter-count-differs",
    "quantization-method-missing",
    "quantization-unknown",
    "recurrent-layers-as-attention",
    "repository-renamed",
    "sliding-window-unused",
    "source-length-assumed",
    "vision-tower-assumed",
    # the GPUs
    "gpu-count-conflict",
    "gpu-quota",
    "gpu-read-as",
    "gpu-unknown",
    "gpus-idle",
    "other-memory-uncounted",
    "overheads-from-cuda",
    "tensor-parallel-across-nodes",
    # serving
    "architecture-unlisted",
    "checkpoint-loaded",
    "checkpoint-needed",
    "context-exceeds-model",
    "positions-scaled",
    "engine-ignores-field",
    "engine-plugin",
    "engine-version-unknown",
    "field-ignored",
    "flash-attention-unsupported",
    "int8-is-llm-int8",
    "kv-offload-in-shared-memory",
    "kv-transfer",
    "memory-outside-share",
    "one-request-at-a-time",
    "requests-queued",
    "server-settings",
    "starts-with-less",
    "weights-offloaded",
    "wheels-for-newer-gpus",
    # the command
    "checkpoint-quantized",
    "command-lacks-flag",
    "command-of-another-release",
    "command-of-another-tool",
    "command-of-one-node",
    "command-placeholders",
    # training
    "activations-by-rule",
    "activations-omitted",
    "activations-unverified",
    "attention-falls-back",
    "base-loaded-whole",
    "evaluation-needs-more",
    "fp8-activations-uncounted",
    "framework-implied",
    "group-size-uneven",
    "kernels-need-trainer",
    "no-change-fits",
    "offload-optimizer-only",
    "recompute-without-effect",
    "recurrent-kernels-assumed",
    "reference-offloaded",
    "rollout-memory-held",
    "run-not-estimated",
    "saved-masks-of-cuda",
    "sharded-not-replicated",
    "stages-uneven",
    "tool-defaults",
    # searches over the catalog
    "context-length-assumed",
    "gpus-searched",
    "owned-gpus-free",
    "pooling-unset",
    "prices-dated",
    "prices-unknown",
    "speeds-estimated",
    "speeds-at-peak",
    # logs and utilization
    "flag-ignored",
    "log-without-format",
    "log-without-gpu",
    "throughput-above-peak",
    "throughput-conflict",
]
"""The codes of warnings, stable from release to release. docs/CODES.md says what each means."""


class Note(Struct, frozen=True):
    """A warning."""

    code: Annotated[NoteCode, doc("A stable code, which callers may act on.")]
    field: Annotated[str | None, doc("The request field concerned; null for none.")]
    message: Annotated[str, doc("One sentence for people.")]
