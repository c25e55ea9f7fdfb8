"""What an engine holds in addition to tensors of the model: CUDA graphs, the process itself,
communication between ranks."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import GIB, Bytes, Term, fitted
from fitgauge.engine.serving.profile import EngineProfile

_HOST_BYTES = Bytes(low=int(1.5 * GIB), expected=int(2.6 * GIB), high=int(4.4 * GIB))
"""What the process takes of the host's memory from vLLM's first look at what is free to its second
(interpreter, libraries, compiled kernels, pinned buffers): where both are one it counts as used.

Source: vllm/utils/mem_utils.py, MemorySnapshot.measure (0.13.0 and newer: psutil's available
memory). Logs of four GB10 machines print 2.43, 2.79, 3.14 and 4.03 GiB that are not PyTorch's,
11 starts of one of them 2.34 to 3.41 (w027 to w030 of tools/accuracy/serving.jsonl), of which
`runtime` and `communication` are 0.35."""


class Captured(NamedTuple):
    """How many batch sizes an engine captures as CUDA graphs."""

    sizes: int
    """Those of this launch."""
    measured: int
    """Those of the runs that the profile's graphs were measured in."""


def runtime_bytes(
    profile: EngineProfile,
    *,
    layers: int,
    ranks: int,
    graphs: bool,
    captured: Captured | None = None,
    latent: int = 0,
    unified_memory: bool = False,
    symmetric: bool = True,
) -> tuple[Term, ...]:
    """`cuda_graphs` (where captured), `runtime`, and `communication` with two ranks or more, as the
    profile was calibrated.

    layers: on this stage; latent: those of them of latent attention. captured: batch sizes of the
    graphs. symmetric: whether the GPUs may share symmetric memory.
    """
    terms = []
    if graphs:
        terms.append(graph_term(profile, layers, captured, latent))
    terms.append(process_term(profile, unified_memory=unified_memory))
    if ranks > 1:
        terms.append(communication_term(profile, ranks=ranks, symmetric=symmetric))
    return tuple(terms)


def process_term(profile: EngineProfile, *, unified_memory: bool) -> Term:
    """Return `runtime`: what the process holds in addition to PyTorch's tensors [bytes]."""
    term = profile.runtime_bytes.term(
        "runtime",
        1,
        0,
        "libraries and workspace of the process, in addition to PyTorch's tensors:"
        f" {fitted(profile.runtime_bytes.expected)}",
    )
    if not unified_memory:
        return term
    return msgspec.structs.replace(
        term,
        bytes=term.bytes + _HOST_BYTES.expected,
        low=term.low + _HOST_BYTES.low,
        high=term.high + _HOST_BYTES.high,
        formula=f"{term.formula} + {fitted(_HOST_BYTES.expected)} of the host's memory",
    )


MEASURED_ON = ("NVIDIA", "custom")
"""Vendors of the GPUs that the coefficients are of; a GPU that is only a size is taken for one
of them."""

_ELSEWHERE = 4.4
"""Graphs of a run on an MI300X over those of NVIDIA's GPUs: 3.9 GiB to 0.89
(tools/accuracy/serving.jsonl, v122)."""

_WITHOUT_GRAPHS = ("Google", "AWS", "Apple")
"""Vendors on whose accelerators vLLM captures no graphs. Source: vllm 0.33
platforms/interface.py, support_static_graph_mode, which only cuda.py, rocm.py and xpu.py answer
with yes; TPUs and Neuron compile programs instead."""


def elsewhere(vendor: str) -> str:
    """Return the vendor of a GPU that the coefficients are not of; empty for the others."""
    return "" if vendor in MEASURED_ON else vendor


def captures_graphs(accelerator: Accelerator) -> bool:
    """Return whether decode steps are captured as graphs of the device at all."""
    return accelerator.vendor not in _WITHOUT_GRAPHS


def as_measured(terms: Iterable[Term], accelerator: Accelerator) -> tuple[Term, ...]:
    """`terms` of NVIDIA's GPUs; on another maker's they are assumed, from nothing to as much as
    one run there held above them."""
    if not elsewhere(accelerator.vendor):
        return tuple(terms)
    return tuple(
        msgspec.structs.replace(
            term,
            low=0,
            high=max(term.high, int(_ELSEWHERE * term.bytes)),
            basis="assumed",
            formula=f"{term.formula}; as on NVIDIA's GPUs",
        )
        for term in terms
    )


def communication_term(profile: EngineProfile, *, ranks: int, symmetric: bool) -> Term:
    """Return what collectives of `ranks` ranks hold [bytes], by whether their GPUs may share
    symmetric memory."""
    if symmetric:
        buffers = profile.communication_bytes
    else:
        buffers = profile.plain_communication_bytes or profile.communication_bytes
    formula = f"collective buffers of {ranks} ranks: {fitted(buffers.expected)}"
    return buffers.term("communication", 1, 0, formula)


def graph_term(
    profile: EngineProfile, layers: int, captured: Captured | None = None, latent: int = 0
) -> Term:
    """CUDA graphs: a part for all of them and a part for every layer and captured batch size, of
    which a layer of latent attention, with more kernels, takes more [bytes].

    captured: None where the batch sizes are those that the profile was measured with."""
    once = profile.graph_bytes
    each = profile.graph_layer_bytes
    wide = profile.graph_latent_layer_bytes
    told_apart = latent if wide is not None else 0
    parts = [(layers - told_apart, "layers", each)] if layers > told_apart else []
    if wide is not None and told_apart:
        parts.append((told_apart, "layers of latent attention", wide))
    sums = " + ".join(f"{count} {kind} x {fitted(one.expected)}" for count, kind, one in parts)
    scale = 1.0
    if captured is not None and captured.sizes != captured.measured:
        sums = f"({sums})" if len(parts) > 1 else sums
        sums += f" x {captured.sizes} / {captured.measured} batch sizes"
        scale = captured.sizes / captured.measured
    return Term(
        name="cuda_graphs",
        bytes=int(once.expected + sum(one.expected * count * scale for count, _, one in parts)),
        low=int(once.low + sum(one.low * count * scale for count, _, one in parts)),
        high=int(once.high + sum(one.high * count * scale for count, _, one in parts)),
        basis=once.basis,
        formula=f"{fitted(once.expected)} + {sums}",
        source=f"{once.traced}; {wide.traced}" if wide is not None and told_apart else once.traced,
    )
