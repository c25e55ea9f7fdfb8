"""Latent attention whose tokens an indexer picks (DeepSeek V3.2, GLM 5), as transformers' modelling
code computes it for eager scores and SDPA: every layer masks what was not picked and meets all keys
all the same.

Source: transformers 5.23, models/deepseek_v32/modeling_deepseek_v32.py and
models/glm_moe_dsa/modeling_glm_moe_dsa.py."""

from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.workload import TrainingWorkload

_INDEX = 4
"""Bytes of an int32."""


def picked_bytes(spec: ModelSpec, context: LayerContext, workload: TrainingWorkload) -> int:
    """Return the bytes of the causal mask that every layer narrows, and of the numbers of picked
    tokens (int32) where layers hand them on as inputs, which checkpoints keep
    (GlmMoeDsaDecoderLayer)."""
    indexers = [
        (len(b.layers), m.indexer)
        for b in spec.blocks
        for m in b.mixers
        if isinstance(m, LatentAttention) and m.indexer
    ]
    if (
        not indexers
        or spec.model_type not in ("deepseek_v32", "glm_moe_dsa")
        or context.attention == "flash"
    ):
        return 0
    mask = (
        context.tokens * context.keys * (context.table_width if context.attention == "eager" else 1)
    )
    if spec.model_type != "glm_moe_dsa" or workload.activation_checkpointing == "none":
        return mask
    return mask + sum(
        layers * context.tokens * min(one.top_k, context.keys) * _INDEX for layers, one in indexers
    )


class SparseLayer(Layer):
    """Writes one layer on a tape."""

    def eager(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return scores written out, once the indexer has picked."""
        self._pick(q, k, v)
        return super().eager(q, k, v, heads, mixer)

    def fused_attention(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """SDPA, once the indexer has picked."""
        self._pick(q, k, v)
        return super().fused_attention(q, k, v, heads, mixer)

    def _pick(self, *ready: Value) -> None:
        """Run the indexer, without gradients, while queries, keys and values are `ready`:
        its queries, in fp32 for a product with its keys, and scores of every head in fp32, two
        tensors of them at a time. Of several sequences its keys are copied for every query, as a
        product over both does not broadcast a view (torch.matmul)."""
        indexer = next(
            (m.indexer for m in self.unit.block.mixers if isinstance(m, LatentAttention)), None
        )
        if indexer is None:
            return
        pairs = self.context.tokens * self.context.keys
        scores = pairs * indexer.heads * FLOAT
        queries = self.context.tokens * indexer.heads * indexer.dim
        ones = queries * ready[0].width
        spread = queries * FLOAT + (pairs * indexer.dim * FLOAT if self.context.batch > 1 else 0)
        self.tape.operation(
            "indexer",
            [x._replace(grad=False) for x in ready],
            pairs,
            1,
            scratch=ones + scores + max(scores, spread),
        )

    def explicit(self, mixer: Attention) -> bool:
        """SDPA is given a mask of what was picked, in every layer."""
        return True
