"""Models whose publisher states that YaRN stretches their rotary positions beyond what their
config says, and how far. Their quantizations and fine-tunes have their layers."""

from typing import NamedTuple

from fitgauge.engine.model.spec import ModelSpec, Part


class LongContext(NamedTuple):
    """How far the positions of a model may be stretched."""

    positions: int
    """Those that it was trained with, which a factor multiplies."""
    reach: int
    """The longest context that the publisher states [tokens]."""


_QWEN = LongContext(positions=32_768, reach=131_072)
_HYBRID = LongContext(positions=262_144, reach=1_010_000)

_ROWS: dict[tuple[str, int], tuple[LongContext, frozenset[int]]] = {
    # Qwen2 and Qwen2.5 of 7B and more, and the 72B as its 4-bit repositories pad it. Source:
    # QwenLM/Qwen3 docs/source/getting_started/concepts.md; huggingface.co/Qwen/
    # Qwen2.5-7B-Instruct and Qwen2.5-Coder-7B-Instruct, "Processing Long Texts".
    ("qwen2", 32_768): (
        _QWEN,
        frozenset({
            7_615_616_512, 14_770_033_664, 32_763_876_352, 72_706_203_648, 72_957_861_888,
        }),
    ),
    # From 4B up. Source: QwenLM/Qwen3 docs/source/deployment/vllm.md, "Context Length"; the model
    # cards ("32,768 natively and 131,072 tokens with YaRN"), of which the smaller ones' do not.
    ("qwen3", 40_960): (
        _QWEN, frozenset({4_022_468_096, 8_190_735_360, 14_768_307_200, 32_762_123_264}),
    ),
    ("qwen3_moe", 40_960): (_QWEN, frozenset({30_532_122_624, 235_093_634_560})),
    # Qwen3-Coder; Qwen3-30B-A3B-2507, of the same layers, is stated to reach as far by dual chunk
    # attention, which vLLM 0.33 has no more. Source: QwenLM/Qwen3-Coder README.md, "extendable up
    # to 1M tokens using Yarn"; QwenLM/Qwen3 docs/source/getting_started/concepts.md.
    ("qwen3_moe", 262_144): (
        LongContext(positions=262_144, reach=1_000_000),
        frozenset({30_532_122_624, 480_154_875_392}),
    ),
    # Source: huggingface.co/Qwen/Qwen3-Next-80B-A3B-Instruct, "Processing Ultra-Long Texts".
    ("qwen3_next", 262_144): (_HYBRID, frozenset({79_674_391_296})),
    # Qwen3.5, 3.6 and 3.8 from 9B up. Source: vllm-project/recipes Qwen/Qwen3.5.md,
    # models/Qwen/Qwen3.5-9B.yaml, Qwen3.6-27B.yaml, Qwen3.6-35B-A3B.yaml.
    ("qwen3_5_text", 262_144): (_HYBRID, frozenset({8_953_803_264, 26_895_998_464})),
    ("qwen3_5_moe_text", 262_144): (
        _HYBRID, frozenset({34_660_610_688, 122_111_526_912, 396_346_350_336}),
    ),
    # Source: vllm-project/recipes#856, Qwen3.8-Flash-Next.
    ("qwen4_exp_text", 262_144): (
        LongContext(positions=262_144, reach=1_000_000), frozenset({176_943_653_760}),
    ),
}  # fmt: skip
"""By the type of the language model and what its config says it reads [tokens]: how far, and for
which numbers of parameters without towers."""


def long_context(spec: ModelSpec) -> LongContext | None:
    """Return how far a publisher states that the model's positions may be stretched; None where
    none does."""
    row = _ROWS.get((spec.language_type or spec.model_type, spec.max_context_length))
    if row is None:
        return None
    parts = (Part.EMBEDDING, Part.LANGUAGE, Part.HEAD)
    size = sum(block.elements for block in spec.blocks if block.part in parts)
    return row[0] if size in row[1] else None
