"""Select the layer model: by a layer's parts, by the kernels that run it, and by family where
traits do not suffice."""

from collections.abc import Mapping

from fitgauge.engine.model.mixers import Recurrent
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.autograd.layers.fused import FusedLayer
from fitgauge.engine.training.autograd.layers.gemma4 import Gemma4Layer
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.layers.llama4 import Llama4Layer
from fitgauge.engine.training.autograd.layers.megatron import MegatronLayer
from fitgauge.engine.training.autograd.layers.mllama import MllamaLayer
from fitgauge.engine.training.autograd.layers.modules import LayerContext, Modules
from fitgauge.engine.training.autograd.layers.recurrent import RecurrentLayer
from fitgauge.engine.training.autograd.layers.sparse_attention import SparseLayer
from fitgauge.engine.training.autograd.layers.stacks import StackLayer, source_tokens
from fitgauge.engine.training.autograd.megatron_tape import MegatronTape
from fitgauge.engine.training.autograd.segment import stream_width
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import TrainingWorkload, recomputed_modules

OWN: Mapping[str, type[Layer]] = {
    **dict.fromkeys(("llama4", "llama4_text"), Llama4Layer),
    **dict.fromkeys(("gemma4", "gemma4_text"), Gemma4Layer),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), SparseLayer),
    "mllama": MllamaLayer,
}
"""Layer models of decoders that traits do not describe, by model type."""


def layer_recipe(
    tape: Tape, unit: Unit, spec: ModelSpec, context: LayerContext, workload: TrainingWorkload
) -> Layer:
    """Return the layer model that records a layer of this model on a tape."""
    if any(isinstance(mixer, Recurrent) for block in spec.blocks for mixer in block.mixers):
        return RecurrentLayer(tape, unit, context)
    if spec.task == "generate":
        return _decoder(tape, unit, spec, context, workload)
    source = None
    if spec.task == "encoder_decoder":
        elements = source_tokens(spec, context) * context.batch * spec.hidden_size
        source = tape.constant("source", elements, stream_width(workload), grad=True)
    return StackLayer(tape, unit, context, source)


def end_recipe(
    tape: Tape, unit: Unit, context: LayerContext, workload: TrainingWorkload
) -> Modules:
    """Return the modules that record the norm between the last layer and the head."""
    if isinstance(tape, MegatronTape):
        return MegatronLayer(tape, unit, context)
    if workload.kernels == "none":
        return Modules(tape, unit, context)
    return FusedLayer(tape, unit, context, workload.kernels)


def _decoder(
    tape: Tape, unit: Unit, spec: ModelSpec, context: LayerContext, workload: TrainingWorkload
) -> Layer:
    if isinstance(tape, MegatronTape):
        return MegatronLayer(tape, unit, context, recomputed_modules(workload))
    if spec.model_type in OWN:
        return OWN[spec.model_type](tape, unit, context)
    if workload.kernels == "none":
        return Layer(tape, unit, context)
    return FusedLayer(tape, unit, context, workload.kernels)
