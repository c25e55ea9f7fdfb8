"""What an unknown name may mean: bundled models of its family, and whether one may stand for it."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from fitgauge.catalog.name_parts import DESCRIPTIVE, FILLERS, KINDS, SILENT, Name, plain, scaled

MOST = 5
"""Names in an answer."""

_TOLERANCE = 0.08
"""How far the sizes of two names may lie apart: people round 6.7b to 7b."""

_SHORTEST = 4
"""Letters of a word that may be misspelled; of the misspelling one less."""

_LONG = 7
"""Letters from which on a word may hold two mistakes."""

_MOST_WORDS = 12
"""Words of a text that are looked at."""


class NearNames:
    """The names of the bundled models, by the words that tell families."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._names = tuple(map(Name.of, ids))

    def near(self, text: str) -> tuple[str, ...]:
        """Return up to five ids of the family that a text names, also misspelled: first those of
        its size, its release and its words, then the likest."""
        query = Name.of(text)
        telling = {
            word
            for written_word in _telling(query)[:_MOST_WORDS]
            for word in self._vocabulary
            if _alike(written_word, word)
        }
        if query.family:
            telling.add(query.family)
        written = plain(text)
        ranked = sorted(
            (
                bool(query.sizes) and not _same_size(query, name),
                not query.versions <= name.numbers,
                len(query.words - name.words),
                -_likeness(written, plain(name.id)),
                name.id,
            )
            for name in self._names
            if name.family == query.family or not telling.isdisjoint(_telling(name))
        )
        return tuple(row[-1] for row in ranked[:MOST])

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(word for name in self._names for word in _telling(name))


def may_stand_for(model_id: str, text: str) -> bool:
    """Return whether a model may be sent instead of a name that is unknown: of the release and the
    kind that are said, and of the size; without a size it holds every word."""
    query, name = Name.of(text), Name.of(model_id)
    if not query.versions <= name.numbers or query.words & KINDS != name.words & KINDS:
        return False
    if query.sizes:
        return _same_size(query, name)
    words = name.words | name.owner | {"base"}
    return all(
        any(_alike(word, other) for other in words) for word in query.words - FILLERS - SILENT
    )


def named_sizes(text: str) -> tuple[str, ...]:
    """Return the sizes that a text names, the largest first."""
    return tuple(sorted(Name.of(text).sizes, key=scaled, reverse=True))


def _telling(name: Name) -> Sequence[str]:
    """Return the words of a name that tell a family."""
    return sorted(
        word
        for word in name.words - FILLERS - SILENT - KINDS - DESCRIPTIVE
        if len(word) >= _SHORTEST - 1
    )


def _same_size(query: Name, name: Name) -> bool:
    """Return whether a name has one of the sizes that are said, or about so."""
    return any(
        abs(scaled(one) / scaled(other) - 1) <= _TOLERANCE
        for one in query.sizes
        for other in name.sizes
    )


def _alike(written: str, word: str) -> bool:
    """Return whether a word is the other one, or a misspelling that begins alike."""
    if written == word:
        return True
    if written[0] != word[0] or len(word) < _SHORTEST or len(written) < _SHORTEST - 1:
        return False
    from rapidfuzz.distance import OSA  # of misspellings alone

    mistakes = 2 if min(len(written), len(word)) >= _LONG else 1
    return OSA.distance(written, word, score_cutoff=mistakes) <= mistakes


def _likeness(one: str, other: str) -> float:
    """Return how alike two names are, from 0 to 100: as a whole, and in their best matching
    part."""
    from rapidfuzz import fuzz

    return (fuzz.QRatio(one, other) + fuzz.partial_ratio(one, other)) / 2
