"""Beam: a mixture whose attention has a gate as wide as its output, norms of heads and four norms a
layer.

Source: transformers 5.20, models/beam; vLLM 0.33, models/beam."""

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.fallback import usual_decoder
from fitgauge.engine.model.families.stack import correction, vector
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Block, ModelSpec, Part, Split

_MORE_NORMS = ("pre_feedforward_layernorm", "post_feedforward_layernorm")


def read_beam(config: Config) -> ModelSpec:
    """Return the ModelSpec of a Beam. Raises MalformedModelError where a size is missing."""
    spec = usual_decoder(config)
    blocks = tuple(_with_gate(block, spec.hidden_size) for block in spec.blocks)
    tables = tuple(msgspec.structs.replace(table, dtype="F32") for table in spec.rotary_tables)
    return msgspec.structs.replace(spec, blocks=blocks, rotary_tables=tables)


def _with_gate(block: Block, hidden: int) -> Block:
    mixer = next((mixer for mixer in block.mixers if isinstance(mixer, Attention)), None)
    if block.part is not Part.LANGUAGE or mixer is None:
        return block
    heads, width = mixer.query_heads, mixer.query_heads * mixer.head_dim
    experts = block.mlp.experts if block.mlp else 0
    added = (
        *parts.linear("self_attn.gate_proj", width, hidden, Split.COLUMN, units=heads),
        vector("self_attn.gate_bias", heads),
        *parts.norms(parts.QK_NORMS, mixer.head_dim),
        *parts.norms(_MORE_NORMS, hidden),
        *((correction("mlp.gate.e_score_correction_bias", experts),) if experts else ()),
    )
    return msgspec.structs.replace(block, tensors=(*block.tensors, *added))


READERS: dict[str, Reader] = {"beam": read_beam}
