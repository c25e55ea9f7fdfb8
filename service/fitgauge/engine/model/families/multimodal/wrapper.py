"""A multimodal model around a language model of another family.

A `Wrapper` names the parts; the language model is read by its own family's reader and its
tensors are given the names that the multimodal checkpoint has for them. Source: transformers
5.23, models/<model_type>, above all which section's `tie_word_embeddings` counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import dense, mixture, recurrent
from fitgauge.engine.model.families.dense.dense import Reader, architecture_name, read_dense
from fitgauge.engine.model.families.multimodal import (
    embedding_gemma2,
    ernie,
    gemma3n,
    gemma4,
    mllama,
)
from fitgauge.engine.model.families.multimodal.towers import Tower
from fitgauge.engine.model.spec import Block, ModelSpec, Part, RotaryTable
from fitgauge.engine.note import Note

TEXT: Mapping[str, Reader] = {
    **dense.READERS,
    **mixture.READERS,
    **recurrent.READERS,
    **embedding_gemma2.READERS,
    **ernie.READERS,
    **gemma3n.READERS,
    **gemma4.READERS,
    **mllama.READERS,
}
"""Every reader of a language model that a wrapper may hold."""

KIN: Mapping[str, str] = {
    "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3",
    "glm4v_text": "glm4", "glm_ocr_text": "glm4", "paddleocr_vl_text": "ernie4_5",
    "diffusion_gemma_text": "gemma4_text", "qwen2_5_omni_text": "qwen2",
    "qwen3_omni_moe_text": "qwen3_moe",
    "glm4v_moe_text": "glm4_moe", "kimi_k2": "deepseek_v3", "exaone4_5_text": "exaone4",
}  # fmt: skip
"""Language models that are another family's in all but their defaults."""


@dataclass(frozen=True)
class Wrapper:
    """A multimodal model around a language model."""

    text: str
    """The model_type of its language model where the config is silent."""
    tower: Tower
    """Reader of its tower."""
    stem: str = "model.language_model."
    """What the names of the language model's tensors begin with."""
    head: str = "lm_head."
    """What the head's name begins with."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Of the text section's own configuration class, where it is not the reader's."""
    absent: Mapping[str, Any] = field(default_factory=dict)
    """The text section where the config has none at all."""
    vision: Mapping[str, Any] = field(default_factory=dict)
    """The vision section where the config has none."""
    tied: bool = False
    """Default of the wrapper's own flag for tied embeddings."""
    ties: Literal["own", "either", "text"] = "own"
    """Whose flag ties embeddings: the wrapper's own, that of either section, or of the text."""
    rotary: bool = False
    """Whether vLLM registers a rotary table for the tower."""


LANGUAGE_ALONE = frozenset({
    "Gemma3ForCausalLM", "Gemma4ForCausalLM", "Llama4ForCausalLM", "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
})  # fmt: skip
"""Classes of a multimodal model's language model alone, whatever sections its config has."""

IMAGE_PREFIX = frozenset({"gemma3", "paligemma"})
"""Model types whose images attend to all of themselves. Source: vLLM,
transformers_utils/model_arch_config_convertor.py."""


def read_wrapped(config: Config, wrapper: Wrapper) -> ModelSpec:
    """Return the ModelSpec of a multimodal model. Raises MalformedModelError where a size is
    missing or absurd."""
    text = text_section(config, wrapper)
    if architecture_name(config) in LANGUAGE_ALONE:
        return msgspec.structs.replace(
            (TEXT.get(text.text("model_type")) or read_dense)(text),
            model_type=config.text("model_type"),
            architecture=architecture_name(config),
            language_type=text.text("model_type"),
        )
    vision = config.section("vision_config")
    if not config.has("vision_config"):
        vision = Config(wrapper.vision, vision.where)
    reader = TEXT.get(text.text("model_type"))
    spec = (reader or read_dense)(text)
    language = (
        [uncounted(block) for block in spec.blocks]
        if tied_by_default(config, wrapper)
        else spec.blocks
    )
    blocks = (
        *[renamed(block, wrapper) for block in language],
        *wrapper.tower(vision, config, spec.hidden_size),
    )
    return msgspec.structs.replace(
        spec,
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        language_type=text.text("model_type"),
        blocks=blocks,
        rotary_tables=(*spec.rotary_tables, *(tower_table(blocks) if wrapper.rotary else ())),
        image_prefix=config.text("model_type") in IMAGE_PREFIX
        or text.values.get("use_bidirectional_attention") == "vision",
        basis="exact" if reader else "assumed",
        notes=(
            spec.notes
            if reader
            else (
                *spec.notes,
                Note(
                    "language-model-unknown",
                    "model",
                    "The language model's family is not known here: it was read by its usual"
                    " names.",
                ),
            )
        ),
    )


