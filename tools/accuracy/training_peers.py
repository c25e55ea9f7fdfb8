"""The same training steps and runs under the rules that people quote for training memory.

states: 16 bytes a parameter (arXiv 1910.02054, section 3.1), 18 (transformers' docs,
model_memory_anatomy: weights 6, gradients 4, Adam 8), or 4 x the weights (Hugging Face's Model
Memory Utility); of LoRA 2 bytes of a frozen parameter and 16 of a trained one. activations:
layers x (34 s b h + 5 a s^2 b) (arXiv 2205.05198, equation 1), without its second half for
FlashAttention and SDPA, and 2 s b h a layer with full checkpointing (section 5). ZeRO and FSDP
divide the states by the ranks; tensor and pipeline parallelism all."""

from collections.abc import Callable, Mapping

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.rules_of_thumb import megatron_layer_bytes
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

Rule = Callable[[ModelSpec, TrainingWorkload], float]


def states(spec: ModelSpec, workload: TrainingWorkload, each: int) -> float:
    """`each` bytes for every parameter that is trained, 2 for one that is not, over the ranks
    that share them."""
    all_units = units(spec, workload)
    trained = sum(len(unit.layers) * unit.elements(trained=True) for unit in all_units)
    frozen = sum(len(unit.layers) * unit.elements(trained=False) for unit in all_units)
    return (each * trained + 2 * frozen) / _ways(workload, states_only=True)


def activations(spec: ModelSpec, workload: TrainingWorkload) -> float:
    """Return layers x 34 s b h, with scores where attention writes them, or 2 s b h where layers
    are recomputed."""
    sequence, batch = workload.sequence_length, workload.micro_batch_size
    if workload.activation_checkpointing == "full":
        layer = 2 * sequence * batch * spec.hidden_size
    else:
        layer = megatron_layer_bytes(
            sequence,
            batch,
            spec.hidden_size,
            spec.query_heads,
            scores=workload.attention == "eager",
        )
    return spec.layers * layer / _ways(workload, states_only=False)


def _ways(workload: TrainingWorkload, *, states_only: bool) -> int:
    model = workload.tensor_parallel * workload.pipeline_parallel
    if not states_only:
        return model * workload.context_parallel
    return model * (
        workload.data_parallel // workload.data_parallel_replicate if workload.zero_stage else 1
    )


def four_times(spec: ModelSpec, workload: TrainingWorkload) -> float:
    """4 x the bytes of the weights as they are stored, over the ranks that share them."""
    width = BITS[precision_policy(workload).weights] // 8
    return 4 * spec.parameters * width / _ways(workload, states_only=True)


RULES: Mapping[str, Rule] = {
    "16 bytes a parameter": lambda spec, workload: states(spec, workload, 16),
    "18 bytes a parameter": lambda spec, workload: states(spec, workload, 18),
    "4 x the weights": four_times,
    "16 bytes a parameter + 34sbh + 5as²b": lambda spec, workload: (
        states(spec, workload, 16) + activations(spec, workload)
    ),
}
