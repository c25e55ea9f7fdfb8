"""Images of a training request: how many per sequence, their tokens, and whether the vision tower
is trained."""

from typing import NamedTuple

from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.autograd.vision.styles import Tower, tower_of
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import Assumption
from fitgauge.services.training_fit.schemas import TrainingRequest

_VISION_TYPES = ("vl", "llava", "paligemma", "internvl", "idefics", "glm4v")
"""Parts of model types that are trained on images; others with a tower (Gemma, Llama 4, Mistral)
train on text as often."""


class Images(NamedTuple):
    """The images of a training sequence."""

    number: int
    """Images of a sequence."""
    tokens: int
    """Tokens of one image."""
    train_vision_tower: bool
    """Whether the vision tower is trained."""


def images(
    request: TrainingRequest, spec: ModelSpec, sequence_length: int, *, uses_adapters: bool
) -> Images:
    """Return the images of a sequence: the requested number, else one for a vision-language model
    where it fits in the sequence.

    The tower is trained with the rest (transformers' Trainer, TRL), except with adapters, whose
    tools freeze it (LLaMA-Factory hparams/finetuning_args.py, freeze_vision_tower; ms-swift,
    freeze_vit). Raises InvalidRequestError for images of a model without a known tower, and for
    more than the sequence holds."""
    tower = tower_of(spec)
    trained = (
        not uses_adapters if request.train_vision_tower is None else request.train_vision_tower
    )
    if tower is None:
        if request.images or request.image_size is not None:
            detail = "This model has no vision tower, or none with an activation recipe."
            raise InvalidRequestError(
                detail,
                hint="Leave images out, or send 0: the weights of a tower are counted anyway.",
                field="images" if request.images else "image_size",
            )
        return Images(
            number=0,
            tokens=0,
            train_vision_tower=True if request.train_vision_tower is None else trained,
        )
    tokens = request.image_tokens or _tokens_of(request.image_size, tower)
    usual = int(
        any(name in spec.model_type for name in _VISION_TYPES) and tokens <= sequence_length
    )
    if request.image_size is not None and request.images is None:
        usual = 1
    count = usual if request.images is None else request.images
    if tower.cross_tokens is None and count * tokens > sequence_length:
        several = "An image" if count == 1 else f"{count} images"
        detail = f"{several} of {tokens} tokens exceed a sequence of {sequence_length}."
        if count == 1:
            detail = detail.replace("exceed", "exceeds")
        hint = (
            f"Images are part of sequence_length: send at least {count * tokens}, fewer images, or"
            " smaller ones (image_tokens)."
        )
        raise InvalidRequestError(detail, hint=hint, field="images")
    return Images(number=count, tokens=tokens if count else 0, train_vision_tower=trained)


def image_tokens(request: TrainingRequest, spec: ModelSpec) -> int:
    """Return the tokens of all images that a request names within a sequence. Raises
    InvalidRequestError where those of their size are not known."""
    tower = tower_of(spec)
    if not request.images or tower is None or tower.cross_tokens is not None:
        return 0
    return request.images * (request.image_tokens or _tokens_of(request.image_size, tower))


def _tokens_of(size: str | None, tower: Tower) -> int:
    """Return the tokens of an image of "WIDTHxHEIGHT" pixels, those of a usual one without.
    Raises InvalidRequestError where this family's tokens do not follow from its pixels."""
    if size is None:
        return tower.usual_tokens
    width, height = (int(side) for side in size.split("x"))
    tokens = tower.tokens_of(width, height)
    if tokens is None:
        raise InvalidRequestError(
            "How many tokens an image of this size has in this model is not known here.",
            hint=f"Send image_tokens instead; {tower.usual_tokens} are those of 768 x 768 pixels.",
            field="image_size",
        )
    return tokens


def understood(workload: TrainingWorkload, spec: ModelSpec) -> dict[str, str | int | float | bool]:
    """Return the image fields of understood_as; empty without a tower."""
    if spec.reads_text_alone:
        return {}
    sizes = {"image_tokens": workload.image_tokens} if workload.images else {}
    return {"images": workload.images, **sizes, "train_vision_tower": workload.train_vision_tower}


def assumptions(
    request: TrainingRequest, workload: TrainingWorkload, spec: ModelSpec
) -> list[Assumption]:
    """Return what is assumed of images and of the vision tower where the request leaves it out."""
    left_out = [
        field
        for field in ("images", "image_tokens", "train_vision_tower")
        if getattr(request, field) is None
    ]
    if not left_out or spec.reads_text_alone:
        return []
    if not workload.images:
        if request.images is not None:
            return []
        message = (
            "Text only: the weights of vision and audio towers are counted, their activations are"
            " not."
        )
        if _without_gradients(workload, spec):
            message += (
                " Nor are gradients and optimizer states of the vision tower, which text does not"
                " reach: set images where you train on them."
            )
        return [Assumption("images", 0, message)]
    each = "an image" if workload.images == 1 else f"{workload.images} images"
    how = "trained" if workload.train_vision_tower else "frozen"
    tower = tower_of(spec)
    separate = tower is not None and tower.cross_tokens is not None
    where = "in addition to" if separate else "within"
    message = (
        f"Every sequence holds {each} of {workload.image_tokens} tokens, {where}"
        f" sequence_length {workload.sequence_length}; the vision tower is {how}. Set"
        f" {' or '.join(left_out)} to change this."
    )
    return [Assumption(left_out[0], getattr(workload, left_out[0]), message)]


def _without_gradients(workload: TrainingWorkload, spec: ModelSpec) -> bool:
    """Return whether a model that is trained whole gets no gradients for its vision tower."""
    return not workload.uses_adapters and any(
        unit.part is Part.VISION and not unit.elements(trained=True)
        for unit in units(spec, workload)
    )
