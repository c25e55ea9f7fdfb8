"""The loss of a head's logits, written on a tape: full, in pieces, fused with the head, of
log-probabilities."""

from fitgauge.engine.training.autograd.layers.megatron import loss_of_pieces
from fitgauge.engine.training.autograd.layers.traits import Traits
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.releases import loss_code
from fitgauge.engine.training.workload import TrainingWorkload

_CHUNKS = 8
"""Pieces of a chunked loss. Source: torchtune modules/loss, num_output_chunks; torchtitan
components/loss.py, num_chunks."""
_RECOMPUTED = 256
"""Tokens of a piece whose logits are made again. Source: trl/trainer/sft_trainer.py,
_CHUNKED_LM_HEAD_CHUNK_SIZE."""


def loss_of(
    tape: Tape,
    x: Value,
    weight: Value,
    tokens: int,
    vocabulary: int,
    hidden: int,
    traits: Traits,
    workload: TrainingWorkload,
) -> tuple[int, Value]:
    """Return (bytes of logits that the caller holds until the forward pass ends, the loss).

    By the workload's loss: `_full`, `_fused`, `_chunked`, `_recomputed`, `_log_probs`,
    `_divergence` or `_in_place`. Under tensor parallelism transformers gathers the logits (tp_plan,
    colwise_gather_output); torchtitan and Megatron take the loss of each rank's part. torchtitan's
    loss, compiled, reads the logits alone (components/loss.py); Megatron's own makes no second copy
    (megatron/core/tensor_parallel/cross_entropy.py)."""
    last = tokens // workload.sequence_length * vocabulary
    if workload.loss == "fused" and workload.framework != "megatron":
        return 0, _fused(tape, x, weight, tokens, vocabulary, hidden)
    if workload.loss == "chunked":
        saved_numbers = tokens * vocabulary * (1 + 2 * traits.logits_cap + traits.scales_logits)
        return 0, _chunked(
            tape,
            x,
            weight,
            tokens * vocabulary // _CHUNKS,
            saved_numbers,
            compiled=workload.compiles_loss,
        )
    if workload.loss == "chunked_backward":
        piece = -(-tokens // _CHUNKS) * vocabulary
        return 0, _backward_by_piece(tape, x, weight, piece, compiled=workload.compiles_loss)
    if workload.loss == "recomputed":
        return 0, _recomputed(tape, x, weight, tokens, vocabulary)
    logits = tape.matmul("logits", x, weight, tokens * vocabulary)
    if workload.tensor_parallel > 1 and workload.dtensor and not workload.sequence_parallel:
        logits = tape.copy("logits.gathered", logits, logits.elements * workload.tensor_parallel)
    if traits.logits_bias:
        logits = tape.add("logits.biased", logits, tape.constant("logits.bias", 1, weight.width))
    if traits.logits_cap:
        logits = tape.copy(
            "logits.uncapped",
            tape.pointwise("logits.tanh", tape.copy("logits.capped", logits), of_output=True),
        )
    if traits.scales_logits:
        logits = tape.copy("logits.scaled", logits)
    if workload.loss in ("log_probs", "log_probs_in_place"):
        return 0, _log_probs(tape, logits, workload)
    if workload.loss in ("divergence", "divergence_in_fp32"):
        return 0, _divergence(tape, logits, workload)
    if workload.framework == "megatron":
        return 0, loss_of_pieces(tape, logits, compiled=workload.loss == "fused")
    if workload.framework == "fsdp" and workload.compiles_loss:
        return 0, tape.operation("loss", (logits,), 1, FLOAT, saves=(logits,))
    if workload.loss == "in_place":
        return 0, _in_place(tape, logits, last)
    result = _full(tape, logits, last, traits, workload)
    tape.hold(x)  # ForCausalLM.forward names the last hidden state until it has the loss
    return result


def _full(
    tape: Tape, logits: Value, last: int, traits: Traits, workload: TrainingWorkload
) -> tuple[int, Value]:
    """Return the loss of all logits, as a release of transformers computes it: an fp32 copy of
    them, and their log-softmax, which is saved.

    The caller holds the logits until the forward pass ends (trainer.py, compute_loss, frees them
    before the backward pass). Releases that do not shift the labels copy the logits without the
    `last` token's; models with a loss of their own cast the logits they return to fp32, or
    nothing."""
    code = loss_code(workload.transformers_version)
    wide, shifts = logits, code != "shifted_labels" and logits.elements > last > 0
    if widens_logits(traits, workload) or (tape.compute and not shifts):
        wide = tape.to(logits, FLOAT, "logits.float")
    returned = tape.keep(wide if code == "own" else logits)
    read = wide
    if shifts:
        read = tape.copy("logits.shifted", wide, wide.elements - last)
        read = tape.to(read, FLOAT, "logits.float") if tape.compute else read
    softmax = tape.pointwise("logits.log_softmax", read, of_output=True)
    # zeros, exponentials and their sum are alive at once
    # (torch/distributed/tensor/parallel/loss.py)
    pieces = workload.sequence_parallel
    back_scratch = 2 * softmax.bytes if pieces else 0
    loss = tape.operation("loss", (softmax,), 1, FLOAT, saves=(softmax,), back_scratch=back_scratch)
    if shifts:
        tape.hold(wide)  # a variable of the function
    return returned.bytes, loss


def widens_logits(traits: Traits, workload: TrainingWorkload) -> bool:
    """Return whether the loss of whole logits reads them in fp32, by the family and the release of
    transformers."""
    today = loss_code(workload.transformers_version) == "shifted_labels"
    return traits.float_loss and (today or not traits.late_float_loss)


def _fused(tape: Tape, x: Value, weight: Value, tokens: int, vocabulary: int, hidden: int) -> Value:
    """Return a loss computed a few rows at a time: gradients of hidden states and head are made in
    the forward pass (Liger-Kernel, fused_linear_cross_entropy.py: a piece has
    next_power_of_2(tokens / ceil(vocabulary / hidden)) rows)."""
    pieces = max(1, -(-vocabulary // hidden))
    rows = 1 << max(0, -(-tokens // pieces) - 1).bit_length()
    scratch = rows * vocabulary * (x.width + FLOAT)
    saved_numbers = tokens * hidden + (weight.elements if weight.grad else 0)
    return tape.operation(
        "loss",
        (x, weight),
        1,
        FLOAT,
        scratch=scratch,
        extra=[("loss.gradients", saved_numbers, weight.width)],
    )


def _chunked(
    tape: Tape, x: Value, weight: Value, piece: int, gradients: int, *, compiled: bool
) -> Value:
    """Return head and loss, one `piece` of the logits at a time. The `gradients` of all pieces are
    saved; of one piece there are gradients and, unless `compiled`, an fp32 copy."""
    x, weight = tape.cast(x, "logits"), tape.cast(weight, "logits")
    saves, scratch = (x,) if weight.grad else (), 0 if compiled else 2 * piece * FLOAT
    back_scratch, extra = scratch + piece * x.width, [("loss.logits", gradients, x.width)]
    return tape.operation(
        "loss",
        (x, weight),
        1,
        FLOAT,
        saves=saves,
        scratch=scratch,
        back_scratch=back_scratch,
        extra=extra,
        product=True,
    )


def _backward_by_piece(tape: Tape, x: Value, weight: Value, piece: int, *, compiled: bool) -> Value:
    """Return head and loss, one `piece` of the logits at a time, each with its backward pass: the
    gradient of the hidden states alone is saved.

    Of a piece there are the logits and, unless `compiled`, their log-softmax and its gradient in
    fp32; besides, the head's gradient and an fp32 sum of those of the hidden states (torchtitan
    components/loss.py, ChunkedLossWrapper, GradAccumulator). Derived from its source, not
    measured."""
    x, weight = tape.cast(x, "logits"), tape.cast(weight, "logits")
    rows = piece * (2 * x.width if compiled else x.width + 3 * FLOAT)
    head = weight.elements * weight.width if weight.grad else 0
    return tape.operation(
        "loss",
        (x, weight),
        1,
        FLOAT,
        scratch=rows + head + x.elements * FLOAT,
        extra=[("loss.gradients", x.elements, x.width)],
        product=True,
    )


def _in_place(tape: Tape, logits: Value, last: int) -> Value:
    """Return a loss whose fp32 logits, copied without the `last` token's, are overwritten by their
    gradient (Unsloth's and flash-attn's kernels on transformers up to 4.48, modeling_llama.py)."""
    wide = tape.to(logits, FLOAT, "logits.float")
    shifted = tape.copy("logits.shifted", wide, wide.elements - last)
    unread = wide._replace(grad=False)  # a variable of the loss still holds it
    written = tape.operation(
        "loss.gradients",
        (shifted, unread),
        shifted.elements,
        FLOAT,
        saves=(shifted,),
        view=True,
        passes=True,
    )
    return tape.operation("loss", (written,), 1, FLOAT)


def _recomputed(tape: Tape, x: Value, weight: Value, tokens: int, vocabulary: int) -> Value:
    """Return a loss whose logits are recomputed, 256 tokens at a time; hidden states are made
    contiguous once before.

    Of each piece there are logits, log-probabilities, their exponentials and products; of the head
    an fp32 copy, and autocast's copy, which the product saves (trl/trainer/sft_trainer.py, _chunk;
    measured on that function, with softmax in fp32 as CUDA's autocast has it)."""
    piece = min(tokens, _RECOMPUTED) * vocabulary
    head = weight.elements
    narrow = tape.compute or FLOAT
    copied = 0 if weight.width == FLOAT else FLOAT
    product, rows = head * (copied + tape.compute) + piece * narrow, piece * (narrow + 3 * FLOAT)
    back = max(product, rows + head * (tape.compute or copied))
    extra = [("loss.ordered", x.elements, x.width)]
    return tape.operation(
        "loss",
        (x, weight),
        1,
        FLOAT,
        extra=extra,
        scratch=max(product, rows),
        back_scratch=back,
        product=True,
    )


def _log_probs(tape: Tape, logits: Value, workload: TrainingWorkload) -> Value:
    """Return the log-probabilities of the sampled tokens.

    TRL computes them row by row (trl/trainer/utils.py, selective_log_softmax). Of fp32 logits, the
    output of a model under Accelerate's mixed precision, the logits are saved; of 16-bit logits
    their log-softmax. The entropy that it logs copies them once (entropy_from_logits). In the
    backward pass rows are stacked and written into whole tensors slice by slice: two more copies.
    Measured on these functions under FakeTensorMode: 2 logits forward, 4 backward. verl's kernel
    overwrites the logits with their gradient (verl/utils/torch_functional.py,
    logprobs_from_logits_flash_attn)."""
    if workload.loss == "log_probs_in_place":
        return tape.operation("loss", (logits,), 1, FLOAT)
    if workload.mixed and workload.framework in ("transformers", "fsdp"):
        logits = tape.to(logits, FLOAT, "logits.float")
        return tape.operation(
            "loss",
            (logits,),
            1,
            FLOAT,
            saves=(logits,),
            scratch=logits.bytes,
            back_scratch=2 * logits.bytes,
        )
    saved_numbers = [("logits.log_softmax", logits.elements, logits.width)]
    return tape.operation(
        "loss",
        (logits,),
        1,
        FLOAT,
        extra=saved_numbers,
        scratch=logits.bytes,
        back_scratch=2 * logits.bytes,
    )


def _divergence(tape: Tape, logits: Value, workload: TrainingWorkload) -> Value:
    """Return the Jensen-Shannon divergence of a student's logits from its teacher's, over all
    tokens and words, as TRL computes it with its beta of 0.5 (trl/experimental/gkd/gkd_trainer.py,
    generalized_jsd_loss).

    Saved are the student's log-softmax, both that are mixed, their mixture, and of `kl_div` the
    exponentials of both targets and the student's difference. The function and its caller also name
    the student's logits, the teacher's, both divided by the temperature, the teacher's log-softmax
    and both divergences; weighing these and adding them makes three more. Derived from its source,
    not measured."""
    if workload.loss == "divergence_in_fp32":
        logits = tape.to(logits, FLOAT, "logits.float")
    held = tape.keep(logits)
    return tape.operation(
        "loss",
        (held,),
        1,
        FLOAT,
        extra=[("loss.distributions", 7 * held.elements, held.width)],
        scratch=9 * held.bytes,
        back_scratch=5 * held.bytes,
    )
