"""PyTorch's CUDA caching allocator: what a tensor takes beyond its own bytes.

Source: pytorch c10/cuda/CUDACachingAllocator.cpp, round_size, get_allocation_size and
should_split, default settings (no expandable segments)."""

MIN_BLOCK_BYTES = 512
"""kMinBlockSize: every size is rounded up to it."""
SMALL_BYTES = 2**20
"""kSmallSize: what is left of a block is given back as a free block only if it is larger than
this."""
LARGE_ALLOCATION_BYTES = 10 * 2**20
"""kMinLargeAlloc: from here on a tensor gets a segment of its own; smaller ones are cut from
shared segments without loss."""
LARGE_ROUNDING_BYTES = 2 * 2**20
"""kRoundLarge: a segment of one tensor is a multiple of it."""


def rounding_bytes(size: int) -> int:
    """Return the bytes that a fresh tensor of `size` bytes takes beyond them.

    A segment is rounded up to 2 MiB; up to 1 MiB left over stays with the tensor and is counted
    as allocated."""
    rounded = -(-size // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES
    if rounded < LARGE_ALLOCATION_BYTES:
        return rounded - size
    left = -rounded % LARGE_ROUNDING_BYTES
    return rounded - size + (left if left <= SMALL_BYTES else 0)
