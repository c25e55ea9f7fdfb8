"""PyTorch's caching allocator, played in sizes: which blocks it splits, joins and keeps.

Source: pytorch c10/cuda/CUDACachingAllocator.cpp (DeviceCachingAllocator: get_free_block, alloc_block, should_split, free_block,
try_merge_blocks, try_allocate_expandable_block) with its default settings. Requests up to 1 MiB come from pools of their own, which are
left out.
"""

from bisect import bisect_left, insort

from fitgauge.engine.allocator import LARGE_ALLOCATION_BYTES, LARGE_ROUNDING_BYTES, MIN_BLOCK_BYTES, SMALL_BYTES

LARGE_SEGMENT_BYTES = 20 * 2**20
"""kLargeBuffer: the segment that a request below LARGE_ALLOCATION_BYTES is cut from; expandable segments grow by it."""


class Block:
    """A stretch of a segment [bytes], with its neighbours there."""

    __slots__ = ("address", "after", "before", "free", "pool", "size")

    def __init__(self, address: int, size: int, pool: "_Pool") -> None:
        self.address, self.size, self.pool, self.free = address, size, pool, True
        self.before: Block | None = None
        self.after: Block | None = None


class _Pool:
    """The free blocks of one stream, by size, the lowest address first. `sizes`: in order, those there are or were; `last`: the block at
    the end of an expandable segment."""

    def __init__(self) -> None:
        self.free: dict[int, list[tuple[int, Block]]] = {}
        self.sizes: list[int] = []
        self.last: Block | None = None

    def put(self, block: Block) -> None:
        """Adds a free block."""
        alike = self.free.get(block.size)
        if alike is None:
            self.free[block.size] = [(block.address, block)]
            insort(self.sizes, block.size)
        else:
            insort(alike, (block.address, block))

    def pick(self, size: int) -> Block | None:
        """Takes out the smallest free block of at least `size`, the lowest of several."""
        fitting = self.free.get(size)
        if fitting:
            return fitting.pop(0)[1]
        number = bisect_left(self.sizes, size)
        while number < len(self.sizes):
            alike = self.free[self.sizes[number]]
            if alike:
                return alike.pop(0)[1]
            del self.free[self.sizes.pop(number)]
        return None

    def drop(self, block: Block) -> None:
        """Takes out this free block."""
        alike = self.free[block.size]
        del alike[0 if alike[0][1] is block else bisect_left(alike, (block.address,))]


class CachingAllocator:
    """The allocator of one process on one card. `reserved`: bytes of its segments, none of which it gives back; `allocated`: of blocks in
    use, `most_allocated` at once. `growing`: segments are expandable."""

    def __init__(self, *, growing: bool = False) -> None:
        self.growing = growing
        self.reserved = self.allocated = self.most_allocated = 0
        self._pools: dict[int, _Pool] = {}

    def take(self, size: int, stream: int = 0) -> Block:
        """A block for a tensor of `size` bytes made on `stream`: the rest of a free one stays free if it is larger than 1 MiB (of an
        expandable segment, always)."""
        pool = self._pools.get(stream)
        if pool is None:
            pool = self._pools[stream] = _Pool()
        size = -(-size // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES
        block = pool.pick(size) or (self._grown(pool, size) if self.growing else self._segment(pool, size))
        left = block.size - size
        if left > (0 if self.growing else SMALL_BYTES):
            rest = Block(block.address + size, left, pool)
            rest.before, rest.after, block.after, block.size = block, block.after, rest, size
            if rest.after is not None:
                rest.after.before = rest
            if pool.last is block:
                pool.last = rest
            pool.put(rest)
        block.free = False
        self.allocated += block.size
        if self.allocated > self.most_allocated:
            self.most_allocated = self.allocated
        return block

    def give(self, block: Block) -> None:
        """Gives a block back to its pool, joined with its free neighbours."""
        self.allocated -= block.size
        pool, before, after = block.pool, block.before, block.after
        if before is not None and before.free:
            pool.drop(before)
            block.address, block.size, block.before = before.address, block.size + before.size, before.before
            if block.before is not None:
                block.before.after = block
        if after is not None and after.free:
            pool.drop(after)
            block.size, block.after = block.size + after.size, after.after
            if block.after is not None:
                block.after.before = block
            if pool.last is after:
                pool.last = block
        block.free = True
        pool.put(block)

    def _segment(self, pool: _Pool, size: int) -> Block:
        """A new segment: 20 MiB for less than 10, else as large as asked, in steps of 2 MiB."""
        whole = LARGE_SEGMENT_BYTES if size < LARGE_ALLOCATION_BYTES else -(-size // LARGE_ROUNDING_BYTES) * LARGE_ROUNDING_BYTES
        block = Block(self.reserved, whole, pool)
        self.reserved += whole
        return block

    def _grown(self, pool: _Pool, size: int) -> Block:
        """The end of the stream's one segment, grown in steps of 20 MiB until it holds `size`."""
        last = pool.last
        if last is not None and last.free:
            pool.drop(last)
            block = last
        else:
            block = Block(0 if last is None else last.address + last.size, 0, pool)
            block.before, pool.last = last, block
            if last is not None:
                last.after = block
        added = -(-(size - block.size) // LARGE_SEGMENT_BYTES) * LARGE_SEGMENT_BYTES
        block.size += added
        self.reserved += added
        return block
