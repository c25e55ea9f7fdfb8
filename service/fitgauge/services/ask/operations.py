"""Which operation a question means."""

import re
from typing import NamedTuple

from fitgauge.services.ask.intent import (
    FEWEST,
    GPUS,
    MEMORY,
    NEED,
    OTHERS,
)
from fitgauge.services.ask.schemas import Operation
from fitgauge.services.ask.topics import is_about

_MODELS = re.compile(
    r"\brun (?:\w+ )?(?:ai|llms?|(?:local|language) (?:models?|llms?|ai)|models? locally)\b|"
    r"\b(?:which|what)\s+(?:\w+\s+){0,2}models?\b(?!\s+(?:of|require))|\bany\s+(?:\w+\s+)?model\b"
    r"|\b(?:largest|biggest|best|smartest|strongest|most (?:capable|powerful|intelligent)"
    r"|max(?:imum)?)\s+(?:\w+\s+){0,2}(?:models?|llms?|size|thing|one)\b"
    r"|\b(?:which|what)\s+(?:\w+\s+){0,2}(?:llms?|ais?)\b|\banything (?:useful|good|decent|worth)\b"
    r"|\b(?:what|which)\b[^.?]{0,30}\bmodel sizes?\b|\bwhich ones\b"
    r"|\bwhat (?:runs|fits)\b"
    r"|\bhow (?:big|large)(?: of)? an? (?:\w+ )?(?:model|llm)\b"
    r"|\bwhat (?:can|could|will|would|does)\b[^.?]{0,40}\b(?:run|fit|hold|train|fine-?tune)\b"
    r"|\bwhat (?:can|could|should) (?:i|we) (?:use|run|serve|host|deploy)\b"
    r"|\b(?:can|could) (?:do|run|handle) wh?[au]t\b"
    r"|\bwhich of them\b|\bwhat (?:can|could) (?!i\b|we\b|you\b|one\b)[^.?]{1,40}\b(?:do|handle)\b"
    r"|\bwhat(?:'s| is)? the (?:best|biggest|largest|most) (?:that )?(?:i|we|you)\b"
    r"|\b(?:select|choose|pick|recommend)\b[^.?]{0,40}\bmodels?\b"
    r"|哪些(?:大?模型|型号)"
    r"|什么(?:大?模型|型号)|多大(?:参数|规模|尺寸)?(?:量)?的?模型|最大(?:能|可以)?.{0,6}模型"
    r"|多少[bB]的?模型|哪个模型|어떤\s*모델|(?:どの|どんな|何の|最大の)モデル"
)

_SUGGESTIONS = re.compile(r"\b(?:suggestions?|recommendations?|ideas)\W*$")
"""What is asked for at the end of a text that names GPUs alone."""

_COUNT_OF_GPUS = re.compile(
    rf"\bhow many\b(?!{OTHERS})|\b(?:gpu|card) count\b"
    rf"|{FEWEST}"
    r"|多少[张块片个卡]|几[张块片卡台]|最少.{0,4}[张块片卡台]|몇"
)


_IT_FITS = re.compile(
    r"\b(?:will|does|can|would|could) (?:it|this|that|they|these) (?:\w+ )?"
    r"(?:fit|oom|work|run|start)\b"
)

_PLAN = re.compile(
    r"\b(?:parallel(?:ism|ization)? (?:strategy|layout|config\w*|plan)|lay ?out|layout|tp/pp|"
    r"(?:which|what) (?:kind of )?parallel\w*|best way to (?:train|shard|split|distribute)|"
    r"which zero|what zero|zero stage should|how (?:should|do) i (?:shard|split|parallelize))\b"
    r"|^\W*(?:please )?(?:help me )?plan\b(?! to\b)|\bplan (?:it|this|that|the training)\b"
    r"|并行策略|怎么切分|如何切分|训练方案|并行配置",
    re.IGNORECASE,
)

_LOG = re.compile(
    r"tried to allocate\s+[\d.]+\s*[gm]i?b|model loading took|model weights take\s+[\d.]+\s*gib"
    r"|no available memory for the cache blocks|free memory on device"
    r"|to serve at least one request with the model|tokens that can be stored in kv cache"
    r"|# ?gpu blocks|kv cache size:"
    r"|llama_model_load|ggml_\w+|mem usage=",
    re.IGNORECASE,
)


_LOGS = 200
"""Letters from which on a text with lines of a log is a log, whatever else it names."""


class Signs(NamedTuple):
    """What the facts of a question tell of the operation that it means."""

    training: bool
    """Whether it is about training."""
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
    if _LOG.search(low) and (len(text) > _LOGS or not (signs.model and signs.hardware)):
        return "explain_log"
    wants_models = _MODELS.search(low) is not None or (signs.sizes_only and is_about(low, "format"))
    wants_gpus = GPUS.search(low) is not None
    named = signs.hardware or signs.model or signs.settings or wants_models or wants_gpus
    if not (named or NEED.search(low) or _IT_FITS.search(low)):
        return None
    about_it = (
        signs.hardware
        or (signs.terse and signs.model)
        or any(one.search(low) for one in (MEMORY, NEED, _IT_FITS))
    )
    if not (about_it or wants_models or (signs.model and (wants_gpus or signs.rented))):
        return None
    lists = wants_models and (signs.sizes_only or not signs.model or is_about(low, "largest"))
    suggests = (signs.terse and not signs.settings) or _SUGGESTIONS.search(low)
    if lists or (signs.hardware and (signs.largest or (suggests and not signs.model))):
        return "list_models_that_fit"
    counts = wants_gpus and (
        is_about(low, "nodes") or (not signs.counted and _COUNT_OF_GPUS.search(low) is not None)
    )
    prices = is_about(low, "price", "price of tokens")
    ranks = counts or prices or (signs.fastest and not signs.training)
    if signs.gpus > 1 and signs.model and ranks:
        return "recommend_gpus"
    several = signs.several or (signs.gpus > 1 and is_about(low, "comparison"))
    formats = not signs.formatted and is_about(low, "format")
    if signs.model and signs.hardware and not signs.training and (several or formats):
        return "compare_fit"
    if signs.training and signs.hardware and signs.model and _PLAN.search(low):
        return "plan_training"
    rents = signs.model and (signs.rented or prices)
    if counts if signs.hardware else wants_gpus or rents:
        return "recommend_gpus"
    return "check_training_fit" if signs.training else "check_fit"
