"""Mamba: selective state space models, and the two mixers that hybrids borrow from them.

Tensors and names: transformers 5.23, models/mamba and models/mamba2. Division and states: vLLM
0.33, model_executor/layers/mamba/mamba_mixer.py, mamba_mixer2.py and mamba_utils.py. vLLM keeps
A in F32."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.stack import convolution, decoder, vector
from fitgauge.engine.model.mixers import Recurrent, State
from fitgauge.engine.model.spec import ModelSpec, Split, Tensor


@dataclass(frozen=True)
class Mamba1:
    """The sizes of a Mamba mixer."""

    hidden: int
    """Hidden size."""
    channels: int
    """Inner width, expand x hidden."""
    state: int
    """Numbers of state a channel."""
    rank: int
    """Rank of the time step's projection."""
    kernel: int
    """Width of the convolution."""
    bias: bool = False
    """Whether projections have a bias."""
    conv_bias: bool = True
    """Whether the convolution has a bias."""
    norms: bool = False
    """Whether time step, B and C have RMS norms (Jamba)."""


@dataclass(frozen=True)
class Mamba2:
    """The sizes of a Mamba 2 mixer."""

    hidden: int
    """Hidden size."""
    heads: int
    """Number of heads."""
    head_dim: int
    """Channels of a head."""
    groups: int
    """Groups of B and C."""
    state: int
    """Numbers of state a channel."""
    kernel: int
    """Width of the convolution."""
    bias: bool = False
    """Whether projections have a bias."""
    conv_bias: bool = True
    """Whether the convolution has a bias."""
    norm: bool = True
    """Whether a gated RMS norm precedes the output projection."""
    state_dtype: str | None = None
    """Canonical dtype of the state; None for the cache's own."""

    @property
    def channels(self) -> int:
        """Channels inside the mixer: heads x head_dim."""
        return self.heads * self.head_dim


def time_step_rank(config: Config, *names: str) -> int:
    """Return the rank of the time step; `auto` means hidden / 16, rounded up."""
    value = next(
        (config.values[name] for name in names if config.values.get(name) is not None), "auto"
    )
    if value == "auto":
        return ceil(config.integer("hidden_size", low=1) / 16)
    return config.integer(*names, low=1)


def mamba1_tensors(name: str, sizes: Mamba1) -> tuple[Tensor, ...]:
    """Return the tensors of a Mamba mixer: in_proj makes x and gate, x_proj the time step, B and
    C."""
    norms = (
        (("dt_layernorm", sizes.rank), ("b_layernorm", sizes.state), ("c_layernorm", sizes.state))
        if sizes.norms
        else ()
    )
    return (
        vector(f"{name}.A_log", sizes.channels, sizes.state, dtype="F32"),
        vector(f"{name}.D", sizes.channels),
        *convolution(f"{name}.conv1d", sizes.channels, sizes.kernel, bias=sizes.conv_bias),
        *parts.linear(
            f"{name}.in_proj", 2 * sizes.channels, sizes.hidden, Split.COLUMN, bias=sizes.bias
        ),
        *parts.linear(f"{name}.x_proj", sizes.rank + 2 * sizes.state, sizes.channels, Split.ROW),
        *parts.linear(f"{name}.dt_proj", sizes.channels, sizes.rank, Split.COLUMN, bias=True),
        *parts.linear(f"{name}.out_proj", sizes.hidden, sizes.channels, Split.ROW, bias=sizes.bias),
        *[tensor for norm, size in norms for tensor in parts.norm(f"{name}.{norm}", size)],
    )


def mamba1_mixer(sizes: Mamba1) -> Recurrent:
    """Return its states: kernel - 1 past inputs and `state` numbers, for every channel."""
    states = (
        State("conv", sizes.channels, sizes.kernel - 1),
        State("ssm", sizes.channels, sizes.state),
    )
    return Recurrent(kind="mamba1", states=states)


