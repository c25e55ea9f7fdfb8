"""The most that a launch holds, where a question asks for that: the longest context, requests at
once, or sequences of a micro-batch; and how large its cache is."""

from collections.abc import Sequence

from msgspec import structs

from fitgauge.engine.quantity import GIB, KIB, gib
from fitgauge.services.ask.schemas import Understood
from fitgauge.services.ask.topics import is_about
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest, Suggestion
from fitgauge.services.common.smallest import first_step, is_here, step_here
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest


def trained_most(text: str, understood: Understood) -> str | None:
    """Return the field of a training of which a text asks the most that fits; None for none."""
    if understood.micro_batch_size is None and is_about(text, "largest batch"):
        return "micro_batch_size"
    if understood.sequence_length is None and is_about(text, "longest sequence"):
        return "sequence_length"
    return None


def most_trained(
    text: str, understood: Understood, request: TrainingRequest, answer: TrainingAnswer
) -> tuple[TrainingRequest, str] | None:
    """Return the request for the largest micro-batch or the longest sequences that fit, where a
    text asks for them, and a sentence that says it with a space behind it; None where it asks
    for no such thing, or nothing fits."""
    field = trained_most(text, understood)
    most = getattr(answer.limits, f"max_{field}", None)
    if field is None or not most:
        return None
    noun = f"sequence{'' if most == 1 else 's'} in a micro-batch"
    noun = noun if field == "micro_batch_size" else "tokens in a sequence"
    each = f"{most:,} {noun} at most. "
    return structs.replace(request, **{field: most}), each


def most_of(
    text: str, understood: Understood, request: FitRequest, answer: FitAnswer
) -> tuple[FitRequest, str] | None:
    """Return the request for the most that a text asks for, so that the command holds it, and a
    sentence that says it with a space behind it; None where it asks for no such thing, or
    nothing fits. Where the usual context does not surely fit, it is the one that is suggested."""
    field = _field_asked(text, understood)
    if answer.verdict != "fits":
        return _shorter(request, answer) if field == "max_context_length" else None
    most = getattr(answer.limits, field, None) if field is not None else None
    if not most:
        return None
    if field == "max_context_length":
        longest = structs.replace(request, context_length=most)
        return longest, f"{most:,} tokens of context at most. "
    noun = "request" if most == 1 else "requests"
    return structs.replace(request, concurrency=most), f"{most:,} {noun} at once at most. "


def to_fit(text: str, understood: Understood, answer: FitAnswer) -> Suggestion | None:
    """Return the change with which the same GPUs hold a model that does not fit, where a text asks
    the most that they hold; None for other questions."""
    asks = answer.verdict in ("does_not_fit", "tight") and wants_most(text, understood)
    return step_here(answer.suggestions) if asks else None


def wants_most(text: str, understood: Understood) -> bool:
    """Return whether a text asks for the longest context or the most requests at once."""
    return _field_asked(text, understood) is not None


def most_of_each(
    text: str, understood: Understood, names: Sequence[str], answers: Sequence[FitAnswer]
) -> str:
    """Return the longest context or the most requests at once of each of several answers, as a
    sentence with a space behind it; empty where a text asks for neither.

    names: of the answers."""
    field = _field_asked(text, understood)
    if field is None:
        return ""
    noun = "Tokens of context" if field == "max_context_length" else "Requests at once"
    values = [getattr(one.limits, field, None) or 0 for one in answers]
    each = ", ".join(f"{name} {value:,}" for name, value in zip(names, values, strict=True))
    return f"{noun} at most: {each}. "


def _field_asked(text: str, understood: Understood) -> str | None:
    """Return the limit of an answer that a text asks for; None for none."""
    if understood.context_length is None and is_about(text, "longest context"):
        return "max_context_length"
    if understood.concurrency is None and is_about(text, "most requests"):
        return "max_concurrency"
    return None


def host_in_words(machine: float, answer: FitAnswer) -> str:
    """Return how much of the machine's memory would do, where it has too little, as a sentence with
    a space behind it; empty where none would. machine: what it has [GiB]; answer: with enough."""
    step = first_step(answer.suggestions, offers_host=True)
    if step is None or step.host_memory is None or step.host_memory.total_bytes < machine * GIB:
        return ""
    needed = gib(step.host_memory.total_bytes)
    return f"In host memory it would take {needed}, and {machine:g} GiB do not hold that. "


def copies_in_words(text: str, answer: FitAnswer) -> str:
    """Return how many copies of a model the GPUs of a question hold, where it asks for that, as a
    sentence with a space behind it; empty for other questions."""
    each = answer.limits.min_gpu_count if answer.limits else None
    if not each or answer.gpu is None or not is_about(text, "copies"):
        return ""
    copies, noun = (answer.gpu.count or 1) // each, "GPU" if each == 1 else "GPUs"
    if copies == 0:
        return f"No copy fits: one takes {each} {noun}. "
    return f"{copies:,} cop{'y' if copies == 1 else 'ies'} at most, each on {each} {noun}. "


def _shorter(request: FitRequest, answer: FitAnswer) -> tuple[FitRequest, str] | None:
    """Return the request with the context that is suggested for the same model on the same GPUs,
    and a sentence that says it; None without."""
    for one in answer.suggestions:
        tokens = one.request.get("context_length")
        is_same = is_here(one) and "model" not in one.request
        if one.verdict == "fits" and tokens and is_same:
            changed = structs.replace(request, **one.request)
            return changed, f"{tokens:,} tokens of context at most. "
    return None


def cache_in_words(answer: FitAnswer) -> str:
    """Return 'The KV cache takes 40.00 GiB for 131,072 tokens, about 320 KiB a token. ', of all
    GPUs together; empty where there is none."""
    tokens = int(answer.understood_as["context_length"]) * int(answer.understood_as["concurrency"])
    gpus = answer.gpu.count if answer.gpu else 1
    if answer.needs:
        size = answer.needs[0].kv_cache_bytes
    else:
        size = gpus * sum(term.bytes for term in answer.terms or () if term.name == "kv_cache")
    if not size:
        return ""
    over = f" over {gpus} GPUs" if gpus > 1 else ""
    each = f"about {size / tokens / KIB:,.0f} KiB a token"
    return f"The KV cache takes {gib(size)}{over} for {tokens:,} tokens, {each}. "
