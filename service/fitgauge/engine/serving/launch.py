"""What a launch command is made of, for every engine."""

import shlex
from typing import NamedTuple, Protocol

from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights

Flags = list[object]


class LaunchSettings(Protocol):
    """The settings that a request sets itself; None leaves the engine's default."""

    @property
    def gpu_memory_utilization(self) -> float | None:
        """The share of the device that the engine may use."""

    @property
    def max_num_seqs(self) -> int | None:
        """The most requests of one forward pass."""

    @property
    def max_batched_tokens(self) -> int | None:
        """The most tokens of one forward pass."""

    @property
    def cpu_offload_gib(self) -> float | None:
        """Weights of one GPU in host memory [GiB]."""

    @property
    def draft_model(self) -> str | None:
        """The Hub ID of a draft model."""


class NodeFlags(NamedTuple):
    """How a deployment runs over several machines: its command on the first of them, and what the
    others take."""

    flags: Flags
    """Further flags of the command on the first machine."""

    others: str
    """What to run on the others, as the end of a sentence."""


HEAD = "HEAD_NODE_IP"
"""The placeholder of the first machine's address."""


def machines(workload: Workload, gpus_of_a_node: int) -> int:
    """Return the fewest machines of one size, at most `gpus_of_a_node`, that the ranks go to
    without a group of tensor ranks that straddles two of them in part."""
    gpus, tensor = workload.gpus, workload.tensor_parallel
    return next(
        count
        for count in range(-(-gpus // gpus_of_a_node), gpus + 1)
        if gpus % count == 0 and (gpus // count % tensor == 0 or tensor % (gpus // count) == 0)
    )


class Launch(NamedTuple):
    """One deployment to start."""

    model: Model
    """The model whose weights are loaded."""

    repository: str
    """What the engine loads: a repository, a tag, or a placeholder to replace."""

    settings: LaunchSettings
    """The settings that the request sends or the answer chooses."""
    workload: Workload
    """The deployment, every default filled in."""

    revision: str | None
    """The revision of the repository, where the request names one."""

    quantization: str | None
    """The engine's own word for the format it quantizes to while it loads."""

    dtype: str | None
    """The engine's own word for the dtype of the weights, where another is requested than the
    repository has."""

    kv_cache_dtype: str | None
    """The engine's own word for the format of the KV cache; None for its default."""

    pool_tokens: int | None
    """The tokens of a KV cache given outright."""

    weights: ShardedWeights | None
    """The sharded weights; None where the command does not depend on them."""

    nodes: int = 1
    """The machines it runs on."""


def shell(flags: Flags) -> str:
    """Return the command line, quoted for a shell."""
    return shlex.join(str(flag) for flag in flags)


def optional(*pairs: tuple[str, object]) -> Flags:
    """Return the flags that have a value."""
    return [part for flag, value in pairs if value is not None for part in (flag, value)]


def degree(ranks: int) -> int | None:
    """Return a degree of parallelism; None for 1, the default."""
    return ranks if ranks > 1 else None
