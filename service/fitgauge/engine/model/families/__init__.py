"""From a config.json to a ModelSpec: one reader for every family, found by `model_type`.

A family module exports READERS: model_type -> function(Config) -> ModelSpec, and its folder's
`__init__.py` names it. An architecture without a reader is read by its config's usual names, with
basis `assumed` and a note that says so."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fitgauge.engine.model import bounds
from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import beam, dense, eagle, encoder, mixture, recurrent
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.dropout import stated_rates
from fitgauge.engine.model.families.fallback import read_fallback
from fitgauge.engine.model.families.multimodal import qwen_vl, vision
from fitgauge.engine.model.families.rotary_tables import stated_parameters
from fitgauge.engine.model.families.vision_section import vision_section
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.published import published

READERS: dict[str, Reader] = {
    **dense.READERS,
    **mixture.READERS,
    **beam.READERS,
    **recurrent.READERS,
    **encoder.READERS,
    **vision.READERS,
    **qwen_vl.READERS,
}


def read_config(
    values: Mapping[str, Any], quantization: Mapping[str, Any] | None = None
) -> ModelSpec:
    """Return the ModelSpec that a config.json describes.

    `quantization`: the content of hf_quant_config.json, for repositories that keep it apart.
    Raises MalformedModelError where a size is missing or absurd, with the field's name, or where
    the model or its quantization would cost more to estimate than any real one (`bounds`,
    `published`)."""
    config = Config(values)
    reader = eagle.reader(config) or READERS.get(config.text("model_type"))
    spec = reader(config) if reader else read_fallback(config, READERS)
    spec = msgspec.structs.replace(
        spec,
        quantization=published_quantization(config, quantization),
        vision_section=vision_section(config, spec),
        rope_parameters=stated_parameters(values),
        stated=_stated(config),
        dropout=stated_rates(values, spec),
    )
    bounds.check(spec)
    published(spec)
    return spec


def _stated(config: Config) -> dict[str, Any]:
    """Return `ModelSpec.stated`, of the language model where the config holds several."""
    text = {**config.values, **config.section("text_config").values}
    return {name: text[name] for name in ("mla_use_nope", "output_gate_type") if name in text}


def published_quantization(
    config: Config, apart: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """quantization_config of the config or its text section, else `apart`, which also counts where
    the config names no quant_method.

    `expert_dtype`, which DeepSeek V4 keeps at the top level, goes with it, and under
    `hf_quant_config` what `apart` says of the cache where a mixed checkpoint's config is silent.
    """
    inside = config.values.get("quantization_config") or config.section("text_config").values.get(
        "quantization_config"
    )
    if not isinstance(inside, Mapping) or (apart and "quant_method" not in inside):
        inside = apart or inside
    if not isinstance(inside, Mapping):
        return None
    if apart and inside is not apart and silent_on_cache(inside):
        inside = {**inside, "hf_quant_config": dict(_cache_of(apart))}
    outside = {key: config.values[key] for key in ("expert_dtype",) if key in config.values}
    return {**inside, **outside}


def silent_on_cache(settings: Mapping[str, Any]) -> bool:
    """Return whether a mixed checkpoint of ModelOpt's says nothing of its cache in config.json,
    which SGLang then looks up in hf_quant_config.json, and vLLM does not. Source: sglang 0.5.23,
    srt/model_loader/weight_utils.py, get_quant_config."""
    return settings.get("quant_algo") == "MIXED_PRECISION" and not any(
        name in settings for name in ("kv_cache_quant_algo", "kv_cache_scheme")
    )


def _cache_of(apart: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    nested = apart.get("quantization")
    settings = nested if isinstance(nested, Mapping) else apart
    if "kv_cache_quant_algo" in settings:
        yield "kv_cache_quant_algo", settings["kv_cache_quant_algo"]
