"""Context parallelism: what a rank's attention makes where every rank has a part of each sequence.

Three ways, by framework. PyTorch's ring (FSDP, as accelerate and torchtitan run it): keys and
values are gathered once and met piece by piece, outputs merged in fp32. DeepSpeed's Ulysses:
ranks exchange tokens for heads, so that each sees whole sequences. Both measured:
tools/accuracy/measure_context.py. Megatron's is Transformer Engine's own ring, its
--cp-comm-type p2p: keys and values go from rank to rank while attention to the ones before is
computed. Derived from its source, not measured."""

from typing import Literal

from fitgauge.engine.training.autograd.operations import FLOAT
from fitgauge.engine.training.workload import TrainingWorkload

Way = Literal["ring", "ulysses", "p2p"]


def way_of(workload: TrainingWorkload) -> Way | None:
    """Return how this framework divides attention over context-parallel ranks; None where it
    does not."""
    if workload.context_parallel == 1:
        return None
    if workload.framework == "megatron":
        return "p2p"
    return "ulysses" if workload.framework == "deepspeed" else "ring"


def ring_forward_bytes(outputs: int, keys_values: int, ranks: int, width: int) -> int:
    """Return the most that a ring's forward pass makes besides its output [bytes].

    `outputs`: numbers of the rank's output, `keys_values`: of its own keys and values, of
    `width` bytes. All ranks' keys and values are gathered; merging holds the sum of outputs so
    far, the newest one, their difference and its product, each in fp32. Source:
    torch/distributed/tensor/experimental/_context_parallel/_attention.py, _AllGatherRotater,
    _SDPAMerger."""
    return ranks * keys_values * width + 4 * FLOAT * outputs


def ring_backward_bytes(queries: int, keys_values: int, ranks: int, width: int) -> int:
    """Return the most that a ring's backward pass makes besides what was saved and the gradients of
    output and inputs [bytes].

    Gradients are summed in fp32 while those of keys and values go round by all-to-all: each of
    three in fp32 is the running sum, what is sent and what comes. Highest of three moments: half
    of the queries' sums put into a new whole (for a rank that skips the keys after its own), a
    pass of attention next to the one before, the second copy of keys and values to gather (which
    only more than two ranks make). Source: the same, _templated_ring_attention_backward,
    _partial_update."""
    summed = 3 * FLOAT * keys_values
    updated = (2 * FLOAT + width / 2) * queries + 2 * width * keys_values
    passing = (FLOAT + 1.5 * width) * queries + 3 * width * keys_values
    copying = (FLOAT + width) * queries + 4 * width * keys_values
    most = max(updated, copying if ranks > 2 else passing)
    return int(most) + summed + ranks * keys_values * width - (queries + keys_values) * width


def passed_forward_bytes(outputs: int, keys_values: int, sums: int, ranks: int, width: int) -> int:
    """Return the most that Transformer Engine's ring makes in a forward pass besides its output and
    the keys and values it saves [bytes].

    `outputs`, `keys_values`: numbers of the rank's output, and of its keys and values, of
    `width` bytes; `sums`: of the fp32 logs of the sums of exponentials. Every rank's keys and
    values come into a buffer of their own, of which the last is saved; the output for each of
    them is there until all are merged, whole on the last rank, which no mask spares any. Source:
    Transformer Engine, pytorch/attention/dot_product_attention/context_parallel.py,
    AttnFuncWithCPAndKVP2P.forward (p2p_comm_buffers, out_per_step)."""
    return ((ranks - 1) * keys_values + ranks * outputs) * width + ranks * sums * FLOAT


def passed_backward_bytes(queries: int, keys_values: int, width: int) -> int:
    """Return the most that Transformer Engine's ring makes in a backward pass besides what was
    saved and the gradients it gives back [bytes].

    Two buffers go round, each of keys and values and their gradients, one of which is given
    back; a step makes new gradients of all three. Source: the same,
    AttnFuncWithCPAndKVP2P.backward (p2p_comm_buffers, dq_, dk_, dv_)."""
    return (queries + 4 * keys_values) * width


def repeated_heads(kv_heads: int, ranks: int) -> int:
    """Return how often Ulysses repeats every key head so that each of `ranks` gets one
    (deepspeed/runtime/sequence_parallel/ulysses_sp.py, kv_replication_factor)."""
    return max(1, ranks // kv_heads)
