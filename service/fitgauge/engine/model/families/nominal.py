"""A layer of a model that is only a size: its weights are one count, its linears those of its
attention and MLP."""

from fitgauge.engine.model.families import parts
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Block, Tensor


def is_count(block: Block) -> bool:
    """Return whether a block only counts its parameters."""
    return bool(block.tensors) and block.tensors[0].shape[1:] == (1,)


def nominal_linears(block: Block) -> list[Tensor]:
    """Return the projections of attention and MLP of a block that only counts its parameters;
    empty where it has neither."""
    mixer = next((mixer for mixer in block.mixers if isinstance(mixer, Attention)), None)
    if mixer is None or block.mlp is None:
        return []
    hidden = mixer.query_heads * mixer.head_dim
    return [
        t
        for t in (
            *parts.attention(hidden, mixer),
            *parts.gated_mlp(hidden, block.mlp.intermediate_size),
        )
        if len(t.shape) == 2
    ]
