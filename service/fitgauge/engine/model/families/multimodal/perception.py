"""The perception encoder of Step 3.7: learned positions, layer scales, two convolutions that gather
patches.

Sources: transformers 5.23, models/step3p7; names and division: vLLM 0.33, models/step_vl.py and
step3p7.py."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.multimodal.vit import Vit, patches, vit, whole
from fitgauge.engine.model.spec import Block, Part, Split


def step(vision: Config, config: Config, hidden: int) -> tuple[Block, ...]:
    """Step 3.7's tower and its linear to the language model; the MLP's width is `mlp_ratio` x
    features."""
    vision = vision.with_defaults(DEFAULTS)
    width = vision.integer("width", "hidden_size", low=1)
    heads = vision.integer("heads", "num_attention_heads", low=1)
    patch, name = vision.integer("patch_size", low=1), "vision_model"
    style = Vit(
        f"{name}.transformer.resblocks.{{}}.",
        qkv=("attn.in_proj",),
        out="attn.out_proj",
        norms=("ln_1", "ln_2"),
        mlp=("mlp.c_fc", "mlp.c_proj"),
        extras=(whole("ls_1.gamma", width), whole("ls_2.gamma", width)),
    )
    tower = (
        *patches(f"{name}.conv1", width, vision.integer("num_channels"), patch, patch, bias=False),
        whole(
            f"{name}.positional_embedding",
            (vision.integer("image_size", low=1) // patch) ** 2,
            width,
        ),
        *parts.norm(f"{name}.ln_pre", width, bias=True),
        *patches(f"{name}.vit_downsampler1", 2 * width, width, 3, 3),
        *patches(f"{name}.vit_downsampler2", 4 * width, 2 * width, 3, 3),
    )
    inner = int(width * vision.number("mlp_ratio", default=1.0))
    layers = vision.layers("layers", "num_hidden_layers")
    bias = config.flag("projector_bias")
    return (
        parts.single(Part.VISION, tower),
        *vit(style, hidden=width, heads=heads, width=inner, layers=layers),
        parts.single(
            Part.PROJECTOR,
            parts.linear("vit_large_projector", hidden, 4 * width, Split.COLUMN, bias=bias),
        ),
    )


DEFAULTS = {
    "hidden_size": 1536, "num_hidden_layers": 47, "num_attention_heads": 16, "num_channels": 3,
    "image_size": 728, "patch_size": 14,
    "mlp_ratio": 8960 / 1536,
}  # fmt: skip
"""transformers 5.23, Step3p7VisionConfig."""
