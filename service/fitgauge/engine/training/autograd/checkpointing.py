"""What a segment saves for its backward pass under selective checkpointing, and where torch.compile
chooses."""

from fitgauge.engine.training.autograd.operations import Value
from fitgauge.engine.training.autograd.tape import Tape

_ATTENTION = ("attention", "attention.scores", "attention.product")
"""Prefixes of the names of attention's products: fused and eager attention, layers/attention.py."""


def products(tape: Tape, *, every_second: bool = False) -> set[int]:
    """Return the storages of the outputs of linears and attention: selective checkpointing saves
    these, so that only cheap operations run again.

    `every_second`: of the linears' outputs only the first, third, ... (torchtitan
    distributed/activation_checkpoint.py: "every second mm"). Grouped products are not among them
    (torch/_functorch/partitioners.py, compute_intensive_ops)."""
    single = [
        operation for operation in tape.operations if operation.product and not operation.grouped
    ]
    linears = [operation for operation in single if operation.name not in _ATTENTION]
    dropped = (
        {operation.outputs[0].storage for operation in linears[1::2]} if every_second else set()
    )
    return {operation.outputs[0].storage for operation in single} - dropped


def compiled(tape: Tape, output: Value) -> set[int]:
    """Return the storages that torch.compile saves for the backward pass besides its inputs,
    `output` included.

    These are the inputs of products, and those outputs of products from which the backward pass can
    compute the rest: only pointwise operations and reductions run again, fused with their readers.
    Source: pytorch torch/_functorch/partitioners.py, min_cut_rematerialization_partition
    (recomputable: no matrix products, no attention)."""
    makers = {
        value.storage: operation
        for operation in reversed(tape.operations)
        for value in operation.outputs
    }
    saved = {
        value.storage
        for operation in tape.operations
        if operation.product
        for value in operation.saved
        if value.counted
    }
    wanted = [
        value.storage
        for operation in tape.operations
        if not operation.product
        for value in operation.saved
        if value.counted
    ]
    inputs = {value.storage for value in tape.inputs}
    seen = saved | inputs
    while wanted:
        storage = wanted.pop()
        if storage in seen:
            continue
        seen.add(storage)
        maker = makers.get(storage)
        if maker is not None and maker.product:
            saved.add(storage)
        elif maker is not None:
            wanted += [value.storage for value in maker.inputs if value.counted]
    return ({*saved, output.storage} if output.counted else saved) - inputs
