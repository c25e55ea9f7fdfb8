"""Which layer is what: layers with a mixture of experts among dense ones, sliding windows among
full attention.

A schedule is a list with one entry a layer. Source: the `__post_init__` of transformers 5.23's
configuration classes."""

from collections.abc import Callable

from fitgauge.engine.model.config import Config

Sparse = Callable[[Config, int], list[bool]]
"""Whether each of the layers has a mixture."""
Windows = Callable[[Config, int], list[int | None]]
"""The sliding window [tokens] of each of the layers, None for full attention."""


def every_layer(config: Config, layers: int) -> list[bool]:
    """Return that every layer has a mixture."""
    return [True] * layers


def after_dense(config: Config, layers: int) -> list[bool]:
    """`mlp_layer_types`; else a list `moe_layer_freq`; else all from `first_k_dense_replace` on,
    every `moe_layer_freq`-th of them."""
    if config.has("mlp_layer_types"):
        return [str(kind) != "dense" for kind in config.items("mlp_layer_types", length=layers)]
    if isinstance(config.values.get("moe_layer_freq"), list):
        return [bool(sparse) for sparse in config.items("moe_layer_freq", length=layers)]
    first = config.integer("first_k_dense_replace", "num_dense_layers", default=0)
    step = config.integer("moe_layer_freq", default=1, low=1)
    return [index >= first and index % step == 0 for index in range(layers)]


def stepped(config: Config, layers: int) -> list[bool]:
    """Qwen: every `decoder_sparse_step`-th layer, but those of `mlp_only_layers`; none where
    there are no experts."""
    step = config.integer("decoder_sparse_step", default=1, low=1)
    dense = config.items("mlp_only_layers")
    experts = config.integer("num_experts", "num_local_experts", default=1)
    return [
        bool(experts) and index not in dense and (index + 1) % step == 0 for index in range(layers)
    ]


def ernie(config: Config, layers: int) -> list[bool]:
    """ERNIE 4.5: every `moe_layer_interval`-th layer from `moe_layer_start_index` to
    `moe_layer_end_index` (-1: the last)."""
    first = config.integer("moe_layer_start_index", default=1)
    last = config.integer("moe_layer_end_index", default=-1, low=-1)
    step = config.integer("moe_layer_interval", default=1, low=1)
    end = layers - 1 if last == -1 else last
    return [(index + 1) % step == 0 and first <= index <= end for index in range(layers)]


def no_window(config: Config, layers: int) -> list[int | None]:
    """Full attention everywhere."""
    return [None] * layers


def one_window(config: Config, layers: int) -> list[int | None]:
    """`sliding_window` in every layer (Mixtral), none where it is null or 0."""
    return [config.integer("sliding_window", default=0) or None] * layers


def window_if_used(config: Config, layers: int) -> list[int | None]:
    """Return the same, where `use_sliding_window` says so (Qwen 3)."""
    if config.flag("use_sliding_window"):
        return one_window(config, layers)
    return no_window(config, layers)


def alternating_if_used(config: Config, layers: int) -> list[int | None]:
    """Qwen 2: every second layer below `max_window_layers`, or `layer_types`, where
    `use_sliding_window` says so."""
    last = config.integer("max_window_layers", default=28)
    slides = [(index + 1) % 2 == 1 and index < last for index in range(layers)]
    return (
        by_types(config, slides) if config.flag("use_sliding_window") else no_window(config, layers)
    )


def after_window_layers(config: Config, layers: int) -> list[int | None]:
    """dots.llm1: `layer_types`, or from `max_window_layers` on."""
    first = config.integer("max_window_layers", default=layers)
    return by_types(config, [index >= first for index in range(layers)])


def every_nth_full(name: str = "", *, period: int) -> Windows:
    """`layer_types`, or full attention in every n-th layer; n under `name` as `by_pattern` reads
    it, else `period`."""

    def windows(config: Config, layers: int) -> list[int | None]:
        if not config.integer("sliding_window", default=0):
            return no_window(config, layers)
        stated = config if name and config.has(name) else Config({name: period})
        return by_types(config, by_pattern(stated, name, layers))

    return windows


def by_pattern(config: Config, name: str, layers: int) -> list[bool]:
    """Return which layers slide: all but every n-th, or those that a period's letters spell without
    G (EXAONE writes LLLG)."""
    pattern = config.values.get(name)
    if isinstance(pattern, str) and pattern:
        return [pattern[index % len(pattern)] != "G" for index in range(layers)]
    step = config.integer(name, low=1)
    return [(index + 1) % step != 0 for index in range(layers)]


def by_types(config: Config, slides: list[bool]) -> list[int | None]:
    """`sliding_window` where `layer_types` says sliding, or where `slides` does for a config
    without them."""
    window = config.integer("sliding_window", default=0) or None
    if config.has("layer_types"):
        slides = [
            "sliding" in str(kind) for kind in config.items("layer_types", length=len(slides))
        ]
    return [window if sliding else None for sliding in slides]
