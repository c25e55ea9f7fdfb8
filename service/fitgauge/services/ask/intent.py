"""What a question is about, by its words."""

import re
from collections.abc import Collection, Sequence

from fitgauge.services.ask import vocabulary as v
from fitgauge.services.ask.scan import Token
from fitgauge.services.ask.topics import is_about

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
    rf"\b(\d{{1,4}}|{'|'.join(v.NUMBER_WORDS)})\s+(?:[\w.]+\s+){{0,4}}?(?:adapters|loras)\b",
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
