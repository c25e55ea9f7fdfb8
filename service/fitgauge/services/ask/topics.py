"""What a question is about: topics.tsv has the patterns of each topic."""

import itertools
import operator
import re
from typing import Literal

from fitgauge.services.ask.vocabulary import rows

Topic = Literal[
    "question", "gpus", "need", "memory", "models", "count of gpus", "it fits", "plan", "log",
    "suggestions", "longest context", "most requests", "copies", "largest batch",
    "longest sequence", "time", "disk", "merging", "format", "largest", "comparison",
    "all weights", "price of tokens", "price", "as published", "fastest", "text alone", "rate",
    "cache", "layers", "no gpu", "one gpu", "whole context", "nodes", "month", "coding",
]  # fmt: skip

_WORDS = r"(?:\s+(?!(?:for|to|do|does|can|would|will|are|of|on|and)\b)[\w.-]+){0,7}\s+"
_SENDERS = (
    r"users|requests|people|clients|sessions|sequences|streams|chats|agents|conversations|dev\w+"
)
_OTHERS = (
    rf"{_WORDS}(?:{_SENDERS}|hours|days|weeks|layers|tokens|adapters|replicas|copies"
    r"|instances|models)\b"
)
"""What is counted where it is no GPU: "how many users can an A100 serve"."""

_FEWEST = (
    r"\b(?:fewest|least|minim(?:um|al)|min\.?)\s+(?:(?:number|count|amount) of\s+)?"
    r"(?:gpus?|cards?|nodes|[a-z]{1,2}\d{1,3}s?|(?:[rg]tx )?\d{4}s)\b"
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
    topic: re.compile("|".join(_full(pattern) for _, pattern in group), re.IGNORECASE)
    for topic, group in itertools.groupby(rows("topics"), operator.itemgetter(0))
}


def is_about(text: str, *topics: Topic) -> bool:
    """Return whether a text is about one of some topics, whatever else it is about."""
    return any(_TOPICS[topic].search(text) for topic in topics)
