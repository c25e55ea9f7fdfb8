"""Limits of a quantization_config: what reading it and matching its patterns may cost."""

from collections.abc import Iterator, Mapping
from typing import Any

from fitgauge.errors import MalformedModelError

MAX_NAMES = 100_000
"""Names in one list of modules. The snapshot's longest has 712 (GLM-5-FP8); those that name every
expert have tens of thousands."""
MAX_FORMATS = 64
"""Number formats of one scheme. The snapshot has at most 3; 2 to 8 bits x 3 group sizes make 21."""
MAX_PATTERN_CHARACTERS = 16_384
"""Characters of all globs and regular expressions. The snapshot has at most 175 (Kimi-K3)."""
MAX_MATCHING = 4_000_000
"""States of all patterns x matrices of the model. The snapshot has at most 0.3 million (Kimi-K3); a
pattern for each of the 94 layers of Qwen3-235B comes to 2.1 million. At the bound, reading and
matching took about 0.2 s on a loaded machine; the costliest config of the snapshot takes 10 ms."""
FEWEST_MATRICES = 256
"""A smaller model counts as one of so many: the automaton has to be built too."""


def pattern_characters(values: Mapping[str, Any]) -> int:
    """Count the characters of globs and regular expressions; each key of `dynamic` is one."""
    dynamic = values.get("dynamic")
    keys = dynamic if isinstance(dynamic, Mapping) else ()
    texts = _texts({**values, "dynamic": None})
    return sum(map(len, keys)) + sum(
        len(text) for text in texts if text.startswith("re:") or "*" in text[:-1]
    )


def _texts(value: object) -> Iterator[str]:
    """Yield every key and text of a quantization_config, nested ones included."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item


def check_limit(what: str, count: int, most: int) -> None:
    """Raise MalformedModelError where `count` is above the limit."""
    if count > most:
        raise MalformedModelError(
            f"quantization_config has {count} {what}; the limit is {most}.",
            hint="Name modules instead of patterns in quantization_config.",
            field="quantization_config",
        )
