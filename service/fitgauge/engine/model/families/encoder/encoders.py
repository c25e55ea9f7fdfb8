"""Encoders: BERT and its kin, which read a whole text at once and keep no cache.

One layer: self-attention in both directions, MLP, a norm after each; before them the embeddings
of words, positions and token types, after them the head that the architecture's name asks for. A
`Dialect` says where a family departs from BERT. Source: transformers 5.23,
`models/<model_type>/modeling_<model_type>.py` and the defaults of its configuration class."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import layers as parts
from fitgauge.engine.model.families.dense.dense import Reader, architecture_name
from fitgauge.engine.model.spec import Attention, Block, Kind, Mlp, ModelSpec, Part, Split, Tensor
from fitgauge.engine.note import Note

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
        return Attention(
            query_heads=self.heads, kv_heads=self.heads, head_dim=dim, value_dim=dim, causal=False
        )


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


def read_encoder(config: Config, dialect: Dialect) -> ModelSpec:
    """Return the ModelSpec of a BERT-shaped encoder. Raises MalformedModelError where a size is
    absurd."""
    sizes = read_sizes(config, dialect.defaults)
    prefix = "" if is_base(config) else f"{dialect.base}."
    stack = [encoder_layer(sizes, dialect.names)] * (sizes.groups or sizes.layers)
    return encoder_spec(
        config,
        sizes,
        blocks=(
            embeddings(sizes, f"{prefix}embeddings.", dialect),
            *relative_positions(config, sizes, f"{prefix}encoder.", dialect),
            *parts.blocks(Part.LANGUAGE, prefix + dialect.layers, stack),
            *heads(config, sizes, dialect.heads),
        ),
        context=sizes.positions - dialect.position_offset,
        notes=shared_layers(sizes),
        layer_uses=max(1, sizes.layers // sizes.groups) if sizes.groups else 1,
    )


def read_sizes(config: Config, defaults: Sizes) -> Sizes:
    """Return the sizes that the config says, under BERT's, DistilBERT's or GPT's names."""
    hidden = config.integer("hidden_size", "dim", "n_embd", default=defaults.hidden, low=1)
    heads = config.integer(
        "num_attention_heads", "n_heads", "n_head", default=defaults.heads, low=1
    )
    return Sizes(
        vocabulary=config.integer("vocab_size", default=defaults.vocabulary, low=1),
        hidden=hidden,
        embedding=config.integer("embedding_size", default=defaults.embedding or hidden, low=1),
        layers=config.integer(
            "num_hidden_layers", "n_layers", "n_layer", default=defaults.layers, high=4096
        ),
        groups=config.integer("num_hidden_groups", default=defaults.groups, high=4096),
        heads=heads,
        intermediate=config.integer(
            "intermediate_size", "hidden_dim", "n_inner", default=defaults.intermediate, low=1
        ),
        positions=config.integer(
            "max_position_embeddings", "n_positions", default=defaults.positions
        ),
        token_types=(
            config.integer("type_vocab_size", default=defaults.token_types)
            if defaults.token_types
            else 0
        ),
    )


def encoder_spec(
    config: Config,
    sizes: Sizes,
    *,
    blocks: tuple[Block, ...],
    context: int,
    notes: tuple[Note, ...] = (),
    layer_uses: int = 1,
) -> ModelSpec:
    """Return what every encoder's ModelSpec says. A config without a dtype is older than that
    key, and its weights are F32."""
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        task="encode",
        dtype=config.dtype("F32"),
        hidden_size=sizes.hidden,
        vocabulary_size=sizes.vocabulary,
        max_context_length=context,
        tied_embeddings=config.flag("tie_word_embeddings", default=True),
        blocks=blocks,
        notes=notes,
        layer_uses=layer_uses,
    )


def encoder_layer(sizes: Sizes, names: Names) -> parts.Layer:
    """Query, key, value and output projections, two of the MLP, and the norm after each half."""
    return parts.Layer(
        tensors=(
            *projections(sizes, names.attention),
            *parts.norm(names.attention_norm, sizes.hidden, bias=True),
            *parts.plain_mlp(sizes.hidden, sizes.intermediate, names.up, names.down),
            *parts.norm(names.output_norm, sizes.hidden, bias=True),
        ),
        mixers=(sizes.attention,),
        mlp=Mlp(intermediate_size=sizes.intermediate, gated=False),
    )


def projections(
    sizes: Sizes, names: tuple[str, str, str, str], *, bias: bool = True
) -> tuple[Tensor, ...]:
    """Query, key, value and output, each hidden x hidden, by the names given."""
    *inputs, out = names
    hidden, heads = sizes.hidden, sizes.heads
    return (
        *[
            tensor
            for name in inputs
            for tensor in parts.linear(name, hidden, hidden, Split.COLUMN, units=heads, bias=bias)
        ],
        *parts.linear(out, hidden, hidden, Split.ROW, units=heads, bias=bias),
    )


