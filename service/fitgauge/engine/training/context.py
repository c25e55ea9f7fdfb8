"""Context parallelism: what a rank's attention makes where every rank has a part of each sequence.

Three ways, by framework. PyTorch's ring (FSDP, as accelerate and torchtitan run it): keys and values are gathered once and met piece by
piece, outputs merged in fp32. DeepSpeed's Ulysses: ranks exchange tokens for heads, so that each sees whole sequences. Megatron's is
Transformer Engine's and is not played here. Measured: tests/accuracy/measure_context.py.
"""

from typing import Literal

from fitgauge.engine.training.tape import FLOAT
from fitgauge.engine.training.workload import TrainingWorkload

Way = Literal["ring", "ulysses"]


def way_of(workload: TrainingWorkload) -> Way | None:
    """How this framework divides attention over context-parallel ranks; None where it does not, or not by operations of PyTorch's."""
    if workload.context_parallel == 1 or workload.framework == "megatron":
        return None
    return "ulysses" if workload.framework == "deepspeed" else "ring"


def ring_forward_bytes(outputs: int, keys_values: int, ranks: int, width: int) -> int:
    """The most that a ring's forward pass makes beside its output [bytes].

    `outputs`: numbers of the rank's output, `keys_values`: of its own keys and values, of `width` bytes. All ranks' keys and values are
    gathered; merging holds the sum of outputs so far, the newest one, their difference and its product, each in fp32. Source:
    torch/distributed/tensor/experimental/_context_parallel/_attention.py, _AllGatherRotater, _SDPAMerger.
    """
    return ranks * keys_values * width + 4 * FLOAT * outputs


def ring_backward_bytes(queries: int, keys_values: int, ranks: int, width: int) -> int:
    """The most that a ring's backward pass makes beside what was saved and the gradients of output and inputs [bytes].

    Gradients are summed in fp32 while those of keys and values go round by all-to-all: each of three in fp32 is the running sum, what is
    sent and what comes. Highest of three moments: half of the queries' sums put into a new whole (for a rank that skips the keys after
    its own), a pass of attention beside the one before, the second copy of keys and values to gather (which only more than two ranks
    make). Source: the same, _templated_ring_attention_backward, _partial_update.
    """
    summed = 3 * FLOAT * keys_values
    updated = (2 * FLOAT + width / 2) * queries + 2 * width * keys_values
    passing = (FLOAT + 1.5 * width) * queries + 3 * width * keys_values
    copying = (FLOAT + width) * queries + 4 * width * keys_values
    most = max(updated, copying if ranks > 2 else passing)
    return int(most) + summed + ranks * keys_values * width - (queries + keys_values) * width


def repeated_heads(kv_heads: int, ranks: int) -> int:
    """How often Ulysses repeats every key head so that each of `ranks` gets one (deepspeed/runtime/sequence_parallel/ulysses_sp.py,
    kv_replication_factor)."""
    return max(1, ranks // kv_heads)
