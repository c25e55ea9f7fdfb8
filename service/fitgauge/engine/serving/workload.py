"""What is served and how: a serving question with every default filled in."""

from typing import Literal

import msgspec

EngineName = Literal[
    "vllm", "sglang", "tensorrt-llm", "llama.cpp", "ollama", "transformers", "tgi", "mlx"
]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A serving question in numbers.

    context_length: tokens one request may hold; concurrency: requests of that length held at
    once, over all replicas. Degrees: tensor x pipeline x data parallel is the number of GPUs;
    expert_parallel is a degree, 1 = off. cache_dtype: canonical, or `auto`: the engine's own
    choice. max_batched_tokens: tokens of one forward pass; max_num_seqs: requests the sampler is
    sized for. cache_pool_bytes: the pool of one GPU given outright, None for what is left of the
    budget. taken_bytes: of every GPU, held by others before an engine starts whose share is of
    the whole card all the same (vLLM); for the others the card is that much smaller. lora_slots:
    adapters held at once, each of at most lora_rank; speculative_tokens: tokens that the model's
    own prediction heads draft in every step, 0 = off."""

    engine: EngineName
    version: tuple[int, ...]
    context_length: int
    concurrency: int
    cache_dtype: str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: int = 1
    gpu_memory_utilization: float = 1.0
    max_batched_tokens: int
    max_num_seqs: int
    enforce_eager: bool = False
    eager_attention: bool = False
    cpu_offload_bytes: int = 0
    cache_pool_bytes: int | None = None
    taken_bytes: int = 0
    lora_slots: int = 0
    lora_rank: int = 16
    speculative_tokens: int = 0

    @property
    def requests_per_replica(self) -> int:
        """Requests the fullest replica holds at once."""
        return -(-self.concurrency // self.data_parallel)

    @property
    def gpus(self) -> int:
        """Ranks in all."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def communicating_ranks(self) -> int:
        """Ranks of one replica, or those over which experts are spread where these are more."""
        return max(self.tensor_parallel * self.pipeline_parallel, self.expert_parallel)
