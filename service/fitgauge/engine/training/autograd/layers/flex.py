"""What flex_attention with sinks keeps besides queries, keys, values and its output."""

from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.operations import FLOAT

_BLOCK = 128
"""Tokens of a block (torch/nn/attention/flex_attention.py, _DEFAULT_SPARSE_BLOCK_SIZE)."""
_INDICES = 4
"""Of partial and of full blocks, by queries and by keys (the same, BlockMask)."""
_INDEX = 4
"""Bytes of an index: int32 (the same, _dense_to_ordered)."""


def flex_masks(context: LayerContext, heads: int, width: int) -> list[tuple[str, int, int]]:
    """Return what a layer keeps besides its log-sum-exp, each with its elements and their bytes: a
    mask of blocks for every sequence and head, though all are alike, and the scale of the output.

    The mask grows with the square of the length: 0.4 GiB at 80K tokens of 64 heads. Source:
    unsloth_zoo, flex_attention/attention_sink.py, flex_attention_with_sink
    (compiled_create_block_mask of bsz and heads_Q; sink_scale); torch/_higher_order_ops/
    flex_attention.py, FlexAttentionAutogradOp.forward saves the mask. transformers makes one mask
    for all layers and heads (integrations/flex_attention.py), and holds less."""
    rows, columns = -(-context.sequence // _BLOCK), -(-context.keys // _BLOCK)
    return [
        ("attention.blocks", _INDICES * context.batch * heads * rows * columns, _INDEX),
        ("attention.sink_scale", context.tokens * heads, FLOAT),
        ("attention.sink_scale_narrow", context.tokens * heads, width),
    ]
