"""PyTorch's caching allocator: what its rules make of requests
(c10/cuda/CUDACachingAllocator.cpp)."""

from fitgauge.engine.training.allocator.caching import CachingAllocator

MIB = 2**20


def test_less_than_ten_mib_are_cut_from_a_segment_of_twenty():
    allocator = CachingAllocator()
    for _ in range(2):
        allocator.take(9 * MIB)
    assert (allocator.reserved, allocator.allocated) == (20 * MIB, 18 * MIB)
    allocator.take(9 * MIB)
    assert allocator.reserved == 40 * MIB


def test_more_gets_a_segment_of_its_own_in_steps_of_two_mib():
    allocator = CachingAllocator()
    allocator.take(11 * MIB)
    assert (allocator.reserved, allocator.allocated) == (12 * MIB, 12 * MIB)
    allocator.take(10 * MIB + 512)
    assert (allocator.reserved, allocator.allocated) == (24 * MIB, 22 * MIB + 512)


def test_the_smallest_free_block_is_taken_and_its_rest_serves_others():
    allocator = CachingAllocator()
    for block in [allocator.take(size * MIB) for size in (64, 32, 48)]:
        allocator.give(block)
    taken = allocator.take(30 * MIB)
    assert taken.size == 30 * MIB
    assert taken.after is not None
    assert (taken.after.size, taken.after.free) == (2 * MIB, True)
    allocator.take(2 * MIB)
    assert allocator.reserved == 144 * MIB


def test_of_free_blocks_alike_the_one_with_the_lowest_address_is_taken():
    allocator = CachingAllocator()
    first, second = allocator.take(32 * MIB), allocator.take(32 * MIB)
    allocator.give(second)
    allocator.give(first)
    assert allocator.take(32 * MIB) is first


def test_a_block_in_pieces_serves_nothing_as_large_until_all_are_free():
    allocator = CachingAllocator()
    allocator.give(allocator.take(64 * MIB))
    pieces = [allocator.take(16 * MIB) for _ in range(4)]
    for piece in pieces[:3]:
        allocator.give(piece)
    assert allocator.reserved == 64 * MIB
    other = allocator.take(64 * MIB)
    assert allocator.reserved == 128 * MIB
    allocator.give(pieces[3])
    allocator.take(64 * MIB)
    assert allocator.reserved == 128 * MIB
    allocator.give(other)


def test_a_copy_two_mib_shorter_leaves_a_block_that_the_whole_does_not_fit():
    """Return what a loss that shifts its logits meets: the copy's gradient takes the free block
    of the whole."""
    allocator = CachingAllocator()
    whole, copy = allocator.take(100 * MIB), allocator.take(98 * MIB)
    allocator.give(whole)
    gradient = allocator.take(98 * MIB)
    allocator.give(copy)
    allocator.take(100 * MIB)
    assert allocator.reserved == 298 * MIB
    allocator.give(gradient)


def test_a_stream_keeps_its_blocks_to_itself():
    allocator = CachingAllocator()
    allocator.give(allocator.take(32 * MIB, 1))
    allocator.take(32 * MIB)
    assert allocator.reserved == 64 * MIB


def test_an_expandable_segment_grows_by_what_its_free_end_lacks():
    allocator = CachingAllocator(growing=True)
    first, last = allocator.take(30 * MIB), allocator.take(50 * MIB)
    assert allocator.reserved == 80 * MIB
    allocator.give(last)
    allocator.take(90 * MIB)
    assert allocator.reserved == 120 * MIB
    allocator.give(first)
    allocator.take(100 * MIB)
    assert allocator.reserved == 220 * MIB