def text_section(config: Config, wrapper: Wrapper) -> Config:
    """Return the text section as its family's reader expects it: model_type, dtype and tie
    resolved, defaults filled in.

    Older configs (Qwen2-VL) have no section and keep the language model's sizes at the top.
    """
    section = config.section("text_config", "llm_config")
    values = dict(section.values)
    if not values and config.has("hidden_size"):
        values = {
            name: value
            for name, value in config.values.items()
            if name not in ("vision_config", "model_type")
        }
    elif not values:
        values = dict(wrapper.absent)
    if values.get("use_bidirectional_attention") is True:
        # Only what an image spans is read both ways: the language model still generates.
        values["use_bidirectional_attention"] = "vision"
    kind = str(values.get("model_type") or wrapper.text)
    defaults = wrapper.defaults if kind == wrapper.text else {}
    own = (
        None
        if tied_by_default(config, wrapper)
        else config.flag("tie_word_embeddings", default=wrapper.tied)
    )
    text = Config(values).flag(
        "tie_word_embeddings", default=bool(defaults.get("tie_word_embeddings", False))
    )
    tied = {"own": own, "either": own or text, "text": text}[wrapper.ties]
    dtype = (
        values.get("dtype")
        or values.get("torch_dtype")
        or config.text("dtype", "torch_dtype")
        or None
    )
    resolved = {"model_type": KIN.get(kind, kind), "dtype": dtype} | (
        {} if tied is None else {"tie_word_embeddings": tied}
    )
    return Config({**defaults, **values, **resolved}, section.where)


def tied_by_default(config: Config, wrapper: Wrapper) -> bool:
    """Return whether head and embedding are tied only because the wrapper's configuration class
    says so where the config is silent.

    transformers then counts no head, but repositories hold one wherever the text section's own
    flag or default is untied (Mistral Small 3.1), and vLLM, which goes by that section, loads
    it: such a head is read, and not counted as parameters."""
    return wrapper.ties == "own" and wrapper.tied and not config.has("tie_word_embeddings")


def uncounted(block: Block) -> Block:
    """Return the block; an output head as something loaded that is no parameter."""
    if block.part is not Part.HEAD:
        return block
    return msgspec.structs.replace(
        block,
        tensors=tuple(msgspec.structs.replace(tensor, buffer=True) for tensor in block.tensors),
    )


def renamed(block: Block, wrapper: Wrapper) -> Block:
    """Return the block under the names of the multimodal checkpoint."""

    def name(text: str) -> str:
        for old, new in (("model.", wrapper.stem), ("lm_head.", wrapper.head)):
            if text.startswith(old):
                return new + text.removeprefix(old)
        return text

    if block.prefix:
        return msgspec.structs.replace(block, prefix=name(block.prefix))
    return msgspec.structs.replace(
        block, tensors=tuple(msgspec.structs.replace(t, name=name(t.name)) for t in block.tensors)
    )


def tower_table(blocks: tuple[Block, ...]) -> tuple[RotaryTable, ...]:
    """Return the table of a tower that rotates half of each head by rows and columns: 8192 x
    half a head (vLLM 0.33, models/qwen3_vl.py)."""
    dims = [
        mixer.head_dim
        for block in blocks
        if block.part is Part.VISION
        for mixer in block.mixers
        if hasattr(mixer, "head_dim")
    ]
    return (RotaryTable(positions=8192, dim=dims[0] // 2, tower=True),) if dims else ()
