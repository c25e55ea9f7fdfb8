"""EmbeddingGemma 2: Gemma 4's layers without a mixture, read in both directions, with inputs of
every layer that no table holds; Gemma 4's towers.

Source: transformers 5.23, models/embedding_gemma2; division: vLLM 0.33,
models/embedding_gemma2.py."""

from dataclasses import replace

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.multimodal import gemma4
from fitgauge.engine.model.families.stack import decoder
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import ModelSpec, Part, Split


def read_embedding_gemma2(config: Config) -> ModelSpec:
    """Return the language model."""
    config = config.with_defaults(DEFAULTS)
    hidden = config.integer("hidden_size", low=1)
    per_layer = config.integer("hidden_size_per_layer_input", low=1)
    where = [_own_heads(config, place) for place in gemma4.places(config)]
    layers = [_both_ways(gemma4.layer(config, hidden, per_layer, place)) for place in where]
    spec = decoder(config, layers, rotary_tables=gemma4.rotary_tables(config, where))
    joint = (
        *parts.linear(
            "model.ple.per_layer_model_projection", len(where) * per_layer, hidden, Split.COLUMN
        ),
        *parts.norm("model.ple.per_layer_projection_norm", per_layer),
        *parts.linear("model.embedding_projection", config.integer("embedding_dim", low=1), hidden),
    )
    return msgspec.structs.replace(
        spec, task="encode", blocks=(*spec.blocks, parts.single(Part.LANGUAGE, joint))
    )


def _own_heads(config: Config, place: gemma4.Place) -> gemma4.Place:
    """Return a layer's place with the heads of full attention, where the config names no layer's
    own."""
    if place.slides or config.has("per_layer_config"):
        return place
    return replace(place, kv_heads=config.integer("num_global_key_value_heads", default=1, low=1))


def _both_ways(layer: parts.Layer) -> parts.Layer:
    mixers = tuple(
        msgspec.structs.replace(mixer, causal=False) if isinstance(mixer, Attention) else mixer
        for mixer in layer.mixers
    )
    tensors = tuple(
        msgspec.structs.replace(tensor, name=f"ple_block.{tensor.name}")
        if "per_layer" in tensor.name
        else tensor
        for tensor in layer.tensors
    )
    return replace(layer, mixers=mixers, tensors=tensors)


DEFAULTS = gemma4.DEFAULTS | {
    "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 24,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 262144,
    "hidden_size_per_layer_input": 512, "embedding_dim": 768, "attention_k_eq_v": False,
}  # fmt: skip
"""transformers 5.23, EmbeddingGemma2TextConfig."""

READERS: dict[str, Reader] = {"embedding_gemma2_text": read_embedding_gemma2}
