"""Pages of unlike size in one block, DeepSeek V4's layout, as the releases before 0.29 pack them.

A repeat is one layer of every page size of the group that attends to all tokens. Sources:
v1/core/kv_cache_utils.py of 0.22.0 and 0.23.0 (_get_kv_cache_config_deepseek_v4), of 0.25.0
(_bucket_layers_by_page_size, get_max_concurrency_for_kv_cache_config,
_max_memory_usage_bytes_from_groups) and of 0.27.0 (_get_packed_kv_cache_layout)."""

from bisect import bisect_left
from typing import NamedTuple

from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.kv_cache.groups import Members, layers_by_page
from fitgauge.engine.serving.vllm.kv_cache.specs import SpecKind


class Packing(NamedTuple):
    """How a release fills its blocks with the layers of one stage."""

    groups: tuple[Members, ...]
    """The groups, with their pages as they are padded."""
    block_bytes: int
    """What the pool is divided by."""
    checked_bytes: int
    """What the check at start counts for every block of a request."""
    unit_bytes: int
    """Bytes that a request's blocks are counted in; 0: a block of any group counts as one."""


def packing(groups: tuple[Members, ...], version: tuple[int, ...]) -> Packing | None:
    """Return how groups of unlike pages are packed; None for other models, for a stage without
    compressed entries, and from `releases.REPEATS_COUNTED_ONCE` on, where a block is as large as
    the largest group."""
    if version >= releases.REPEATS_COUNTED_ONCE or not any(
        spec.kind == SpecKind.SLIDING_LATENT for group in groups for spec, _ in group
    ):
        return None
    whole = next((group for group in groups if group[0][0].kind == SpecKind.FULL), None)
    if whole is None or not layers_by_page(whole):
        return None
    sizes = sorted(layers_by_page(whole))
    pages = groups if version >= releases.PAGES_OVERLAID else padded(groups, sizes)
    counts = [layers_by_page(group) for group in pages]
    repeats = max(max(count.values(), default=0) for count in counts)
    repeated = repeats * sum(sizes)
    if version >= releases.PAGES_OVERLAID:
        largest = max(group_bytes(group) for group in pages)
        return Packing(pages, largest, repeated, 0)
    slots = sum(size * max(count.get(size, 0) for count in counts) for size in sizes)
    by_repeats = version < releases.PAGES_IN_SLOTS
    return Packing(pages, repeated if by_repeats else slots, repeated, group_bytes(whole))


def padded(groups: tuple[Members, ...], sizes: list[int]) -> tuple[Members, ...]:
    """Return the groups with every page raised to the next of `sizes`, the largest at most."""
    return tuple(
        tuple(
            (spec._replace(page=sizes[min(bisect_left(sizes, spec.page), len(sizes) - 1)]), layers)
            for spec, layers in group
        )
        for group in groups
    )


def group_bytes(group: Members) -> int:
    """Return the bytes of all layers of a group for every block."""
    return sum(spec.page * len(layers) for spec, layers in group)
