"""What a question means: which operation, by what its facts tell."""

from typing import NamedTuple

from fitgauge.services.ask.halves import Halves
from fitgauge.services.ask.schemas import Operation, Understood
from fitgauge.services.ask.topics import is_about

_LOGS = 200
"""Letters from which on a text with lines of a log is a log, whatever else it names."""


class Reading(NamedTuple):
    """What a question means."""

    operation: Operation | None
    """The operation that is meant; None for no question about GPU memory."""
    understood: Understood
    """What the question says."""
    not_understood: list[str]
    """Numbers that nothing used."""
    text: str
    """The question."""
    training: bool
    """Whether it is about training."""
    model_text: str | None = None
    """The model as the text names it."""
    whole_context: bool = False
    """Whether the model's whole context is meant, of which the text says no number; a command
    without it makes room for as much."""
    halves: Halves | None = None
    """The halves of disaggregated serving, where it is about that."""
    notes: tuple[str, ...] = ()
    """What the text says and the answer leaves out."""
    command: str | None = None
    """The command of a model server that it holds."""


class Signs(NamedTuple):
    """What the facts of a question tell of the operation that it means."""

    training: bool
    """Whether it is about training."""
    trainer: bool
    """Whether a tool that trains is named."""
    several: bool
    """Whether models, engines, formats or contexts are on a par."""
    gpus: int
    """Kinds of GPUs on a par."""
    model: bool
    """Whether a model is named."""
    hardware: bool
    """Whether GPUs are."""
    counted: bool
    """Whether a number of GPUs is."""
    settings: bool
    """Whether a setting is."""
    formatted: bool
    """Whether a format of weights is."""
    sizes_only: bool
    """Whether of several models only the sizes are."""
    largest: bool
    """Whether the largest model of a family is meant."""
    rented: bool
    """Whether a price by the hour or a cloud is named."""
    terse: bool
    """Whether the text is names and numbers alone."""
    fastest: bool
    """Whether it asks for speed."""


def operation_of(text: str, signs: Signs) -> Operation | None:
    """Return the operation that a text means, None where it is about something else."""
    low = text.lower()
    if is_about(low, "log") and (len(text) > _LOGS or not (signs.model and signs.hardware)):
        return "explain_log"
    wants_models = is_about(low, "models") or (signs.sizes_only and is_about(low, "format"))
    wants_gpus = is_about(low, "gpus")
    named = signs.hardware or signs.model or signs.settings or wants_models or wants_gpus
    if not (named or is_about(low, "need", "it fits")):
        return None
    about_it = (
        signs.hardware
        or (signs.terse and signs.model)
        or is_about(low, "memory", "need", "it fits")
    )
    if not (about_it or wants_models or (signs.model and (wants_gpus or signs.rented))):
        return None
    lists = wants_models and (signs.sizes_only or not signs.model or is_about(low, "largest"))
    suggests = (signs.terse and not signs.settings) or is_about(low, "suggestions")
    if lists or (signs.hardware and (signs.largest or (suggests and not signs.model))):
        return "list_models_that_fit"
    counts = wants_gpus and (
        is_about(low, "nodes") or (not signs.counted and is_about(low, "count of gpus"))
    )
    if counts and signs.trainer and signs.hardware and signs.model and signs.gpus <= 1:
        return "plan_training"  # by the tool's own settings, on as few of the GPU as hold them
    prices = is_about(low, "price", "price of tokens")
    ranks = counts or prices or (signs.fastest and not signs.training)
    if signs.gpus > 1 and signs.model and ranks:
        return "recommend_gpus"
    several = signs.several or (signs.gpus > 1 and is_about(low, "comparison"))
    formats = not signs.formatted and is_about(low, "format")
    if signs.model and signs.hardware and not signs.training and (several or formats):
        return "compare_fit"
    if signs.training and signs.hardware and signs.model and is_about(low, "plan"):
        return "plan_training"
    rents = signs.model and (signs.rented or prices)
    if counts if signs.hardware else wants_gpus or rents:
        return "recommend_gpus"
    return "check_training_fit" if signs.training else "check_fit"
