"""What a question is about: topics.tsv has the patterns of each topic; training, one of a family,
adapters; and the settings of training that it says in words."""

import itertools
import operator
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from fitgauge.services.ask import vocabulary as v
from fitgauge.services.ask.scan import Token
from fitgauge.services.ask.vocabulary import NUMBER_WORDS, rows

Topic = Literal[
    "question", "gpus", "need", "memory", "models", "count of gpus", "it fits", "plan", "log",
    "suggestions", "longest context", "most requests", "copies", "largest batch",
    "longest sequence", "time", "disk", "merging", "format", "largest", "comparison",
    "all weights", "price of tokens", "price", "as published", "fastest", "text alone", "rate",
    "cache", "layers", "no gpu", "one gpu", "whole context", "nodes", "month", "skill", "a gpu",
    "smallest gpu", "most requests a second", "beyond",
]  # fmt: skip

_WORDS = r"(?:\s+(?!(?:for|to|do|does|can|would|will|are|of|on|and)\b)[\w.-]+){0,7}\s+"
_SENDERS = (
    r"users|requests|people|clients|sessions|sequences|streams|chats|agents|conversations|dev\w+"
)
_OTHERS = (
    rf"(?:{_WORDS}(?:{_SENDERS}|hours|days|weeks|layers|tokens|adapters|replicas|copies"
    r"|instances|models)|\s+(?:gi?b|gigs?|gigabytes))\b"
)
"""What is counted where it is no GPU: "how many users can an A100 serve"."""

_FEWEST = (
    r"\b(?:fewest|least|minim(?:um|al)|min\.?)\s+(?:(?:number|count|amount) of\s+)?"
    r"(?:gpus?|cards?|nodes|[a-z]{1,2}\d{1,3}[a-z]?s?|(?:[rg]tx )?\d{4}s)\b"
)
"""As few GPUs as will do: "minimum number of H200s"."""

_TPS = r"(?:tok(?:en)?s? ?/ ?s(?:ec(?:ond)?)?|tokens? (?:per|a) second|t/s|tps)"
_PARTS = {
    "{tps}": _TPS,
    "{others}": _OTHERS,
    "{words}": _WORDS,
    "{senders}": _SENDERS,
    "{fewest}": _FEWEST,
}


def _full(pattern: str) -> str:
    """Return a pattern with its parts in full."""
    for part, meaning in _PARTS.items():
        pattern = pattern.replace(part, meaning)
    return pattern


_TOPICS = {
    topic: re.compile("|".join(_full(pattern) for _, pattern in group), re.IGNORECASE | re.ASCII)
    for topic, group in itertools.groupby(rows("topics"), operator.itemgetter(0))
}


def is_about(text: str, *topics: Topic) -> bool:
    """Return whether a text is about one of some topics, whatever else it is about."""
    return any(_TOPICS[topic].search(text) for topic in topics)


_LARGEST_BEFORE = re.compile(
    r"(?:which size of|largest|biggest|which|what|最大的?|哪些|哪个)\W*(?:\w+\W+)?$"
)

_OF_THE_FAMILY = re.compile(
    r"\W*(?:that |which )?(?:i|we|you|models?|sizes?|versions?|variants?|can|could|should|fits?"
    r"|runs?|will|would|do|is|works?)\b|\W*(?:模型|型号)",
    re.IGNORECASE,
)
"""What follows the name of a family of which one is asked for: "which Qwen3 model"."""

_SIZED = re.compile(r"\d\s?[bm](?![a-z])", re.IGNORECASE)
"""A model's own size in its name."""


_QUANTIZED = re.compile(
    r"(?<!un)(?<!non-)(?<!not )\bquanti[sz]ed\b|\bqat\b|量化(?:版|后|的模型|模型)", re.IGNORECASE
)
_ADAPTERS = re.compile(
    rf"\b(\d{{1,4}}|{'|'.join(v.NUMBER_WORDS)})\s+(?:[\w.]+\s+){{0,4}}?(?:adapters|loras|fine-?tunes)\b",
    re.IGNORECASE,
)
_TRAINED = re.compile(r"\b(?:re)?train|\bfine-?\s?tun(?!es)|\btuning\b|微调|训练", re.IGNORECASE)

_SERVING = re.compile(r"\b(?:" + "|".join(v.SERVING) + r")\b|推理|部署|运行|跑", re.IGNORECASE)
_STRONG = tuple(
    word
    for word in v.TRAINING
    if word not in ("deepspeed", "accumulation", "optimizer", "reward", "sequence length")
)


def _words(phrases: Collection[str]) -> re.Pattern[str]:
    joined = "|".join(
        re.escape(phrase).replace(r"\ ", r"[\s_-]*") for phrase in sorted(phrases, key=len)[::-1]
    )
    return re.compile(rf"(?<![a-z])(?:{joined})(?![a-z])", re.IGNORECASE)


