"""Reads fields of a stranger's config.json, bounded before they are believed."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from fitgauge.engine.model.dtypes import dtype
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import MalformedModelError

MAX_LAYERS = 4096
"""Layers, and values of a list with one for each of them. The snapshot's deepest model has 126."""
MAX_EXPERTS = 2**16
"""Routed experts of a layer. The snapshot's largest mixture has 896."""
MAX_HEADS = 2**16
"""Heads of a layer. The snapshot's widest attention has 232."""
MAX_WIDTH = 2**24
"""Any other size: features, words, ranks, groups. The snapshot's largest is a vocabulary of
262,208."""
MAX_TOKENS = 2**31
"""Positions and windows [tokens]. The snapshot's longest context is 10,485,760."""

_TOKENS = (
    "position_embeddings", "positions", "length", "window", "window_size", "chunk_size", "seq_len",
    "context", "n_ctx", "topk", "top_k",
    "tokens", "sliding_window_pattern",
)  # fmt: skip
_BOUNDS = (
    (("layers", "n_layer", "depth"), MAX_LAYERS),
    (
        ("experts", "experts_per_tok", "experts_per_token", "moe_k", "moe_top_k", "moe_topk"),
        MAX_EXPERTS,
    ),
    (("heads", "n_head"), MAX_HEADS),
    (_TOKENS, MAX_TOKENS),
)
"""How names end, with the highest value that is believed under them."""

_POSITIVE = frozenset({
    "hidden_size", "n_embd", "d_model", "vocab_size", "intermediate_size", "moe_intermediate_size",
    "ffn_hidden_size", "d_ff", "ffn_dim",
    "num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers",
    "encoder_layers", "decoder_layers",
    "num_attention_heads", "n_head", "num_heads", "num_key_value_heads", "head_dim", "kv_lora_rank",
    "max_position_embeddings",
    "patch_size", "image_size", "num_channels",
})  # fmt: skip
"""Sizes that no model has as 0, in families that read them."""

_REQUIRED: Any = object()


class Config:
    """A config.json or one of its sections. Every reader takes several names: the first that is
    there and not null counts."""

    def __init__(self, values: Mapping[str, Any], where: str = "config.json") -> None:
        self.values = values
        self.where = where

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Config":
        """Return the config with `defaults` where it does not hold a key: published config.json
        files leave out what equals those of their configuration class. A key that is there and
        null stays null."""
        return Config({**defaults, **self.values}, self.where)

    def with_values(self, **values: object) -> "Config":
        """Return the config with `values` in place of its own: what a family's code does whatever
        its config says."""
        return Config({**self.values, **values}, self.where)

    @property
    def nested(self) -> bool:
        """Whether this is a section of a config.json rather than the whole of it."""
        return ": " in self.where

    def _find(self, names: tuple[str, ...]) -> tuple[str, Any]:
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return name, value
        return names[0], None

    def has(self, *names: str) -> bool:
        """Return whether any of the names is there and not null."""
        return self._find(names)[1] is not None

    def integer(
        self,
        *names: str,
        default: int | None = _REQUIRED,
        low: int | None = None,
        high: int | None = None,
    ) -> int:
        """Return an integer in [low, high], which follow from the name by default. A list that
        says the same of every layer is that integer.

        Raises MalformedModelError where it is missing without a default, no number, or out of
        bounds, `default` included."""
        name, value = self._find(names)
        low = int(name in _POSITIVE and value is not None) if low is None else low
        high = _highest(name) if high is None else high
        if value is None:
            if default is _REQUIRED:
                raise MalformedModelError(
                    f"{self.where} has no {name}.",
                    hint="Check that the repository holds a complete config.json.",
                )
            value = default or 0
        if isinstance(value, list) and len(value) > 1 and value.count(value[0]) == len(value):
            value = value[0]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise MalformedModelError(
                f"{self.where}: {name} is {_shown(value)}, not an integer from {low} to {high}.",
                field=name,
            )
        return value

    def maybe_integer(
        self, *names: str, low: int | None = None, high: int | None = None
    ) -> int | None:
        """Return the same, None where it is missing or null."""
        return self.integer(*names, low=low, high=high) if self.has(*names) else None

    def number(self, *names: str, default: float, low: float = -1e18, high: float = 1e18) -> float:
        """Return a number from low to high, `default` where it is missing."""
        name, value = self._find(names)
        if value is None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise MalformedModelError(
                f"{self.where}: {name} is {_shown(value)}, not a number from {low:g} to {high:g}.",
                field=name,
            )
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return a boolean, `default` where it is missing."""
        name, value = self._find(names)
        if value is None:
            return default
        if not isinstance(value, bool | int):
            raise MalformedModelError(
                f"{self.where}: {name} is {_shown(value)}, not true or false.", field=name
            )
        return bool(value)

    def text(self, *names: str, default: str = "") -> str:
        """Return a string, `default` where it is missing."""
        name, value = self._find(names)
        if value is None:
            return default
        if not isinstance(value, str):
            raise MalformedModelError(
                f"{self.where}: {name} is {_shown(value)}, not a string.", field=name
            )
        return value

    def items(self, *names: str, length: int | None = None) -> list[Any]:
        """Return a list of at most MAX_LAYERS values, or the first `length` of them, empty where
        it is missing. Raises MalformedModelError where there are fewer."""
        name, value = self._find(names)
        if value is None:
            return []
        if (
            not isinstance(value, list)
            or len(value) > MAX_LAYERS
            or (length is not None and len(value) < length)
        ):
            raise MalformedModelError(
                f"{self.where}: {name} is not a list of {length or f'at most {MAX_LAYERS}'}"
                " values.",
                field=name,
            )
        return value[:length]

    def section(self, *names: str) -> "Config":
        """Return a nested object as a Config, empty where it is missing."""
        name, value = self._find(names)
        if value is not None and not isinstance(value, dict):
            raise MalformedModelError(f"{self.where}: {name} is not an object.", field=name)
        return Config(value or {}, f"{self.where}: {name}")

    def layers(self, *names: str) -> int:
        """Return the number of layers, from 1 to MAX_LAYERS."""
        return self.integer(
            *(names or ("num_hidden_layers", "n_layer", "num_layers", "n_layers")),
            low=1,
            high=MAX_LAYERS,
        )

    def dtype(self, default: str = "BF16") -> str:
        """Return the canonical dtype of the stored weights, `default` where the config is silent
        or says `auto`."""
        return self.number_format("dtype", "torch_dtype") or default

    def number_format(self, *names: str) -> str | None:
        """Return the canonical dtype that a field names; None where the config is silent or says
        `auto`."""
        name = self.text(*names)
        try:
            return dtype(name) if name and name != "auto" else None
        except UnsupportedError:
            raise MalformedModelError(
                f"{self.where}: unknown dtype {name[:40]!r}.", field=names[-1]
            ) from None


@cache
def _highest(name: str) -> int:
    return next((high for ends, high in _BOUNDS if name.endswith(ends)), MAX_WIDTH)


def _shown(value: object) -> str:
    """Return a value as a message quotes it: an integer may have too many digits to be written
    out."""
    return repr(
        f"{value:#x}"[:40] if isinstance(value, int) and abs(value) > 2**64 else str(value)[:40]
    )
