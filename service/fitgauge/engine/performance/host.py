"""How fast a step and a prompt are where part of the weights lies in host memory: a CPU multiplies
them where they lie, or GPUs read them over their link."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.performance.decode import is_looked_up, visited_share
from fitgauge.engine.performance.prefill import LINK_EFFICIENCY, PCIE_GBPS
from fitgauge.engine.serving.engine_facts import Offload
from fitgauge.engine.weights.rank_bytes import ranks, share_bytes
from fitgauge.engine.weights.sharding import ShardedWeights, TensorGroup

Machine: TypeAlias = Literal["desktop", "server"]
"""What holds the GPUs: memory of two to four channels, or of eight and more."""


class Rates(NamedTuple):
    """How fast memory is read [10^9 B/s]."""

    low: float
    """10th percentile."""
    expected: float
    """As calibrated."""
    high: float
    """90th percentile."""


CPU_GBPS: Mapping[Machine, Rates] = MappingProxyType(
    {"desktop": Rates(29.0, 44.0, 58.0), "server": Rates(30.0, 190.0, 299.0)}
)
"""What a CPU reads of host memory while it multiplies with the weights there.

Calibrated on runs of llama.cpp and ik_llama.cpp with layers or experts on the CPU, in
tools/accuracy/host_speeds.jsonl: `expected` is the whole number with the least mean error (of
logarithms, every source weighing the same) over those marked `fit`, `low` and `high` are of all
of them; a test derives them from the rows. What the memory could read at most tells little: four
channels of DDR4 with 102 GB/s gave 44, two of DDR5 with 77 GB/s 42."""

LINK_SPREAD = (0.49, 1.0, 1 / LINK_EFFICIENCY)
"""Rate that weights get over a link, over LINK_EFFICIENCY of what it could: 10th percentile of the
prompts in the same file, for which a GPU reads what lies on the host once a chunk, and of vLLM's
steps; the efficiency as it is (their median is 1.07); the whole rate. Slowest where the memory is
not pinned."""

_PCIE = {8: PCIE_GBPS, 9: 2 * PCIE_GBPS, 10: 2 * PCIE_GBPS, 12: 2 * PCIE_GBPS}
"""One direction of PCIe x16 [10^9 B/s] by the first number of NVIDIA's compute capability: 4.0 of
Ampere and Ada, 5.0 since Hopper. Boards with fewer lanes lie within the interval."""
_OLDER_PCIE = PCIE_GBPS / 2
"""PCIe 3.0 x16, of NVIDIA's GPUs before them."""


class HostPart(NamedTuple):
    """What of a launch's weights lies in host memory, and how fast it is read there."""

    read_bytes: float
    """What a step reads of it, on one rank: weights, and cache of layers on the CPU [bytes]."""
    held_bytes: float
    """All weights there of one rank, which a chunk of a prompt visits [bytes]."""
    step: Rates
    """How fast a step reads it."""
    link: Rates
    """How fast a prompt does, over the GPU's link."""
    chunk_tokens: int
    """Tokens of a prompt in one pass."""

    def seconds_of_step(self) -> tuple[float, float, float]:
        """Return what a step waits for it [s]: slow, expected, fast."""
        low, expected, high = (self.read_bytes / (rate * 1e9) for rate in self.step)
        return low, expected, high

    def seconds_of_prompt(self, tokens: int) -> tuple[float, float, float]:
        """Return what a prompt waits for it [s], chunk by chunk: slow, expected, fast."""
        chunks = -(-tokens // self.chunk_tokens)
        low, expected, high = (chunks * self.held_bytes / (rate * 1e9) for rate in self.link)
        return low, expected, high


def link_rates(accelerator: Accelerator) -> Rates:
    """Return how fast a GPU reads host memory: over PCIe, unless the catalog has its link."""
    capability = accelerator.compute_capability
    pcie = _PCIE.get(capability[0], _OLDER_PCIE) if capability else PCIE_GBPS
    peak = accelerator.host_link_gbps or pcie
    low, expected, high = (peak * LINK_EFFICIENCY * spread for spread in LINK_SPREAD)
    return Rates(low, expected, high)


def multiplied_by_cpu(
    spec: ModelSpec,
    sharded: ShardedWeights,
    offload: Offload,
    machine: Machine,
    accelerator: Accelerator,
    *,
    cache_bytes: int,
    chunk_tokens: int,
) -> HostPart:
    """Return the part that a CPU multiplies where it lies, for one token of one request: of routed
    experts those that it visits.

    cache_bytes: of all layers; those of whole layers on the CPU are read there too. Prompts of 32
    tokens and more are multiplied on the GPU, to which their weights are copied. Source: ggml
    src/ggml-cuda/ggml-cuda.cu, ggml_backend_cuda_device_offload_op."""

    def on_host(share: TensorGroup) -> int:
        end = max(offload.layers, offload.experts) if share.experts else offload.layers
        return sum(number < end for number in share.layers)

    visited = visited_share(spec, 1)
    read = sum(
        on_host(share) * size * (visited if share.experts else 1.0)
        for share, size in _layer_groups(sharded)
    )
    held = sum(on_host(share) * size for share, size in _layer_groups(sharded))
    return HostPart(
        read_bytes=read * sharded.scale + cache_bytes * min(1, offload.layers / spec.layers),
        held_bytes=held * sharded.scale,
        step=CPU_GBPS[machine],
        link=link_rates(accelerator),
        chunk_tokens=chunk_tokens,
    )


def read_over_link(
    spec: ModelSpec,
    sharded: ShardedWeights,
    offloaded_bytes: int,
    accelerator: Accelerator,
    *,
    concurrency: int,
    tensor_parallel: int,
    chunk_tokens: int,
) -> HostPart:
    """Return the part that a GPU reads where it lies, over its link, for one token of every
    request.

    offloaded_bytes: of the layers of one rank. They are read in the proportion in which a step
    reads the layers: of routed experts those that it visits. Source: vllm
    model_executor/offloader/uva.py."""
    visited = visited_share(spec, concurrency)
    groups = list(_layer_groups(sharded, tensor_parallel))
    whole = sum(len(share.layers) * size for share, size in groups)
    read = sum(
        len(share.layers) * size * (visited if share.experts else 1.0) for share, size in groups
    )
    held = min(float(offloaded_bytes), whole * sharded.scale)
    rates = link_rates(accelerator)
    return HostPart(
        read_bytes=held * read / whole if whole else 0.0,
        held_bytes=held,
        step=rates,
        link=rates,
        chunk_tokens=chunk_tokens,
    )


def _layer_groups(
    sharded: ShardedWeights, tensor_parallel: int = 1
) -> list[tuple[TensorGroup, int]]:
    """Return the tensors of the decoder's layers but tables, each group with the bytes of one layer
    on one rank."""
    ways = ranks(sharded, tensor_parallel, 1, 1)
    return [
        (share, share_bytes(share, sharded.layout, ways))
        for share in sharded.shares
        if share.part is Part.LANGUAGE and share.place == "layers" and not is_looked_up(share)
    ]
