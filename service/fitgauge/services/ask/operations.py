"""What a question means: which operation, by what its facts tell."""

from collections.abc import Collection
from typing import Literal, NamedTuple

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


Sign = Literal[
    "training", "trainer", "several", "gpus on a par", "model", "hardware", "counted", "settings",
    "formatted", "sizes alone", "largest of a family", "of some", "terse", "fastest",
    "step stated",
]  # fmt: skip
"""What the facts of a question tell of the operation that it means. "trainer": it names a tool that
trains; "several": models, engines, formats or contexts are on a par; "of some": it names a price by
the hour, a cloud or a vendor of GPUs; "terse": it is names and numbers alone; "step stated": it
says the sequences of a training step and their tokens."""


def operation_of(text: str, signs: Collection[Sign]) -> Operation | None:
    """Return the operation that a text means, None where it is about something else."""
    low = text.lower()
    training, model, hardware = (one in signs for one in ("training", "model", "hardware"))
    on_a_par = "gpus on a par" in signs
    stated = model and hardware and ("step stated" in signs or len(text) <= _LOGS)
    if is_about(low, "log") and not stated:
        return "explain_log"
    sizes_alone, settings = "sizes alone" in signs, "settings" in signs
    wants_models = is_about(low, "models") or (sizes_alone and is_about(low, "format"))
    wants_gpus = is_about(low, "gpus")
    named = hardware or model or settings or wants_models or wants_gpus
    if not (named or is_about(low, "need", "it fits")):
        return None
    terse, of_some = "terse" in signs, "of some" in signs
    about_it = hardware or (terse and model) or is_about(low, "memory", "need", "it fits")
    prices = is_about(low, "price", "price of tokens")
    if not (about_it or wants_models or (model and (wants_gpus or of_some or prices))):
        return None
    lists = wants_models and (sizes_alone or not model or is_about(low, "largest"))
    suggests = (terse and not settings) or is_about(low, "suggestions")
    if lists or (hardware and ("largest of a family" in signs or (suggests and not model))):
        return "list_models_that_fit"
    counts = wants_gpus and (
        is_about(low, "nodes") or ("counted" not in signs and is_about(low, "count of gpus"))
    )
    if counts and "trainer" in signs and hardware and model and not on_a_par:
        return "plan_training"  # by the tool's own settings, on as few of the GPU as hold them
    if on_a_par and model and (counts or prices or ("fastest" in signs and not training)):
        return "recommend_gpus"
    several = "several" in signs or (on_a_par and is_about(low, "comparison"))
    formats = "formatted" not in signs and is_about(low, "format")
    if model and hardware and not training and (several or formats):
        return "compare_fit"
    if training and hardware and model and is_about(low, "plan"):
        return "plan_training"
    if counts if hardware else wants_gpus or (model and (of_some or prices)):
        return "recommend_gpus"
    return "check_training_fit" if training else "check_fit"
