"""Multi-token prediction heads: layers after the last that only speculative decoding loads.

Source: vLLM 0.33, model_executor/models/deepseek_mtp.py, glm4_moe_mtp.py, step3p5_mtp.py and
longcat_flash_mtp.py."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.spec import Block, Kind, Part, Split, Tensor

COUNT = ("num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules")
"""Names a config gives the number of heads under."""


def nextn_heads(config: Config, layer: parts.Layer) -> tuple[Block, ...]:
    """DeepSeek's heads, numbered on from the last layer: `layer`, the norms and projection that
    join it to the model, copies of the embedding and the output head. Nothing where the config
    counts none."""
    heads = config.integer(*COUNT, default=0, high=64)
    if not heads:
        return ()
    hidden = config.integer("hidden_size")
    vocabulary = config.integer("vocab_size")
    first = config.layers()
    tensors = (
        parts.word_table("embed_tokens", vocabulary, hidden),
        *joints(hidden),
        *layer.tensors,
        *parts.norm("shared_head.norm", hidden),
        Tensor("shared_head.head.weight", (vocabulary, hidden), Kind.HEAD, Split.VOCABULARY),
    )
    return (block("model.layers.{}.", tensors, layer, range(first, first + heads)),)


def joints(hidden: int) -> tuple[Tensor, ...]:
    """Return what joins a head to the model: norms of the next token's embedding and of the
    hidden state, and the projection of both."""
    return (
        *parts.norm("enorm", hidden),
        *parts.norm("hnorm", hidden),
        *parts.linear("eh_proj", hidden, 2 * hidden),
    )


def block(prefix: str, tensors: tuple[Tensor, ...], layer: parts.Layer, numbers: range) -> Block:
    """Return a block of heads that mix and transform as `layer` does."""
    return Block(
        part=Part.MTP,
        prefix=prefix,
        tensors=tensors,
        layers=tuple(numbers),
        mixers=layer.mixers,
        mlp=layer.mlp,
    )
