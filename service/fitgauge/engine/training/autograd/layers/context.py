"""Context parallelism: buffers of attention where each rank holds a part of every sequence.

Three ways, by framework. PyTorch's ring (FSDP, as accelerate and torchtitan run it): keys and
values are gathered once, attention runs piece by piece, outputs are merged in fp32. DeepSpeed's
Ulysses: ranks exchange tokens for heads, so that each attends over whole sequences. Both were
measured: tools/accuracy/measure_context.py. Megatron's is Transformer Engine's ring (--cp-comm-type
p2p): keys and values go from rank to rank while attention to the previous ones runs; derived from
its source, not measured."""

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
    """Return the peak of a ring's forward pass, its output apart [bytes].

    `outputs`: elements of the rank's output; `keys_values`: of its own keys and values, of `width`
    bytes. All ranks' keys and values are gathered. Merging holds four tensors in fp32: the sum of
    outputs so far, the newest output, their difference and its product. Source:
    torch/distributed/tensor/experimental/_context_parallel/_attention.py, _AllGatherRotater,
    _SDPAMerger."""
    return ranks * keys_values * width + 4 * FLOAT * outputs


def ring_backward_bytes(queries: int, keys_values: int, ranks: int, width: int) -> int:
    """Return the peak of a ring's backward pass, saved tensors and the gradients of output and
    inputs apart [bytes].

    Gradients are summed in fp32; those of keys and values go round by all-to-all, so that each is
    held three times: the running sum, the buffer sent and the buffer received. The highest of three
    moments: half of the queries' sums copied into a new whole (on a rank that skips the keys after
    its own), a pass of attention next to the one before, and the second copy of keys and values to
    gather (only with more than two ranks). Source: the same, _templated_ring_attention_backward,
    _partial_update."""
    summed = 3 * FLOAT * keys_values
    updated = (2 * FLOAT + width / 2) * queries + 2 * width * keys_values
    passing = (FLOAT + 1.5 * width) * queries + 3 * width * keys_values
    copying = (FLOAT + width) * queries + 4 * width * keys_values
    most = max(updated, copying if ranks > 2 else passing)
    return int(most) + summed + ranks * keys_values * width - (queries + keys_values) * width


def passed_forward_bytes(outputs: int, keys_values: int, sums: int, ranks: int, width: int) -> int:
    """Return the peak of the forward pass of Transformer Engine's ring, its output and the saved
    keys and values apart [bytes].

    `outputs`, `keys_values`: elements of the rank's output, and of its keys and values, of `width`
    bytes; `sums`: of the fp32 log-sum-exp. Every rank's keys and values are received in a buffer of
    their own, of which the last is saved. The outputs of all steps live until they are merged; on
    the last rank no mask shortens any of them. Source: Transformer Engine,
    pytorch/attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndKVP2P.forward
    (p2p_comm_buffers, out_per_step)."""
    return ((ranks - 1) * keys_values + ranks * outputs) * width + ranks * sums * FLOAT


def passed_backward_bytes(queries: int, keys_values: int, width: int) -> int:
    """Return the peak of the backward pass of Transformer Engine's ring, saved tensors and returned
    gradients apart [bytes].

    Two buffers go round, each with keys, values and their gradients; one of them is returned. A
    step makes new gradients of queries, keys and values. Source: the same,
    AttnFuncWithCPAndKVP2P.backward (p2p_comm_buffers, dq_, dk_, dv_)."""
    return (queries + 4 * keys_values) * width


def repeated_heads(kv_heads: int, ranks: int) -> int:
    """Return how often Ulysses repeats every key head to give each of `ranks` one
    (deepspeed/runtime/sequence_parallel/ulysses_sp.py, kv_replication_factor)."""
    return max(1, ranks // kv_heads)
