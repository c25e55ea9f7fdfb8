"""What a config's `vision_config` says by the usual names of transformers.

Engines that look for `num_hidden_layers` and `hidden_size` do so in every family: Qwen's towers
have a `depth`, and the `hidden_size` of Qwen2-VL's is the language model's."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.spec import Kind, ModelSpec, Part, VisionSection

_DEPTHS = ("depth", "layers", "num_layers")
_WIDTHS = ("embed_dim", "width")


def vision_section(config: Config, spec: ModelSpec) -> VisionSection | None:
    """Return the section of a config that was read as `spec`, None where it has none. What it
    leaves to the defaults of its class is the tower's, where that is read layer by layer."""
    if not config.has("vision_config"):
        return None
    section = config.section("vision_config")
    tower = max(
        (block for block in spec.blocks if block.part is Part.VISION),
        key=lambda block: len(block.layers),
        default=None,
    )
    layers = section.maybe_integer("num_hidden_layers")
    width = section.maybe_integer("hidden_size")
    if tower is not None and layers is None and not section.has(*_DEPTHS):
        layers = len(tower.layers) if "{}" in tower.prefix else None
    if tower is not None and width is None and not section.has(*_WIDTHS):
        norms = (tensor.shape[0] for tensor in tower.tensors if tensor.kind is Kind.NORM)
        width = max(norms, default=None)
    return VisionSection(layers, width, _feature_layer(config, layers))


def _feature_layer(config: Config, layers: int | None) -> int | None:
    """Return the last layer of `vision_feature_layer`, a number or a list."""
    stated = config.values.get("vision_feature_layer")
    numbers = stated if isinstance(stated, list) else [stated]
    read = [number for number in numbers if type(number) is int]
    return max(read, key=lambda number: number + (layers or 0) * (number < 0), default=None)
