"""The families of encoders: how each names its tensors, its sizes, and what its heads are.

Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py` and the defaults of its
configuration class."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fitgauge.engine.model.mixers import Attention, plain_attention

UNPOOLED = {
    "ForMaskedLM": "masked",
    "ForCausalLM": "masked",
    "LMHeadModel": "masked",
    "ForTokenClassification": "labels",
    "ForQuestionAnswering": "labels",
}
"""Heads that every family builds alike, on all tokens instead of a pooled one."""

_BERT = {
    **UNPOOLED,
    "Model": "pooler",
    "ForPreTraining": "pooler masked pair",
    "ForNextSentencePrediction": "pooler pair",
    "ForSequenceClassification": "pooler labels",
    "ForMultipleChoice": "pooler choice",
}

_ROBERTA = {
    **UNPOOLED,
    "Model": "pooler",
    "ForSequenceClassification": "dense labels",
    "ForMultipleChoice": "pooler choice",
}

_DISTILBERT = {
    **UNPOOLED,
    "ForMaskedLM": "generator",
    "ForCausalLM": "generator",
    "ForSequenceClassification": "dense labels",
    "ForMultipleChoice": "dense choice",
}

_ALBERT_HEADS = {**_BERT, "ForPreTraining": "pooler masked labels"}

_ELECTRA = {**_DISTILBERT, "ForPreTraining": "dense choice"}


@dataclass(frozen=True)
class Names:
    """How a family names the tensors of a layer."""

    attention: tuple[str, str, str, str] = (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
    )
    """Query, key, value and output projection."""
    attention_norm: str = "attention.output.LayerNorm"
    """Norm after the attention."""
    up: str = "intermediate.dense"
    """First projection of the MLP."""
    down: str = "output.dense"
    """Second projection of the MLP."""
    output_norm: str = "output.LayerNorm"
    """Norm after the MLP."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of one encoder, from its config or the defaults of its configuration class."""

    vocabulary: int = 30522
    """Rows of the token embedding."""
    hidden: int = 768
    """Hidden size."""
    embedding: int = 0
    """Width of the embeddings where it is not `hidden` (ALBERT, ELECTRA, DeBERTa)."""
    layers: int = 12
    """Number of layers."""
    groups: int = 0
    """Sets of weights that the layers share (ALBERT); 0 for one each."""
    heads: int = 12
    """Attention heads."""
    intermediate: int = 3072
    """Width of the MLP."""
    positions: int = 512
    """Rows of the position table."""
    token_types: int = 2
    """Rows of the token type embedding."""

    @property
    def attention(self) -> Attention:
        """Every token reads every other one, and nothing is kept."""
        dim = self.hidden // self.heads
        return plain_attention(self.heads, dim, causal=False)


@dataclass(frozen=True)
class Dialect:
    """Where a family departs from BERT."""

    base: str = "bert"
    """What the tensor names of the encoder begin with."""
    layers: str = "encoder.layer.{}."
    """Prefix of a layer, `{}` for its number."""
    names: Names = Names()
    """How it names the tensors of a layer."""
    defaults: Sizes = Sizes()
    """Sizes of its configuration class."""
    heads: Mapping[str, str] = field(default_factory=lambda: _BERT)
    """What an architecture's ending adds behind the layers, in the words of `head_tensors`."""
    projected: bool = False
    """Whether embeddings are projected even where they are as wide as the hidden states."""
    position_offset: int = 0
    """Rows of the position table that no token uses."""
    relative_buckets: int = 0
    """Rows of one table of relative positions (MPNet); 0: no table."""


_MPNET = Names(
    attention=("attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o"),
    attention_norm="attention.LayerNorm",
)

_DISTIL = Names(
    attention=("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
    attention_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    output_norm="output_layer_norm",
)

_ALBERT = Names(
    attention=("attention.query", "attention.key", "attention.value", "attention.dense"),
    attention_norm="attention.LayerNorm",
    up="ffn",
    down="ffn_output",
    output_norm="full_layer_layer_norm",
)

_ROBERTA_DIALECT = Dialect(base="roberta", heads=_ROBERTA, position_offset=2)

DIALECTS: Mapping[str, Dialect] = {
    "bert": Dialect(),
    "roberta": Dialect(
        base="roberta", heads=_ROBERTA, position_offset=2, defaults=Sizes(vocabulary=50265)
    ),
    "xlm-roberta": _ROBERTA_DIALECT,
    "camembert": _ROBERTA_DIALECT,
    "distilbert": Dialect(
        base="distilbert",
        layers="transformer.layer.{}.",
        names=_DISTIL,
        heads=_DISTILBERT,
        defaults=Sizes(layers=6, token_types=0),
    ),
    "albert": Dialect(
        base="albert",
        layers="encoder.albert_layer_groups.{}.albert_layers.0.",
        names=_ALBERT,
        heads=_ALBERT_HEADS,
        projected=True,
        defaults=Sizes(
            vocabulary=30000, hidden=4096, embedding=128, groups=1, heads=64, intermediate=16384
        ),
    ),
    "electra": Dialect(
        base="electra",
        heads=_ELECTRA,
        defaults=Sizes(hidden=256, embedding=128, heads=4, intermediate=1024),
    ),
    "mpnet": Dialect(
        base="mpnet",
        names=_MPNET,
        heads=_ROBERTA,
        position_offset=2,
        relative_buckets=32,
        defaults=Sizes(vocabulary=30527, token_types=0),
    ),
}
