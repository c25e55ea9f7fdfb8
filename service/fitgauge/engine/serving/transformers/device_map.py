"""Where `device_map="auto"` puts a model's modules: in order, a GPU at a time, each filled to its
share and a margin.

Source: transformers 5.23, integrations/accelerate.py, get_balanced_memory and
infer_auto_device_map; accelerate's own differ in the margin."""

from collections.abc import Iterator
from typing import NamedTuple

from fitgauge.engine.model.spec import Part
from fitgauge.engine.quantity import Term, exact_term
from fitgauge.engine.serving.weights import as_sure_as_read, sum_of_parts
from fitgauge.engine.weights.rank_bytes import ranks, share_bytes
from fitgauge.engine.weights.sharding import ShardedWeights, TensorGroup

_MARGIN = 1.25
_LAYERED = (Part.ENCODER, Part.VISION, Part.AUDIO)
"""Parts before the language model whose layers are placed one by one."""


class Module(NamedTuple):
    """What goes to one GPU whole: a layer, or what comes before and after layers."""

    part: Part
    """The part of the model it belongs to."""
    bytes: int
    """Its weights [bytes]."""
    layer: int | None = None
    """Number of the language model's layer; None for other modules."""


class GpuModules(NamedTuple):
    """The modules of one GPU."""

    by_part: dict[Part, int]
    """Their bytes by part of the model."""
    layers: range
    """Layers of the language model among them."""

    @property
    def bytes(self) -> int:
        """Bytes of all its modules."""
        return sum(self.by_part.values())


def modules(sharded: ShardedWeights, layers: int, tensor_parallel: int) -> list[Module]:
    """Return the modules in the order in which classes of transformers register them: embeddings,
    encoder and towers, language model, head.

    An embedding that the head shares stays where the embedding is.
    """
    ways = ranks(sharded, tensor_parallel, 1, 1)

    def size(share: TensorGroup) -> int:
        return int(share_bytes(share, sharded.layout, ways) * sharded.scale)

    def layered(part: Part) -> Iterator[Module]:
        shares = [share for share in sharded.shares if share.part is part and share.place != "last"]
        for layer in sorted({number for share in shares for number in share.layers}):
            yield Module(part, sum(size(share) for share in shares if layer in share.layers))

    rest = [
        share for share in sharded.shares if share.place != "layers" and share.part not in _LAYERED
    ]
    front = [
        Module(share.part, len(share.layers) * size(share))
        for share in rest
        if share.place != "last"
    ]
    back = [
        Module(share.part, len(share.layers) * size(share))
        for share in rest
        if share.place == "last"
    ]
    language = [
        Module(
            Part.LANGUAGE,
            sum(
                size(share)
                for share in sharded.shares
                if share.place == "layers" and number in share.layers
            ),
            number,
        )
        for number in range(layers)
    ]
    return [*front, *(module for part in _LAYERED for module in layered(part)), *language, *back]


def device_map(
    sharded: ShardedWeights, layers: int, gpus: int, tensor_parallel: int = 1
) -> tuple[GpuModules, ...]:
    """Return what each of `gpus` holds.

    A GPU takes modules until the next would exceed total / GPUs + 1.25 x the largest module,
    the first GPU less the largest module (room to bring one back to); the last takes the rest."""
    placed: list[list[Module]] = [[] for _ in range(gpus)]
    waiting = modules(sharded, layers, tensor_parallel)
    largest = max((module.bytes for module in waiting), default=0)
    share = sum(module.bytes for module in waiting) // gpus + int(_MARGIN * largest)
    number = held = 0
    for module in waiting:
        most = share - largest if number == 0 else share
        if number < gpus - 1 and held + module.bytes > most:
            number, held = number + 1, 0
        placed[number].append(module)
        held += module.bytes
    return tuple(_on_gpu(modules) for modules in _numbered(placed))


def _numbered(placed: list[list[Module]]) -> Iterator[tuple[list[Module], range]]:
    stop = 0
    for modules in placed:
        count = sum(module.layer is not None for module in modules)
        yield modules, range(stop, stop + count)
        stop += count


def _on_gpu(numbered: tuple[list[Module], range]) -> GpuModules:
    by_part: dict[Part, int] = {}
    for module in numbered[0]:
        by_part[module.part] = by_part.get(module.part, 0) + module.bytes
    return GpuModules(by_part, numbered[1])


def weights_term(sharded: ShardedWeights, gpu: GpuModules) -> Term:
    """Return the term `weights` of one GPU."""
    formula = f"{sharded.scheme.name} weights in the order of modules: {sum_of_parts(gpu.by_part)}"
    if gpu.layers:
        formula += f"; layers {gpu.layers.start} to {gpu.layers.stop - 1}"
    term = exact_term(
        "weights",
        gpu.bytes,
        sharded.basis,
        formula,
        "transformers 5.23 integrations/accelerate.py, infer_auto_device_map",
    )
    return as_sure_as_read(term, sharded)
