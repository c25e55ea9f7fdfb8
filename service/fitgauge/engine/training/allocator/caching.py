"""PyTorch's caching allocator, played in sizes: which blocks it splits, joins and keeps.

Source: pytorch c10/cuda/CUDACachingAllocator.cpp (DeviceCachingAllocator: get_free_block,
alloc_block, should_split, free_block, try_merge_blocks, try_allocate_expandable_block) with its
default settings. Requests up to 1 MiB come from pools of their own, which are left out."""

from bisect import bisect_left, insort

from fitgauge.engine.serving.allocator import (
    LARGE_ALLOCATION_BYTES,
    LARGE_ROUNDING_BYTES,
    MIN_BLOCK_BYTES,
    SMALL_BYTES,
)

LARGE_SEGMENT_BYTES = 20 * 2**20
"""kLargeBuffer: the segment that a request below LARGE_ALLOCATION_BYTES is cut from; expandable
segments grow by it."""
_ADDRESS_BITS = 64
"""Of a free block's number, below its size."""


class Block:
    """A stretch of a segment [bytes], with its neighbours there."""

    __slots__ = ("address", "after", "before", "free", "pool", "size")

    def __init__(
        self, address: int, size: int, pool: "_Pool", before: "Block | None", after: "Block | None"
    ) -> None:
        self.address, self.size, self.pool = address, size, pool
        self.before, self.after = before, after
        self.free = False


class _Pool:
    """The free blocks of one stream by number, of which the order is that of sizes, the lowest
    address first; `last`: the block at the end of an expandable segment."""

    __slots__ = ("free", "last", "numbers")

    def __init__(self) -> None:
        self.free: dict[int, Block] = {}
        self.numbers: list[int] = []
        self.last: Block | None = None

    def drop(self, block: Block) -> None:
        """Take out this free block."""
        number = block.size << _ADDRESS_BITS | block.address
        del self.free[number], self.numbers[bisect_left(self.numbers, number)]


class CachingAllocator:
    """The allocator of one process on one card. `reserved`: bytes of its segments, none of which
    it gives back; `allocated`: of blocks in use, `most_allocated` at once. `growing`: segments
    are expandable."""

    def __init__(self, *, growing: bool = False) -> None:
        self.growing = growing
        self.reserved = self.allocated = self.most_allocated = 0
        self._pools: dict[int, _Pool] = {}
        self._whole = 0 if growing else SMALL_BYTES

    def take(self, size: int, stream: int = 0) -> Block:
        """Return a block for a tensor of `size` bytes made on `stream`, the smallest free one
        that holds it: its rest stays free if it is larger than 1 MiB (of an expandable segment,
        always)."""
        pool = self._pools.get(stream)
        if pool is None:
            pool = self._pools[stream] = _Pool()
        size = -(-size // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES
        numbers = pool.numbers
        smallest = bisect_left(numbers, size << _ADDRESS_BITS)
        if smallest < len(numbers):
            block = pool.free.pop(numbers.pop(smallest))
            block.free = False
        else:
            block = self._grown(pool, size) if self.growing else self._segment(pool, size)
        left = block.size - size
        if left > self._whole:
            rest = Block(block.address + size, left, pool, block, block.after)
            if rest.after is not None:
                rest.after.before = rest
            if pool.last is block:
                pool.last = rest
            block.after, block.size, rest.free = rest, size, True
            number = left << _ADDRESS_BITS | rest.address
            pool.free[number] = rest
            insort(numbers, number)
        else:
            size = block.size
        self.allocated += size
        if self.allocated > self.most_allocated:
            self.most_allocated = self.allocated
        return block

    def give(self, block: Block) -> None:
        """Give a block back to its pool, joined with its free neighbours."""
        size, pool, before, after = block.size, block.pool, block.before, block.after
        self.allocated -= size
        if before is not None and before.free:
            pool.drop(before)
            size += before.size
            block.address, block.before = before.address, before.before
            if block.before is not None:
                block.before.after = block
        if after is not None and after.free:
            pool.drop(after)
            size += after.size
            block.after = after.after
            if block.after is not None:
                block.after.before = block
            if pool.last is after:
                pool.last = block
        block.size, block.free = size, True
        number = size << _ADDRESS_BITS | block.address
        pool.free[number] = block
        insort(pool.numbers, number)

    def _segment(self, pool: _Pool, size: int) -> Block:
        """Return a new segment: 20 MiB for less than 10, else as large as asked, in steps of 2
        MiB."""
        whole = (
            LARGE_SEGMENT_BYTES
            if size < LARGE_ALLOCATION_BYTES
            else -(-size // LARGE_ROUNDING_BYTES) * LARGE_ROUNDING_BYTES
        )
        block = Block(self.reserved, whole, pool, None, None)
        self.reserved += whole
        return block

    def _grown(self, pool: _Pool, size: int) -> Block:
        """Return the end of the stream's one segment, grown in steps of 20 MiB until it holds
        `size`."""
        block = pool.last
        if block is not None and block.free:
            pool.drop(block)
            block.free = False
        else:
            address = 0 if block is None else block.address + block.size
            block = Block(address, 0, pool, block, None)
            if block.before is not None:
                block.before.after = block
            pool.last = block
        added = -(-(size - block.size) // LARGE_SEGMENT_BYTES) * LARGE_SEGMENT_BYTES
        block.size += added
        self.reserved += added
        return block
