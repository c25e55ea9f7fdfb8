"""What an engine holds beside tensors of the model: CUDA graphs, the process itself, communication between ranks."""

import msgspec

from fitgauge.engine.profile import EngineProfile
from fitgauge.engine.quantity import GIB, Term

_HOST_SHARE = 4 * GIB
"""On unified memory what the process holds of the host's (interpreter, libraries, pinned buffers) counts as used too: up to some 4 GiB.

Assumed: no log says how much; it widens the interval only."""


def runtime_bytes(
    profile: EngineProfile, *, layers: int, ranks: int, graphs: bool, unified_memory: bool = False, symmetric: bool = True
) -> tuple[Term, ...]:
    """`cuda_graphs` (where captured), `runtime`, and `communication` with two ranks or more, as the profile was calibrated.

    layers: on this stage. symmetric: whether the cards may share symmetric memory.
    """
    terms = []
    if graphs:
        terms.append(graph_term(profile, layers))
    process = profile.runtime_bytes.term("runtime", 1, 0, "libraries and workspace of the process, beside PyTorch's tensors")
    terms.append(msgspec.structs.replace(process, high=process.high + _HOST_SHARE) if unified_memory else process)
    if ranks > 1:
        terms.append(communication_term(profile, ranks=ranks, symmetric=symmetric))
    return tuple(terms)


def communication_term(profile: EngineProfile, *, ranks: int, symmetric: bool) -> Term:
    """What collectives of `ranks` ranks hold [bytes], by whether their cards may share symmetric memory."""
    buffers = profile.communication_bytes if symmetric else profile.plain_communication_bytes or profile.communication_bytes
    return buffers.term("communication", 1, 0, f"collective buffers of {ranks} ranks")


def graph_term(profile: EngineProfile, layers: int) -> Term:
    """CUDA graphs: a part for every capture and a part for every layer [bytes]."""
    once, each = profile.graph_bytes, profile.graph_layer_bytes
    formula = f"{once.expected / 2**20:.0f} MiB + {layers} layers x {each.expected / 2**20:.1f} MiB"
    base = each.term("cuda_graphs", layers, once.expected, formula)
    return Term(
        name=base.name,
        bytes=base.bytes,
        low=int(base.low - once.expected + once.low),
        high=int(base.high - once.expected + once.high),
        basis=once.basis,
        formula=formula,
        source=once.source,
    )