def embeddings(sizes: Sizes, prefix: str, dialect: Dialect) -> Block:
    """Tables of words, positions and token types, their norm, and the projection to the hidden
    width where that differs."""
    width = sizes.embedding
    tensors = [
        Tensor(
            "word_embeddings.weight", (sizes.vocabulary, width), Kind.EMBEDDING, Split.VOCABULARY
        )
    ]
    tensors += [Tensor("position_embeddings.weight", (sizes.positions, width), Kind.EMBEDDING)]
    if sizes.token_types:
        tensors += [
            Tensor("token_type_embeddings.weight", (sizes.token_types, width), Kind.EMBEDDING)
        ]
    tensors += parts.norm("LayerNorm", width, bias=True)
    if dialect.projected or width != sizes.hidden:
        tensors += parts.linear("embeddings_project", sizes.hidden, width, bias=True)
    return parts.single(Part.EMBEDDING, prefix, tensors)


def relative_positions(
    config: Config, sizes: Sizes, prefix: str, dialect: Dialect
) -> tuple[Block, ...]:
    """MPNet's one table of relative positions: buckets x heads."""
    if not dialect.relative_buckets:
        return ()
    buckets = config.integer("relative_attention_num_buckets", default=dialect.relative_buckets)
    return (
        parts.single(
            Part.LANGUAGE,
            prefix,
            (Tensor("relative_attention_bias.weight", (buckets, sizes.heads), Kind.OTHER),),
        ),
    )


def ending(config: Config, head_blocks: Mapping[str, str]) -> str:
    """Return which of the `head_blocks` endings the architecture's name has; the base model where
    it has none."""
    name = architecture_name(config)
    return next((end for end in head_blocks if name.endswith(end) and end != "Model"), "Model")


def is_base(config: Config) -> bool:
    """Return whether the checkpoint is the bare encoder, whose tensors' names have no prefix."""
    name = architecture_name(config)
    return "For" not in name and not name.endswith("LMHeadModel")


def heads(config: Config, sizes: Sizes, head_blocks: Mapping[str, str]) -> tuple[Block, ...]:
    """Return what the architecture has behind its layers, or nothing."""
    tied = config.flag("tie_word_embeddings", default=True)
    tensors = [
        tensor
        for word in head_blocks.get(ending(config, head_blocks), "").split()
        for tensor in head_tensors(word, sizes, labels=label_count(config), tied=tied)
    ]
    return (parts.single(Part.HEAD, "", tensors),) if tensors else ()


def head_tensors(word: str, sizes: Sizes, *, labels: int, tied: bool) -> tuple[Tensor, ...]:
    """Return one brick of a head.

    `pooler`, `dense`: hidden x hidden with bias. `masked`, `generator`: a dense layer back to
    the embeddings' width, its norm, a bias for every word, and the output embedding where it is
    not `tied` (in a `masked` head with a bias of its own). `pair`: two classes. `labels`: the
    config's classes. `choice`: one score."""
    hidden, width = sizes.hidden, sizes.embedding
    match word:
        case "pooler" | "dense":
            return parts.linear(
                "pooler.dense" if word == "pooler" else "classifier.dense",
                hidden,
                hidden,
                bias=True,
            )
        case "masked" | "generator":
            weight = Tensor(
                "predictions.decoder.weight", (sizes.vocabulary, width), Kind.HEAD, Split.VOCABULARY
            )
            shift = Tensor(
                "predictions.decoder.bias", (sizes.vocabulary,), Kind.BIAS, Split.VOCABULARY
            )
            untied = (weight, shift) if word == "masked" else (weight,)
            return (
                *parts.linear("predictions.transform.dense", width, hidden, bias=True),
                *parts.norm("predictions.transform.LayerNorm", width, bias=True),
                *(() if tied else untied),
                Tensor("predictions.bias", (sizes.vocabulary,), Kind.BIAS, Split.VOCABULARY),
            )
        case "pair":
            return parts.linear("seq_relationship", 2, hidden, bias=True)
        case "labels":
            return parts.linear("classifier", labels, hidden, bias=True)
        case _:
            return parts.linear("classifier", 1, hidden, bias=True)


def label_count(config: Config, default: int = 2) -> int:
    """Classes of a classifier: as many as `id2label` names, else `num_labels`, else `default`."""
    return len(config.section("id2label").values) or config.integer(
        "num_labels", "_num_labels", default=default
    )


def shared_layers(sizes: Sizes) -> tuple[Note, ...]:
    """Say where layers share their weights (ALBERT): the blocks then hold one layer for every
    set of weights."""
    if not sizes.groups or sizes.groups == sizes.layers:
        return ()
    message = f"The {sizes.layers} layers share {sizes.groups} set(s) of weights."
    return (Note("layers-share-weights", "model", message),)


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


def _reader(dialect: Dialect) -> Reader:
    return lambda config: read_encoder(config, dialect)


READERS: dict[str, Reader] = {
    model_type: _reader(dialect) for model_type, dialect in DIALECTS.items()
}
