"""Encoders: BERT and its kin, which read a whole text at once and keep no cache.

One layer: self-attention in both directions, MLP, a norm after each; before them the embeddings
of words, positions and token types, after them the head that the architecture's name asks for. A
`Dialect` says where a family departs from BERT. Source: transformers 5.23,
`models/<model_type>/modeling_<model_type>.py` and the defaults of its configuration class."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import architecture_name, readers
from fitgauge.engine.model.families.encoder.dialects import DIALECTS, Dialect, Names, Sizes
from fitgauge.engine.model.families.encoder.heads import heads, is_base
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Part, Split, Tensor
from fitgauge.engine.note import Note


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
        *parts.linears(inputs, hidden, hidden, Split.COLUMN, units=heads, bias=bias),
        *parts.linear(out, hidden, hidden, Split.ROW, units=heads, bias=bias),
    )


def embeddings(sizes: Sizes, prefix: str, dialect: Dialect) -> Block:
    """Tables of words, positions and token types, their norm, and the projection to the hidden
    width where that differs."""
    width = sizes.embedding
    tensors = [parts.word_table("word_embeddings", sizes.vocabulary, width)]
    tensors += [Tensor("position_embeddings.weight", (sizes.positions, width), Kind.EMBEDDING)]
    if sizes.token_types:
        tensors += [
            Tensor("token_type_embeddings.weight", (sizes.token_types, width), Kind.EMBEDDING)
        ]
    tensors += parts.norm("LayerNorm", width, bias=True)
    if dialect.projected or width != sizes.hidden:
        tensors += parts.linear("embeddings_project", sizes.hidden, width, bias=True)
    return parts.single(Part.EMBEDDING, tensors, prefix)


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
            (Tensor("relative_attention_bias.weight", (buckets, sizes.heads), Kind.OTHER),),
            prefix,
        ),
    )


def shared_layers(sizes: Sizes) -> tuple[Note, ...]:
    """Say where layers share their weights (ALBERT): the blocks then hold one layer for every
    set of weights."""
    if not sizes.groups or sizes.groups == sizes.layers:
        return ()
    message = f"The {sizes.layers} layers share {sizes.groups} set(s) of weights."
    return (Note("layers-share-weights", "model", message),)


READERS = readers(read_encoder, DIALECTS)
