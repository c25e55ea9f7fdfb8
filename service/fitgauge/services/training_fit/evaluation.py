"""Memory of evaluation between training steps."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType, structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import gib, largest_where
from fitgauge.engine.serving.kv_cache import cache_bytes
from fitgauge.engine.training.algorithms.passes import inference_bytes
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.run_schemas import Evaluation
from fitgauge.services.training_fit.schemas import TrainingRequest

_RESIDENT = ("weights", "master_weights", "optimizer_states", "ema_weights", "fp8_weights")
_MOST_SEQUENCES = 1024
_SOURCE = (
    "transformers trainer.py, evaluation_loop: a forward pass under no_grad between two steps, when"
    " gradients are freed; the loss as in training"
)


def evaluation(
    request: TrainingRequest, trained: TrainingEstimate, spec: ModelSpec, accelerator: Accelerator
) -> Evaluation | UnsetType:
    """Return what evaluation takes, where the request says with how many sequences."""
    if request.eval_batch_size is None or trained.workload.pipeline_parallel > 1:
        return UNSET

    def required(sequences: int) -> int:
        return _required(request, trained, spec, sequences)

    usable = accelerator.usable.expected
    return Evaluation(
        batch_size=request.eval_batch_size,
        required_bytes=required(request.eval_batch_size),
        fits=required(request.eval_batch_size) <= usable,
        max_batch_size=largest_where(
            _MOST_SEQUENCES, lambda sequences: required(sequences) <= usable
        ),
        source=_SOURCE,
    )


def evaluation_notes(result: Evaluation | UnsetType, accelerator: Accelerator) -> Sequence[Note]:
    """Return a warning where evaluation does not fit."""
    if result is UNSET or result.fits:
        return []
    message = (
        f"Evaluation with {result.batch_size} sequences needs {gib(result.required_bytes)} of"
        f" {gib(accelerator.usable.expected)}: at most {result.max_batch_size} fit."
    )
    return [Note("evaluation-needs-more", "eval_batch_size", message)]


def _required(
    request: TrainingRequest, trained: TrainingEstimate, spec: ModelSpec, sequences: int
) -> int:
    """Return the memory of the fullest GPU while it evaluates [bytes]: what stays between steps,
    the process, and the highest moment of the pass."""
    stage, workload = trained.fullest, trained.workload
    stays = sum(term.bytes for term in stage.tensors if term.name in _RESIDENT)
    around = sum(term.bytes for term in stage.terms if term.name in ("runtime", "communicators"))
    evaluated = structs.replace(
        workload, micro_batch_size=sequences, activation_checkpointing="full"
    )
    return (
        stays
        + around
        + inference_bytes(spec, evaluated)
        + _cache(request, workload, spec, sequences)
    )


def _cache(
    request: TrainingRequest, workload: TrainingWorkload, spec: ModelSpec, sequences: int
) -> int:
    """Return the KV cache of predict_with_generate [bytes]; 0 without it."""
    if request.eval_generated_tokens is None:
        return 0
    length = workload.sequence_length + request.eval_generated_tokens
    return cache_bytes(spec, length, sequences, dtype=spec.dtype, tensor_parallel=1)
