"""A layer of a model that is only a size: its weights are one count, its linears those of its
attention and MLP."""

from fitgauge.engine.model.families import parts
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Block, ModelSpec, Tensor

_UNTIED_FROM = 5 * 10**9
"""Parameters from which models have a head of their own. Source: catalog/data/sizes.tsv, whose
models are tied up to 3b and untied from 7b on."""


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


def table_parameters(spec: ModelSpec) -> int:
    """Return how many parameters of a model that is only a size are its embedding and its head."""
    tables = 1 if spec.parameters < _UNTIED_FROM else 2
    return min(tables * spec.vocabulary_size * spec.hidden_size, spec.parameters // 2)
