"""What the name of an argument means: a field of a tool's request by its name, by an alias, by the
words of either, or nearly."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from rapidfuzz import fuzz, process

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.tools.aliases import (
    ANSWER,
    FIELDS,
    GPUS_PER_NODE,
    NAMES,
    NODES,
    PARTS_OF_NAMES,
    SWITCHES,
    WITHOUT_EFFECT,
    plain,
)
from fitgauge.services.tools.faces import Tool
from fitgauge.services.tools.values import Field, fields_of

OF_MACHINES = (NODES, GPUS_PER_NODE)

_LONGEST = 80
"""Characters of a name that may mean anything."""

_SPELLING = 86
"""Similarity in percent from which a misspelt name is read as the nearest one."""

_UNITS = frozenset(("gb", "gib", "tokens", "seconds", "ms", "usd"))
_COUNTS = frozenset(("num", "number", "count", "n", "max"))
"""Words of a name that say no more than that it is a number."""

_CARRIERS = frozenset(("list", "spec", "config", "configuration", "selected", "hf"))
"""Words of a name that say no more than that it is a text."""

_SAME_WORD = {
    "len": "length", "seq": "sequence", "ctx": "context", "maximum": "max", "minimum": "min",
    "cost": "price", "mem": "memory", "parallelism": "parallel", "concurrent": "parallel",
    "simultaneous": "parallel", "session": "user", "client": "user",
}  # fmt: skip
_NO_MEANING = frozenset(("of", "the", "in", "for", "my", "per", "target", "desired", "expected"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, in one spelling and number, without those that tell no field from
    another."""
    words = (word.lower() for word in _WORD.findall(name))
    singular = (word if word.endswith("ss") else word.removesuffix("s") for word in words)
    return frozenset(_SAME_WORD.get(word, word) for word in singular) - _NO_MEANING


@cache
def _fields_by_words() -> Mapping[frozenset[str], list[str]]:
    """Return fields by the words of an alias, the preferred first."""
    fields: dict[frozenset[str], list[str]] = {}
    for targets, names in NAMES.items():
        for name in names.split():
            row = fields.setdefault(words_of(name), [])
            row += [target for target in targets if target not in row]
    return fields


class Names:
    """The names that a tool understands."""

    def __init__(self, tool: Tool) -> None:
        self.accepted: Mapping[str, Field] = fields_of(tool.request)
        """Fields of the request."""
        self.face = {parameter.name for parameter in tool.parameters}
        """Parameters of the tool."""
        self._by_word = {plain(name): name for name in self.accepted}
        self._by_words = {words_of(name): name for name in self.accepted}
        self._targets = {
            *self.accepted,
            *(part for part, name in PARTS_OF_NAMES.items() if name in self.accepted),
        }
        if "gpu_count" in self.accepted:
            self._targets |= {*OF_MACHINES}
        if "prompt_tokens" in self.accepted:
            self._targets.add(ANSWER)

    def is_name(self, text: str, after: str = "") -> bool:
        """Return whether a text is the name of an argument. after: the argument whose value it
        follows; the words of a list are values, also where they are switches ("awq, fp8")."""
        if len(text) > _LONGEST:
            return False
        word = plain(text)
        if word in SWITCHES:
            fields = FIELDS.get(plain(after), [after])
            return not any(self._takes_several(name) for name in fields)
        return word in self._by_word or word in FIELDS or self._by_its_words(text) is not None

    def _takes_several(self, name: str) -> bool:
        field = self.accepted.get(name)
        return field is not None and field.kind in ("texts", "integers")

    def field(self, key: str, note: Callable[[str], None]) -> str | None:
        """Return what a name means; None for nothing here. note: takes what was guessed."""
        if len(key) > _LONGEST:
            return None
        word = plain(key)
        if (name := self._by_word.get(word) or self._by_alias(FIELDS.get(word, ()))) is not None:
            return name
        if word in WITHOUT_EFFECT or word in FIELDS or word in SWITCHES:
            return None
        if (name := self._by_its_words(key)) is not None:
            return name
        stem, _, unit = key.lower().replace("-", "_").rpartition("_")
        if stem and unit in _UNITS:
            return self.field(stem, note)
        for engine in ENGINES:  # variables: OLLAMA_CONTEXT_LENGTH
            rest = word.removeprefix(plain(engine))
            if (name := self._by_alias(FIELDS.get(rest, ()))) is not None:
                return name
        near = process.extractOne(
            word, [*self._by_word, *FIELDS], scorer=fuzz.ratio, score_cutoff=_SPELLING
        )
        if near is None or near[0] in _without_a_word(key):
            return None
        name = self._by_word.get(near[0]) or self._by_alias(FIELDS.get(near[0], ()))
        if name is not None:
            note(f"{key[:40]} read as {name}")
        return name

    def _by_its_words(self, key: str) -> str | None:
        """Return the field whose name, or alias, has the same words in any order."""
        words = words_of(key)
        for some, is_number in ((words, None), (words - _COUNTS, True), (words - _CARRIERS, False)):
            name = self._by_words.get(some) or self._by_alias(_fields_by_words().get(some, ()))
            if name is not None and is_number in (None, self._is_number(name)):
                return name
        return None

    def _is_number(self, name: str) -> bool:
        field = self.accepted.get(name)
        return field is None or field.kind in ("integer", "integers", "number")

    def _by_alias(self, fields: Sequence[str]) -> str | None:
        """Return the first of an alias's fields that the tool has: one of its face before
        others."""
        targets = [name for name in fields if name in self._targets]
        if targets and targets[0] in (*PARTS_OF_NAMES, *OF_MACHINES):
            return targets[0]
        on_face = [name for name in targets if name in self.face]
        return next(iter(on_face or targets), None)


def _without_a_word(key: str) -> set[str]:
    """Return a name less each of its words: with one more a name means another thing."""
    words = key.lower().replace("-", "_").split("_")
    return {"".join(words[:at] + words[at + 1 :]) for at in range(len(words))}
