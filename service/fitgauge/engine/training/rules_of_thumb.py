"""The rules of thumb that people quote for activations. Sizes that are no model, and questions
that name one, are counted by them."""

import msgspec

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.workload import ActivationRule, TrainingWorkload, precision_policy

_HALF = 2

RULE_SOURCES: dict[ActivationRule, str] = {
    "34sbh": "https://arxiv.org/abs/2205.05198, section 4.1, equations 1, 2 and 4",
    "40shl": (
        "a rule of thumb for GPTs and Llamas in 16 bit with FlashAttention and a gated MLP"
        " (service/fitgauge/engine/training/rules_of_thumb.py, forty_bytes)"
    ),
    "widths": (
        "a rule of thumb: one tensor of the stream and one of the MLP a layer"
        " (service/fitgauge/engine/training/rules_of_thumb.py, widths_bytes)"
    ),
}


class RuleEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Activations by a rule."""

    retained: int
    """Of one micro-batch between its passes [bytes]."""
    again: int
    """What recomputing one layer makes [bytes]."""
    formula: str
    """The rule with its numbers."""
    formula_again: str = ""
    """`again` by its factors."""


def megatron_layer_bytes(
    sequence: int,
    batch: int,
    hidden: int,
    heads: int,
    *,
    scores: bool,
    ways: int = 1,
    sequence_parallel: bool = False,
) -> int:
    """s b h (34 + 5 a s / h): a layer in 16 bit with dropout, a heads; 34 s b h without `scores`
    (FlashAttention, selective recomputation).

    Over `ways` tensor-parallel ranks t: s b h (10 + 24 / t + 5 a s / (h t)), or all of it over t
    with sequence parallelism. Source: arXiv 2205.05198, section 4.1 and 4.2, equations 1, 2 and
    4."""
    whole = 10 * sequence * batch * hidden
    divided = 24 * sequence * batch * hidden + (
        5 * heads * sequence * sequence * batch if scores else 0
    )
    return (whole + divided) // ways if sequence_parallel else whole + divided // ways


def forty_bytes(sequence: int, batch: int, hidden: int, layers: int) -> int:
    """40 S H L for one sample: a GPT or Llama in 16 bit with FlashAttention and a gated MLP,
    planned for pipelines."""
    return 40 * sequence * batch * hidden * layers


def widths_bytes(
    sequence: int, batch: int, hidden: int, intermediate: int, layers: int, width: int
) -> int:
    """Return (hidden + intermediate) x sequence x layers x bytes of a number: one tensor of the
    stream and one of the MLP a layer."""
    return (hidden + intermediate) * sequence * batch * layers * width


def rule_of(spec: ModelSpec, workload: TrainingWorkload) -> ActivationRule:
    """Return the rule a workload's activations are counted by: as asked; else of a model that is
    only a size 40 S H L under Megatron and (h + i) s L in int8; else the recipe, which is no
    rule of thumb."""
    if workload.activation_rule is not None:
        return workload.activation_rule
    if spec.model_type != "nominal":
        return "recipe"
    if workload.framework == "megatron":
        return "40shl"
    if workload.precision == "int8":
        return "widths"
    return "recipe"


def rule_estimate(spec: ModelSpec, workload: TrainingWorkload, layers: int) -> RuleEstimate | None:
    """Return a micro-batch on `layers` layers by the workload's rule; None where that is the
    recipe.

    With full checkpointing a layer keeps its input, and one layer at a time all of the rule's
    (arXiv 2205.05198, section 5)."""
    rule = rule_of(spec, workload)
    if rule == "recipe":
        return None
    sequence = -(-workload.sequence_length // workload.context_parallel)
    batch = workload.micro_batch_size
    hidden, ways = spec.hidden_size, workload.tensor_parallel
    layer, formula = _layer(rule, spec, workload, sequence)
    if workload.activation_checkpointing != "full":
        return RuleEstimate(
            retained=layers * layer, again=0, formula=f"{layers} layers x {formula}"
        )
    width = _width(workload) if rule == "widths" else _HALF
    retained = width * sequence * batch * hidden // (ways if workload.sequence_parallel else 1)
    shared = f" / {ways} ranks" if workload.sequence_parallel and ways > 1 else ""
    words = f"{layers} layers x {width} B x {sequence} tokens x {batch} x {hidden} hidden{shared}"
    return RuleEstimate(
        retained=layers * retained, again=layer, formula=words, formula_again=formula
    )


def _layer(
    rule: ActivationRule, spec: ModelSpec, workload: TrainingWorkload, sequence: int
) -> tuple[int, str]:
    """Return (bytes, formula) of one layer on one tensor-parallel rank."""
    batch, hidden, ways = workload.micro_batch_size, spec.hidden_size, workload.tensor_parallel
    shared = f" / {ways}" if ways > 1 else ""
    if rule == "40shl":
        return (
            forty_bytes(sequence, batch, hidden, 1) // ways,
            f"40 x {sequence} x {batch} x {hidden}{shared}",
        )
    if rule == "widths":
        intermediate = max(
            (
                block.mlp.intermediate_size
                for block in spec.blocks
                if block.mlp and block.part is not Part.VISION
            ),
            default=4 * hidden,
        )
        width = _width(workload)
        size = widths_bytes(sequence, batch, hidden, intermediate, 1, width) // ways
        return size, f"({hidden} + {intermediate}) x {sequence} x {batch} x {width} B{shared}"
    heads = spec.query_heads
    scores = workload.attention == "eager" and workload.activation_checkpointing != "selective"
    size = megatron_layer_bytes(
        sequence,
        batch,
        hidden,
        heads,
        scores=scores,
        ways=ways,
        sequence_parallel=workload.sequence_parallel,
    )
    factor = f"34{shared}" if workload.sequence_parallel or ways == 1 else f"(10 + 24{shared})"
    of_scores = f" + 5 x {heads} x {sequence}^2 x {batch}{shared}" if scores else ""
    return (
        size,
        (
            f"({factor} x {sequence} x {batch} x {hidden}{of_scores})"
            if scores
            else f"{factor} x {sequence} x {batch} x {hidden}"
        ),
    )


def _width(workload: TrainingWorkload) -> int:
    """Return the bytes of a number that is computed with."""
    return BITS[precision_policy(workload).compute] // 8