def mamba2_tensors(name: str, sizes: Mamba2) -> tuple[Tensor, ...]:
    """Return the tensors of a Mamba 2 mixer: in_proj makes gate, x, B, C and one time step a head;
    x, B and C are convolved.

    in_proj and conv1d are given as two slices of one checkpoint name, because ranks that
    outnumber the groups replicate B and C."""
    grouped = 2 * sizes.groups * sizes.state
    inner = 2 * sizes.channels + sizes.heads
    return (
        vector(f"{name}.dt_bias", sizes.heads),
        vector(f"{name}.A_log", sizes.heads, dtype="F32"),
        vector(f"{name}.D", sizes.heads),
        *convolution(
            f"{name}.conv1d",
            sizes.channels,
            sizes.kernel,
            Split.COLUMN,
            units=sizes.heads,
            bias=sizes.conv_bias,
        ),
        *convolution(
            f"{name}.conv1d",
            grouped,
            sizes.kernel,
            Split.KV,
            units=sizes.groups,
            bias=sizes.conv_bias,
        ),
        *parts.linear(
            f"{name}.in_proj", inner, sizes.hidden, Split.COLUMN, units=sizes.heads, bias=sizes.bias
        ),
        *parts.linear(
            f"{name}.in_proj", grouped, sizes.hidden, Split.KV, units=sizes.groups, bias=sizes.bias
        ),
        *((vector(f"{name}.norm.weight", sizes.channels),) if sizes.norm else ()),
        *parts.linear(f"{name}.out_proj", sizes.hidden, sizes.channels, Split.ROW, bias=sizes.bias),
    )


def mamba2_mixer(sizes: Mamba2) -> Recurrent:
    """Return its states: kernel - 1 past inputs of x (divided by heads) and of B and C (by
    groups), and head_dim x state numbers a head."""
    past = sizes.kernel - 1
    return Recurrent(
        kind="mamba2",
        states=(
            State("conv", sizes.heads, sizes.head_dim * past),
            State("conv_groups", sizes.groups, 2 * sizes.state * past),
            State("ssm", sizes.heads, sizes.head_dim * sizes.state, sizes.state_dtype),
        ),
    )


def state_dtype(config: Config, *names: str, default: str | None = None) -> str | None:
    """Return the canonical dtype of the recurrent state as the config asks for, `default` where
    it is silent or says `auto`."""
    return config.number_format(*names) or default


def read_mamba(config: Config) -> ModelSpec:
    """Mamba and FalconMamba: one norm and one mixer a layer.

    The inner width is `intermediate_size` as vLLM reads it: FalconMamba 7B's `expand` is not
    the ratio of its widths."""
    config = config.with_defaults(MAMBA_DEFAULTS)
    hidden = config.integer("hidden_size", "d_model", low=1)
    sizes = Mamba1(
        hidden=hidden,
        channels=config.integer(
            "intermediate_size", default=int(config.number("expand", default=2) * hidden)
        ),
        state=config.integer("state_size"),
        rank=time_step_rank(config, "time_step_rank"),
        kernel=config.integer("conv_kernel", low=1),
        bias=config.flag("use_bias"),
        conv_bias=config.flag("use_conv_bias", default=True),
    )
    return _backbone(config, hidden, mamba1_tensors("mixer", sizes), mamba1_mixer(sizes))


def read_mamba2(config: Config) -> ModelSpec:
    """Mamba 2: one norm and one mixer a layer."""
    config = config.with_defaults(MAMBA2_DEFAULTS)
    hidden = config.integer("hidden_size", low=1)
    sizes = Mamba2(
        hidden=hidden,
        heads=config.integer("num_heads", low=1),
        head_dim=config.integer("head_dim", low=1),
        groups=config.integer("n_groups", low=1),
        state=config.integer("state_size"),
        kernel=config.integer("conv_kernel", low=1),
        bias=config.flag("use_bias"),
        conv_bias=config.flag("use_conv_bias", default=True),
    )
    return _backbone(config, hidden, mamba2_tensors("mixer", sizes), mamba2_mixer(sizes))


def _backbone(
    config: Config, hidden: int, tensors: Sequence[Tensor], mixer: Recurrent
) -> ModelSpec:
    """Return a model whose layers are a norm and this mixer."""
    return decoder(
        config,
        [parts.Layer((*parts.norm("norm", hidden), *tensors), (mixer,))] * config.layers(),
        base="backbone",
        embedding="embeddings",
        final_norm="norm_f",
    )


MAMBA_DEFAULTS = {
    "vocab_size": 50280, "hidden_size": 768, "state_size": 16, "num_hidden_layers": 32, "expand": 2,
    "conv_kernel": 4,
    "use_bias": False, "use_conv_bias": True, "time_step_rank": "auto", "tie_word_embeddings": True,
}  # fmt: skip
"""transformers 5.23, MambaConfig and FalconMambaConfig."""

MAMBA2_DEFAULTS = {
    "num_heads": 128, "head_dim": 64, "vocab_size": 32768, "hidden_size": 4096, "state_size": 128,
    "num_hidden_layers": 64, "expand": 2, "conv_kernel": 4, "n_groups": 8, "use_bias": False,
    "use_conv_bias": True, "tie_word_embeddings": False,
}  # fmt: skip
"""transformers 5.23, Mamba2Config."""

READERS: dict[str, Reader] = {
    "mamba": read_mamba,
    "falcon_mamba": read_mamba,
    "mamba2": read_mamba2,
}
