"""A question without its names, and which of its sentences ask something."""

import re
from collections.abc import Sequence

from fitgauge.services.ask.scan import Token
from fitgauge.services.ask.topics import is_about

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
