"""RWKV 4: attention-free, a state of five vectors a layer. Source: transformers 5.23,
models/rwkv. vLLM does not serve it."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.stack import decoder, vector
from fitgauge.engine.model.mixers import Recurrent, State
from fitgauge.engine.model.spec import Mlp, ModelSpec, Split


def read_rwkv(config: Config) -> ModelSpec:
    """RWKV 4: time mixing and channel mixing; the first layer has one norm more."""
    config = config.with_defaults(DEFAULTS)
    hidden = config.integer("hidden_size", low=1)
    inner = config.integer("attention_hidden_size", default=hidden, low=1)
    width = config.integer("intermediate_size", default=4 * hidden)
    mixing = (
        ("attention", ("key", "value", "receptance")),
        ("feed_forward", ("key", "receptance")),
    )
    tensors = (
        *parts.norm("ln1", hidden, bias=True),
        *parts.norm("ln2", hidden, bias=True),
        *[
            vector(f"{block}.time_mix_{name}", 1, 1, hidden, split=Split.NONE)
            for block, names in mixing
            for name in names
        ],
        vector("attention.time_decay", inner),
        vector("attention.time_first", inner),
        *parts.linears(
            (f"attention.{name}" for name in ("key", "value", "receptance")),
            inner,
            hidden,
            Split.COLUMN,
        ),
        *parts.linear("attention.output", hidden, inner, Split.ROW),
        *parts.linear("feed_forward.key", width, hidden, Split.COLUMN),
        *parts.linear("feed_forward.receptance", hidden, hidden, Split.COLUMN),
        *parts.linear("feed_forward.value", hidden, width, Split.ROW),
    )
    states = (State("shift", 2 * hidden, 1), State("ssm", 3 * inner, 1, "F32"))
    mixers = (Recurrent(kind="rwkv", states=states),)
    mlp = Mlp(intermediate_size=width, gated=False)
    first = parts.Layer((*parts.norm("pre_ln", hidden, bias=True), *tensors), mixers, mlp)
    return decoder(
        config,
        [first, *[parts.Layer(tensors, mixers, mlp)] * (config.layers() - 1)],
        base="rwkv",
        stack="blocks",
        embedding="embeddings",
        final_norm="ln_out",
        head="head",
        norm_bias=True,
    )


DEFAULTS = {
    "vocab_size": 50277,
    "context_length": 1024,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "tie_word_embeddings": False,
}
"""transformers 5.23, RwkvConfig."""

READERS: dict[str, Reader] = {"rwkv": read_rwkv}
