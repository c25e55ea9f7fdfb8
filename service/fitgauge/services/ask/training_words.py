"""Settings of training that a text says in words alone: the optimizer, what is offloaded, and that
activations are kept."""

import re
from collections.abc import Mapping

from fitgauge.services.ask.vocabulary import NUMBER_WORDS, rows

_EIGHT_BIT_ADAM = (
    r"(?:8[- ]?bits?|int8)[- ](?:paged[- ])?adamw?\b|(?<![a-z])adamw?[- _]?8[- _]?bits?"
    r"|8[- ]?bit optimi[sz]er"
)
_ROWS = [
    (field, value, pattern.replace("{adam8}", _EIGHT_BIT_ADAM))
    for field, value, pattern in rows("settings")
]
_SETTINGS = [
    (field, value, re.compile(pattern, re.IGNORECASE)) for field, value, pattern in reversed(_ROWS)
]
"""The last row of a field first: what the first one says stands."""
OPTIMIZERS = re.compile(
    "|".join(f"(?P<{name}>{pattern})" for field, name, pattern in _ROWS if field == "optimizer"),
    re.IGNORECASE,
)
"""Optimizers as people write them; the name of the group is the request's."""

IMAGE = r"(?:images?|pictures?|photos?|screenshots?)"
PIXELS = re.compile(
    rf"\b(\d{{3,5}}) ?[x*] ?(\d{{3,5}})(?= ?(?:px|pixels?)?[ -]{IMAGE}\b)"
    rf"|(?<=\b)(?:{IMAGE} (?:are |is |of |at |with |sized? )*)(\d{{3,5}}) ?[x*] ?(\d{{3,5}})\b",
    re.IGNORECASE,
)
"""Pixels next to a word for images."""

_IMAGES = re.compile(
    rf"\b(\d{{1,3}}|{'|'.join(NUMBER_WORDS)}) {IMAGE}"
    r" (?:per|a|each|in (?:a|each|every)) (?:sample|example|sequence|conversation|row|prompt)\b",
    re.IGNORECASE,
)
"""How many images a sample has."""

_PRETRAINED = re.compile(
    r"\bpre-?train\w*|\bfrom (?:scratch|zero)\b|预训练|从头训练", re.IGNORECASE
)
_OF_ONE_GPU = re.compile(
    r"\bmicro|\bmbs\b|per[- _]?(?:device|gpu|card)|每(?:张|块)?卡", re.IGNORECASE
)
_LEAST_GLOBAL = 32
"""Sequences from which on a batch of a pre-training is that of a step over all GPUs."""


_AT_MOST = r"(?:up to|at most|no more than|max(?:imum)?(?: of)?|\d+\s*(?:to|-))\s*"


def says_at_most(text: str, gpus: int) -> bool:
    """Return whether a text has so many GPUs at most: "on up to 8 A100s", "2 to 8 L40S"."""
    return re.search(rf"\b{_AT_MOST}{gpus}\b(?!\s*k?\s*tokens)", text, re.IGNORECASE) is not None


def is_global_batch(text: str, sequences: float) -> bool:
    """Return whether the batch of a text about training is that of a step over all GPUs, as those
    of pre-training are: "from scratch with batch size 512"."""
    of_all = sequences >= _LEAST_GLOBAL and _PRETRAINED.search(text) is not None
    return of_all and _OF_ONE_GPU.search(text) is None


def training_words(text: str) -> Mapping[str, object]:
    """Return the fields that the words of a text about training set."""
    fields: dict[str, object] = {}
    for field, value, words in _SETTINGS:
        if (match := words.search(text)) is not None:
            number = next((group for group in match.groups() if group), "0")
            fields[field] = True if value == "true" else value or int(number)
    fields = {name: value for name, value in fields.items() if value != "-"}
    if (size := image_size(text)) is not None:
        fields["image_size"] = size
    if (images := _IMAGES.search(text)) is not None:
        word = images[1].lower()
        fields["images"] = NUMBER_WORDS.get(word) or int(word)
    return fields


def image_size(text: str) -> str | None:
    """Return the first size of an image that a text names, as "1024x768"; None without one."""
    match = PIXELS.search(text)
    return None if match is None else "x".join(side for side in match.groups() if side)


def without_pixels(text: str) -> str:
    """Return a text of the same length with sizes of images blanked: 1080 is a GPU too."""
    return PIXELS.sub(lambda match: re.sub(r"[\dx*]", " ", match[0]), text)