_TRAINING = _words(_STRONG)
_WEAK_TRAINING = _words(v.TRAINING)
DISTILLS = re.compile(
    r"\bdistil\w*(?: {2,}| (?:[^\s,;?!]{0,80}[^\s.,;?!] +){1,5}?)(?:in|on)?to\b", re.IGNORECASE
)
"""What stands between a teacher and the model that is trained: "distill R1 into Qwen3 8B"; of
models whose names were cut out, as many spaces."""
_HAN_TRAINING = re.compile("|".join(v.HAN_TRAINING))


def about_training(text: str) -> bool:
    """Return whether a question is about training, not about serving."""
    plain = re.sub(r"预训练模型|pre-?trained", " ", text, flags=re.IGNORECASE)
    if any(one.search(plain) for one in (_TRAINING, _HAN_TRAINING, DISTILLS)):
        return True
    return _WEAK_TRAINING.search(plain) is not None and _SERVING.search(plain) is None


def wants_largest(text: str, model: str | None) -> bool:
    """Return whether a text is about one model of a family, the largest that fits: "the biggest
    llama", "which Qwen3 model"."""
    if model is None or _SIZED.search(model):
        return False
    named = re.search(re.escape(model), text, re.IGNORECASE)
    if named is None or _LARGEST_BEFORE.search(text[: named.start()].lower()) is None:
        return False
    is_family = not any(map(str.isdigit, model))
    return is_family or _OF_THE_FAMILY.match(text, named.end()) is not None


_TURBOQUANT = re.compile(
    r"\b(turboquant_\w+)|\bturbo ?quant(?:ized)?\b[\s:,-]*(?:(k8v4)|(3)[ -]?bits?)?"
)


def turboquant(text: str) -> str | None:
    """Return the format of a KV cache that a text calls TurboQuant, the one of 4 bits where it says
    no more; None where it does not."""
    match = _TURBOQUANT.search(text.lower())
    if match is None:
        return None
    named, mixed, bits = match.groups()
    return named or ("turboquant_k8v4" if mixed else f"turboquant_{bits or 4}bit_nc")


def is_quantized(text: str) -> bool:
    """Return whether a text is about a quantized model, of which it does not say the format."""
    return _QUANTIZED.search(text) is not None and not is_about(text, "format")


def served_adapters(text: str) -> int | None:
    """Return how many LoRA adapters a text serves; None where it serves none."""
    match = _ADAPTERS.search(text)
    if match is None or _TRAINED.search(text):
        return None
    return v.NUMBER_WORDS.get(match[1].lower()) or int(match[1])


_FILES = re.compile(r"\bgguf\b|\bi?q\d_[k0-9]|\bimatrix\b", re.IGNORECASE)
_PUBLISHERS = re.compile(r"\bunsloth(?:'s)?\b(?!\.)", re.IGNORECASE)


def without_models(text: str, tokens: Sequence[Token]) -> str:
    """Return the text with blanks for the names of models: oasst-sft-4 says nothing of
    training."""
    for token in tokens:
        if token.kind == "MODEL" and "/" not in token.text:
            text = text[: token.start] + " " * (token.end - token.start) + text[token.end :]
    return text


def without_publishers(text: str) -> str:
    """Return the text with blanks for training tools that are named as the publishers of GGUF
    files, which are not trained: "unsloth GLM-4.5-Air-GGUF"."""
    if _FILES.search(text) is None:
        return text
    return _PUBLISHERS.sub(lambda match: " " * len(match[0]), text)


def question_sentences(text: str, tokens: Sequence[Token]) -> frozenset[int]:
    """Return the indices of the sentences that ask something."""
    spans: dict[int, tuple[int, int]] = {}
    place = 0
    for token in tokens:
        start, _ = spans.get(token.sentence, (place, place))
        spans[token.sentence] = (start, token.end)
        place = token.end
    return frozenset(
        index
        for index, (start, end) in spans.items()
        if is_about(text[start:end].strip(), "question")
    )


_EIGHT_BIT_ADAM = (
    r"(?:8[- ]?bits?|int8)[- ](?:paged[- ])?adamw?\b|(?<![a-z])adamw?[- _]?8[- _]?bits?"
    r"|8[- ]?bit optimi[sz]er"
)
_ROWS = [
    (field, value, pattern.replace("{adam8}", _EIGHT_BIT_ADAM))
    for field, value, pattern in rows("settings")
]
_SETTINGS = [
    (field, value, re.compile(pattern, re.IGNORECASE | re.ASCII))
    for field, value, pattern in reversed(_ROWS)
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
