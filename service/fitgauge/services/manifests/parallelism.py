"""Settings that charts and custom resources state outside the command."""

from collections.abc import Mapping

from fitgauge.services.manifests.quantities import count_of
from fitgauge.services.manifests.yaml_text import Block, Text, text_at, text_of

SERVER_IMAGE = "llm-d/llm-d-cuda"
"""What LLMInferenceService and llm-d's chart start where no image is named."""
PARALLELISM = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
}
"""As llm-d's chart and LLMInferenceService name it."""
STACK_FLAGS = {
    "maxModelLen": "--max-model-len", "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size", "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization", "maxLoras": "--max-loras",
}  # fmt: skip
"""As the production stack names them, in the values of its chart and in its VLLMRuntime."""


def flags_of(block: Block, names: Mapping[str, str]) -> list[Text]:
    """Return the keys of a mapping as flags."""
    return [
        text_of(word, value.line)
        for key, flag in names.items()
        if (value := text_at(block, key)) is not None
        for word in (flag, value)
    ]


def pods_of_a_group(parallelism: Block) -> int:
    """Return the pods of a group: replicas of data parallelism over those of one pod."""
    data, local = (count_of(text_at(parallelism, key) or "1") for key in ("data", "dataLocal"))
    return 1 if data is None or local is None else max(1, data // max(1, local))
