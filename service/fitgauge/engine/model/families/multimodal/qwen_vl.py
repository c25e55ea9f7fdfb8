"""Qwen 1 and Qwen-VL, one model_type: with a `visual` section the language model has a tower of
OpenCLIP's kind and one layer of cross-attention that makes 256 tokens of an image.

Source: visual.py of Qwen/Qwen-VL's own code; the count of Qwen-VL-Chat's config is the published
one, 9,656,935,168."""

import math

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.custom_code import read_qwen
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.multimodal.vit import Vit, patches, sides, vit, whole
from fitgauge.engine.model.spec import Block, ModelSpec, Part

QUERIES = 256
"""Tokens an image becomes."""

_NAME = "transformer.visual"


def read_qwen_vl(config: Config) -> ModelSpec:
    """Return the language model, with its tower where the config has one."""
    spec = read_qwen(config)
    if not config.has("visual"):
        return spec
    blocks = (*spec.blocks, *tower(config.section("visual")))
    return msgspec.structs.replace(spec, blocks=blocks)


def tower(visual: Config) -> tuple[Block, ...]:
    """Return a pre-norm vision transformer and its resampler, whose positions are parameters
    too."""
    width = visual.integer("width", low=1)
    out = visual.integer("output_dim", low=1)
    embeddings = (
        *patches(f"{_NAME}.conv1", width, 3, *sides(visual, "patch_size"), bias=False),
        whole(f"{_NAME}.positional_embedding", QUERIES, width),
        *parts.norm(f"{_NAME}.ln_pre", width, bias=True),
        *parts.norm(f"{_NAME}.ln_post", out, bias=True),
        whole(f"{_NAME}.proj", out, out),
    )
    style = Vit(
        f"{_NAME}.transformer.resblocks.{{}}.",
        qkv=("attn.in_proj",),
        out="attn.out_proj",
        norms=("ln_1", "ln_2"),
        mlp=("mlp.c_fc", "mlp.c_proj"),
        sharded=False,
    )
    layers = vit(
        style,
        hidden=width,
        heads=visual.integer("heads", low=1),
        width=math.floor(width * visual.number("mlp_ratio", default=4.0)),
        layers=visual.integer("layers", low=1),
    )
    pool = f"{_NAME}.attn_pool"
    resampler = (
        whole(f"{pool}.query", QUERIES, out),
        whole(f"{pool}.pos_embed", QUERIES, out),
        *parts.linear(f"{pool}.kv_proj", out, width),
        *parts.linear(f"{pool}.attn.in_proj", 3 * out, out, bias=True),
        *parts.linear(f"{pool}.attn.out_proj", out, out, bias=True),
        *parts.norm(f"{pool}.ln_q", out, bias=True),
        *parts.norm(f"{pool}.ln_kv", out, bias=True),
    )
    return (parts.single(Part.VISION, embeddings), *layers, parts.single(Part.PROJECTOR, resampler))


READERS: dict[str, Reader] = {"qwen": read_qwen_vl}
