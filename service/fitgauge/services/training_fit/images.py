"""Images of a training question: how many a sequence holds, how large they are, and whether the
tower that reads them is trained."""

from typing import NamedTuple

from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.autograd.vision.styles import tower_of
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.schemas import TrainingRequest

_SEEING = ("vl", "llava", "paligemma", "internvl", "idefics", "glm4v")
"""Parts of the names of model types that are trained on images; others with a tower (Gemma,
Llama 4, Mistral) see text as often."""


class Images(NamedTuple):
    """Images of every sequence, tokens of each, whether the tower is trained."""

    number: int
    tokens: int
    train_vision_tower: bool


def images(
    request: TrainingRequest, spec: ModelSpec, sequence_length: int, *, adapted: bool
) -> Images:
    """Return the images a request means: as asked, else one where the model is made for them and it
    fits in the sequence.

    A tower is trained with the rest (transformers' Trainer, TRL), but for adapters, as the
    frameworks that tune them leave it alone (LLaMA-Factory hparams/finetuning_args.py,
    freeze_vision_tower; ms-swift, freeze_vit). Raises InvalidRequestError for images of a model
    that sees none, and for more than the sequence holds."""
    tower, trained = (
        tower_of(spec),
        not adapted if request.train_vision_tower is None else request.train_vision_tower,
    )
    if tower is None:
        if request.images:
            detail = "No recipe for images of this model: its tower is not known, or it has none."
            raise InvalidRequestError(
                detail,
                hint="Leave images out, or send 0: its weights are counted all the same.",
                field="images",
            )
        return Images(
            number=0,
            tokens=0,
            train_vision_tower=True if request.train_vision_tower is None else trained,
        )
    tokens = request.image_tokens or tower.usual_tokens
    room = sequence_length if tower.cross_tokens is None else None
    usual = int(any(name in spec.model_type for name in _SEEING) and tokens <= sequence_length)
    count = usual if request.images is None else request.images
    if room is not None and count * tokens > room:
        detail = (
            f"{count} images of {tokens} tokens are longer than a sequence of {sequence_length}."
        )
        hint = (
            f"Images are part of sequence_length: send at least {count * tokens}, fewer images, or"
            " smaller ones (image_tokens)."
        )
        raise InvalidRequestError(detail, hint=hint, field="images")
    return Images(number=count, tokens=tokens if count else 0, train_vision_tower=trained)


def understood(workload: TrainingWorkload, spec: ModelSpec) -> dict[str, str | int | float | bool]:
    """Return the fields about images of a model that has a tower, as they were understood."""
    if not _seeing(spec):
        return {}
    sizes = {"image_tokens": workload.image_tokens} if workload.images else {}
    return {"images": workload.images, **sizes, "train_vision_tower": workload.train_vision_tower}


def image_notes(workload: TrainingWorkload, spec: ModelSpec) -> list[str]:
    """Warnings about what was taken for granted of images and sounds."""
    if not _seeing(spec):
        return []
    if not workload.images:
        return [
            "Text alone: weights of the towers for images and sounds are counted, what they keep of"
            " a sample is not."
        ]
    each = "an image" if workload.images == 1 else f"{workload.images} images"
    how = "trained" if workload.train_vision_tower else "frozen"
    tower = tower_of(spec)
    beside = tower is not None and tower.cross_tokens is not None
    where = "beside its" if beside else "which are part of its"
    return [
        f"Every sequence holds {each} of {workload.image_tokens} tokens, {where}"
        f" {workload.sequence_length}; the vision tower is {how}. Send images, image_tokens or"
        " train_vision_tower to change that."
    ]


def _seeing(spec: ModelSpec) -> bool:
    return any(block.part in (Part.VISION, Part.AUDIO) for block in spec.blocks)
