"""What is served and how: a serving request with every default filled in."""

from collections.abc import Mapping

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.options import EngineOptions

EngineName = str
"""The name of a row of `registry.ENGINES`."""


class Workload(EngineOptions, frozen=True, kw_only=True):
    """A serving request in numbers.

    Fields have the names of the request's; what a request sends in GiB (`_gib`) is here in bytes
    (`_bytes`). An option (`EngineOptions`) is a field without a line here; those below narrow it by
    a default. Tensor x pipeline x data parallel is the number of GPUs."""

    engine: EngineName
    engine_version: tuple[int, ...]
    context_length: int
    """Tokens that one request may hold."""
    between_releases: bool = False
    """Whether the engine is a build that may have what `engine_version` does not tell."""
    concurrency: int
    """Requests of that length held at once, over all replicas."""
    kv_cache_dtype: str
    """Canonical, or `auto`: the engine's own choice."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: int = 1
    """A degree; 1 is off."""
    gpu_memory_utilization: float = 1.0
    max_batched_tokens: int
    """Tokens of one forward pass."""
    max_num_seqs: int
    """Requests that the sampler is sized for."""
    enforce_eager: bool = False
    cpu_offload_bytes: int = 0
    """Weights of every GPU in host memory."""
    n_gpu_layers: int | None = None
    """None where all layers and the output are on the GPUs."""
    n_cpu_moe: int = 0
    """0 for a model without experts."""
    kv_cache_memory_bytes: int | None = None
    """The pool of one GPU; None for what is left of the budget."""
    other_memory_bytes: int = 0
    """What others hold of every GPU, for an engine whose share is of the whole GPU all the same
    (vLLM); for the others the GPU is that much smaller."""
    lora_slots: int = 0
    """Adapters held at once, each of at most `lora_rank`."""
    lora_rank: int = 16
    """The default is vLLM's. Source: config/lora.py, max_lora_rank."""
    speculative_tokens: int = 0
    """Tokens drafted in every step; 0 is off."""
    pooling: bool = False
    """Every request ends with the vector of its text."""
    language_model_only: bool = False
    """Of a model that also reads images or sound, only what reads text is there."""
    rope_scaling_factor: float = 0.0
    """The factor of YaRN; 0: positions are as the config has them."""
    kv_offload_gib: float = 0.0
    """Host memory of every GPU for KV cache; 0 is off."""
    free_bytes: tuple[int, ...] = ()
    """Usable memory of every GPU where layers go over GPUs of several kinds: no request field,
    derived from `gpu`."""
    float32: bool = False
    """The model runs in 32 bits, and a cache of its own format does too: no request field, derived
    from `quantization`."""
    requantized: bool = False
    """The weights are in a format that the checkpoint is not published in: no request field,
    derived from `quantization`."""

    def settings(self, spec: ModelSpec) -> Mapping[str, object]:
        """Return the config's quantization of the weights that are loaded; empty where they are
        not in the format that the model is published in."""
        return {} if self.requantized else spec.quantization or {}

    @property
    def requests_per_replica(self) -> int:
        """Requests the fullest replica holds at once: of texts that are pooled those of one pass,
        since each leaves the cache with its vector.

        Source: vllm/v1/core/sched/scheduler.py, update_from_output ("Pooling stops as soon as
        there is output")."""
        requests = -(-self.concurrency // self.data_parallel)
        if self.pooling:
            return min(requests, max(1, -(-self.max_batched_tokens // self.context_length)))
        return requests

    @property
    def offloads(self) -> bool:
        """Whether weights stay in host memory: so many bytes, or those of stated layers."""
        return bool(self.cpu_offload_bytes or self.n_cpu_moe) or self.n_gpu_layers is not None

    @property
    def kv_offload_bytes(self) -> int:
        """Host memory of every GPU for KV cache."""
        return int(self.kv_offload_gib * GIB)

    @property
    def gpus(self) -> int:
        """Ranks in all."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def communicating_ranks(self) -> int:
        """Ranks of one replica, or those over which experts are spread where these are more."""
        return max(self.tensor_parallel * self.pipeline_parallel, self.expert_parallel)
