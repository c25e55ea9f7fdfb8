"""Layers into groups that share one pool of blocks, as vLLM 0.33.0 does it
(`v1/core/kv_cache_planning.py`, get_kv_cache_groups)."""

from bisect import bisect_left
from collections.abc import Sequence

from fitgauge.engine.serving.vllm.kv_cache.specs import KvSpec, SpecKind
from fitgauge.engine.unsupported import UnsupportedError

Layers = tuple[int, ...]
Member = tuple[KvSpec, Layers]
"""A kind of layer and the numbers of the layers that are of it."""
Members = tuple[Member, ...]


def grouped(members: Sequence[Member], *, packed: bool) -> tuple[Members, ...]:
    """Return the groups of a model's layers. `packed`: pages of unlike size may lie side by side in
    a block (DeepSeek V4's layout).

    Layers of one type make one group. Else their pages are made equal and every kind is cut into
    groups of one size."""
    merged = merge(members)
    if not merged:
        return ()
    if len(merged) == 1 or one_type(merged):
        return (merged,)
    if packed and len({spec.page for spec, _ in merged}) > 1:
        return packed_groups(merged)
    largest = max(spec.page for spec, _ in merged)
    if all(can_be_raised(spec, largest) for spec, _ in merged):
        return equal_page_groups(
            tuple((equal_page(spec, largest), layers) for spec, layers in merged)
        )
    return (without_windows(merged),)


def merge(members: Sequence[Member]) -> Members:
    """Equal specs as one member, in order of first appearance; its layers in order."""
    if len({spec for spec, _ in members}) == len(members):
        return tuple(members)
    by_page: dict[KvSpec, Layers] = {}
    for spec, layers in members:
        by_page[spec] = by_page.get(spec, ()) + layers
    return tuple((spec, tuple(sorted(layers))) for spec, layers in by_page.items())


def one_type(members: Sequence[Member]) -> bool:
    """Return whether all layers need the same tokens' slots: one kind, one block size, one window;
    states of one page size.

    Source: UniformTypeKVCacheSpecs.is_uniform_type.
    """
    first = members[0][0]
    return all(
        spec.kind == first.kind
        and spec.block == first.block
        and spec.extent == first.extent
        and (spec.kind != SpecKind.STATE or spec.page == first.page)
        for spec, _ in members
    )


def can_be_raised(spec: KvSpec, page: int) -> bool:
    """Return whether a page can become one of `page` bytes: a latent's only by a larger block.
    Source: unify_kv_cache_spec_page_size."""
    return not spec.latent or page % spec.page == 0


def equal_page(spec: KvSpec, page: int) -> KvSpec:
    """Return a spec with a page of `page` bytes: by a larger block where it divides, else by
    padding; a state is padded.

    Source: unify_kv_cache_spec_page_size.
    """
    if spec.kind != SpecKind.STATE and page % spec.page == 0:
        return spec._replace(page=page, block=spec.block * (page // spec.page))
    return spec._replace(page=page)


def without_windows(members: Members) -> Members:
    """Windows kept whole, as full attention, so that all layers share one group, where pages cannot
    be made equal.

    Source: _try_get_full_allocation_fallback_groups. Raises UnsupportedError where vLLM gives
    up."""
    promoted = tuple(
        (
            spec._replace(kind=SpecKind.FULL, extent=0) if spec.kind == SpecKind.SLIDING else spec,
            layers,
        )
        for spec, layers in members
    )
    if not one_type(promoted):
        raise UnsupportedError("engine", "vLLM cannot make this model's KV cache pages equal.")
    return promoted


def equal_page_groups(members: Members) -> tuple[Members, ...]:
    """Return every kind cut into groups of the least count of any kind; of the largest, where it is
    less than half as much again.

    Layers are dealt out in turn, so that a pipeline stage holds a like share. Source:
    _get_kv_cache_groups_uniform_page_size."""
    buckets = merge(members)
    counts = [len(layers) for _, layers in buckets]
    size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
    groups: list[Members] = []
    for spec, layers in buckets:
        number = -(-len(layers) // size)
        groups.extend(((spec, layers[turn::number]),) for turn in range(number))
    return tuple(groups)


def packed_groups(members: Members) -> tuple[Members, ...]:
    """Return the layers of one type and of any page size in a bucket; buckets of one page size cut
    so that little is padded, and those of states and rings to no more than fill the block that
    the others need.

    Source: _get_packed_kv_cache_groups."""
    buckets: list[list[Member]] = []
    for member in members:
        fitting = next((bucket for bucket in buckets if one_type([bucket[0], member])), None)
        if fitting is None:
            buckets.append([member])
        else:
            fitting.append(member)
    counts = [layers_by_page(bucket) for bucket in buckets]
    balanced = [len(set(of.values())) == 1 for of in counts]
    mixed = [
        max(of.values()) for of, even in zip(counts, balanced, strict=True) if even and len(of) > 1
    ]
    size = 0
    if mixed:
        size = least_padding(
            [max(of.values()) for of, even in zip(counts, balanced, strict=True) if even],
            max(mixed),
        )
    numbers = [
        -(-max(of.values()) // size) if even and size else 1
        for of, even in zip(counts, balanced, strict=True)
    ]
    widest = max(
        _widest_group(of, sum(of.values()) if _is_state(bucket) else number)
        for bucket, of, number in zip(buckets, counts, numbers, strict=True)
    )
    groups: list[Members] = []
    for bucket, of, number in zip(buckets, counts, numbers, strict=True):
        if _is_state(bucket):
            number = max(number, -(-sum(of.values()) // max(1, widest // bucket[0][0].page)))
        groups.extend(
            tuple((spec, layers[turn::number]) for spec, layers in bucket) for turn in range(number)
        )
    return tuple(groups)


def _is_state(bucket: Sequence[Member]) -> bool:
    return bucket[0][0].kind in (SpecKind.STATE, SpecKind.RING)


def _widest_group(layers: dict[int, int], number: int) -> int:
    """Return the bytes of the largest of `number` groups. layers: by their pages' bytes."""
    return sum(-(-count // number) * page for page, count in layers.items())


def layers_by_page(bucket: Sequence[Member]) -> dict[int, int]:
    """Return how many layers have each page size."""
    by_page: dict[int, int] = {}
    for spec, layers in bucket:
        by_page[spec.page] = by_page.get(spec.page, 0) + len(layers)
    return by_page


def least_padding(counts: Sequence[int], least: int) -> int:
    """Return the group size d >= `least` for which rounding every count up to a multiple of d adds
    least; the larger of equals.

    Source: _approximate_gcd.
    """
    return min(
        range(least, max(max(counts), least) + 1),
        key=lambda d: (sum(-count % d for count in counts), -d),
    )


def on_stage(groups: tuple[Members, ...], layers: range | None) -> tuple[Members, ...]:
    """Return the groups with only the layers of a pipeline stage. Groups stay, even empty ones.
    Source: _project_kv_cache_groups_to_worker."""
    if layers is None:
        return groups
    return tuple(
        tuple(
            (spec, own[bisect_left(own, layers.start) : bisect_left(own, layers.stop)])
            for spec, own in group
        )
        for group in groups
    )
