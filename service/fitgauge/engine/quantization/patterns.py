"""Match many patterns against a name at once, in time linear in the name, without backtracking.

A pattern comes from a stranger's config.json, and `re` needs exponential or high polynomial time
for some. Here a pattern is a set of chains of characters, each matched once or repeated, and the
states of all chains are the bits of one integer (the extended Shift-And of Navarro and Raffinot,
Flexible Pattern Matching in Strings, 2002, section 4.2). One character of a name costs a few
operations on integers for all patterns together.

Syntax: characters, escapes, `.`, `\\d`, `\\w`, classes, `^`, `$`, groups of alternatives, and `*`,
`+`, `?` and `{m,n}` after one character. Look-around, back references, flags and repeated groups
are refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

MAX_LENGTH = 300
"""Characters of one pattern."""
MAX_STATES = 1024
"""States of one pattern, its alternatives written out."""
_MAX_MEMO = 65_536
"""Transitions that one automaton holds in memory."""

_START, _END = "\x02", "\x03"
"""What a name is put between: `^` matches the one, `$` the other, and no other item either."""


class Item(NamedTuple):
    """One character of a pattern."""

    chars: frozenset[str]
    """The characters it matches."""
    negated: bool = False
    """Whether it matches any character but `chars`."""
    repeated: bool = False
    """Whether it matches any number of them."""

    def accepts(self, char: str) -> bool:
        """Return whether the item matches this character of a name."""
        if self.negated:
            return char not in self.chars and char not in (_START, _END)
        return char in self.chars


Chain = tuple[Item, ...]

_ANY = Item(frozenset(), negated=True)
_ANY_NUMBER = _ANY._replace(repeated=True)
_DIGITS = "0123456789"
_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_" + _DIGITS
_CLASSES = {"d": _DIGITS, "w": _WORD}


class Patterns:
    """Several patterns, matched at once."""

    def __init__(self, patterns: Sequence[Iterable[Chain]]) -> None:
        """patterns: of each, its alternatives as `parse` or `parse_glob` return them."""
        self.states = 0
        """bits of the automaton, which is what a character of a name costs"""
        self._advance: dict[Item, int] = {}
        self._stay: dict[Item, int] = {}
        self._starts = self._ends = 0
        self._numbers: dict[int, int] = {}
        self._masks: dict[str, tuple[int, int]] = {}
        self._memo: dict[tuple[int, str], int] = {}
        for index, chains in enumerate(patterns):
            for chain in chains:
                self._add(index, chain)
        self._initial = self._run(self._starts, _START)
        self.anchored = _literal(_START) in self._advance
        """whether a pattern has a `^`"""
        items = (*self._advance, *self._stay)
        self.tells_digits = any(
            len({item.accepts(digit) for digit in _DIGITS}) > 1 for item in items
        )
        """whether a pattern may match a name and not the same name with other digits in it"""

    def _add(self, index: int, chain: Chain) -> None:
        """Append a chain. Its first and last states, once reached, stay: it matches anywhere."""
        state = 1 << self.states
        self._starts |= state
        for item in chain:
            one = item._replace(repeated=False)
            if item.repeated:
                self._stay[one] = self._stay.get(one, 0) | state
            else:
                self._advance[one] = self._advance.get(one, 0) | state
                state <<= 1
        self._ends |= state
        self.states = state.bit_length()
        self._numbers[self.states] = index

    def first(self, *names: str, suffixes: tuple[str, ...] = ("",)) -> int | None:
        """Return the number of the first pattern that matches any name with any suffix, or None."""
        reached = 0
        for name in names:
            first, *others = name.split(".")
            states = self._after(self._initial, first)
            for piece in others:
                states = self._after(states, "." + piece)
            for suffix in suffixes:
                reached |= self._after(states, suffix + _END)
        matched = reached & self._ends
        return self._numbers[(matched & -matched).bit_length()] if matched else None

    def _after(self, states: int, piece: str) -> int:
        """Return the states after `piece`: names of a model share most of their pieces."""
        after = self._memo.get((states, piece))
        if after is None:
            if len(self._memo) >= _MAX_MEMO:
                self._memo.clear()
            after = self._memo[states, piece] = self._run(states, piece)
        return after

    def _run(self, states: int, text: str) -> int:
        for char in text:
            masks = self._masks.get(char)
            if masks is None:
                stay = _mask(self._stay, char) | self._starts | self._ends
                masks = self._masks[char] = (_mask(self._advance, char), stay)
            states = ((states & masks[0]) << 1) | (states & masks[1])
        return states


def _mask(items: Mapping[Item, int], char: str) -> int:
    """Return the states whose item accepts `char`."""
    mask = 0
    for item, states in items.items():
        if item.accepts(char):
            mask |= states
    return mask


def parse_glob(glob: str) -> list[Chain]:
    """Return `glob` as a pattern of whole dotted parts, in which `*` is any characters."""
    chain = [Item(frozenset((_START, ".")))]
    for piece in glob.split("*"):
        chain += [*map(_literal, piece), _ANY_NUMBER]
    return [(*chain[:-1], Item(frozenset((_END, "."))))]


def parse(pattern: str) -> list[Chain]:
    """Return the alternatives of a regular expression, each a chain.

    Raises ValueError for one that is broken, uses other syntax, or has more than MAX_STATES states.
    """
    if len(pattern) > MAX_LENGTH:
        raise ValueError(f"the pattern {pattern[:60]!r} is longer than {MAX_LENGTH} characters")
    parser = _Parser(pattern)
    chains = parser.alternatives()
    if parser.rest:
        raise parser.refusal()
    return chains


class _Parser:
    """Recursive descent over one pattern. `rest`: what is not read yet, the next character last."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.rest = list(reversed(pattern))

    def refusal(self) -> ValueError:
        return ValueError(f"the pattern {self.pattern[:60]!r} is broken or not read here")

    def take(self, *words: str) -> str | None:
        """Return the first of `words` that comes next, taken; else None."""
        for word in words:
            if self.rest[: -len(word) - 1 : -1] == list(word):
                del self.rest[-len(word) :]
                return word
        return None

    def next(self) -> str:
        if not self.rest:
            raise self.refusal()
        return self.rest.pop()

    def alternatives(self) -> list[Chain]:
        """`a|b|c`, up to a closing bracket or the end."""
        chains = self.sequence()
        while self.take("|"):
            chains = self.bounded([*chains, *self.sequence()])
        return chains

    def sequence(self) -> list[Chain]:
        """Return what follows one another: every choice of alternatives written out."""
        chains: list[Chain] = [()]
        while self.rest and self.rest[-1] not in "|)":
            nexts = self.group() if self.take("(") else self.repeated(self.item())
            if len(chains) * len(nexts) > MAX_STATES:
                raise self.refusal()
            chains = self.bounded([self.joined(*pair) for pair in product(chains, nexts)])
        return chains

    def bounded(self, chains: list[Chain]) -> list[Chain]:
        if sum(len(chain) + 1 for chain in chains) > MAX_STATES:
            raise ValueError(f"the pattern {self.pattern[:60]!r} has too many alternatives")
        return chains

    def joined(self, chain: Chain, following: Chain) -> Chain:
        """Join two chains. Of two repeated items side by side one must include the other."""
        if chain and following and chain[-1] == following[0] in (_literal(_START), _literal(_END)):
            return self.joined(chain, following[1:])
        if chain and following and chain[-1].repeated and following[0].repeated:
            last, first = chain[-1], following[0]
            if last == first or first == _ANY_NUMBER:
                return self.joined(chain[:-1], following)
            if last != _ANY_NUMBER:
                raise self.refusal()
            return self.joined(chain, following[1:])
        return (*chain, *following)

    def group(self) -> list[Chain]:
        if self.take("?:") is None and self.rest[-1:] == ["?"]:
            raise self.refusal()
        chains = self.alternatives()
        if self.next() != ")":
            raise self.refusal()
        optional = self.take("??", "?")
        if self.rest and self.rest[-1] in "*+?{":
            raise self.refusal()
        return [*chains, ()] if optional else chains

    def repeated(self, item: Item) -> list[Chain]:
        """Return the item with the quantifier that follows it."""
        many = item._replace(repeated=True)
        quantifier = self.take("*", "+", "?", "{")
        if quantifier is None:
            return [(item,)]
        chains: list[Chain] = (
            [(many,)]
            if quantifier == "*"
            else [(item, many)]
            if quantifier == "+"
            else [(), (item,)]
        )
        if quantifier == "{":
            chains = self.counted(item)
        self.take("?")
        if item.chars & {_START, _END} or (self.rest and self.rest[-1] in "*+?{"):
            raise self.refusal()
        return chains

    def counted(self, item: Item) -> list[Chain]:
        """`{m}`, `{m,}` and `{m,n}`."""
        text = ""
        while (char := self.next()) != "}":
            text += char
        low, comma, high = text.partition(",")
        if (
            not low.isdecimal()
            or (high and not high.isdecimal())
            or max(int(low), int(high or 0)) > MAX_LENGTH
        ):
            raise self.refusal()
        if comma and not high:
            return [(*(item,) * int(low), item._replace(repeated=True))]
        return self.bounded([(item,) * times for times in range(int(low), int(high or low) + 1)])

    def item(self) -> Item:
        """Return one character, escape or class, or an anchor."""
        char = self.next()
        if char in "*+?{":
            raise self.refusal()
        if char == "\\":
            return Item(self.escaped())
        if char == "[":
            return self.char_class()
        return {".": _ANY, "^": _literal(_START), "$": _literal(_END)}.get(char) or _literal(char)

    def escaped(self) -> frozenset[str]:
        char = self.next()
        if char in _CLASSES:
            return frozenset(_CLASSES[char])
        if char.isalnum():
            raise self.refusal()
        return frozenset(char)

    def char_class(self) -> Item:
        """`[abc]`, `[a-z]`, `[^.]`."""
        negated, chars = self.take("^") is not None, set[str]()
        while (char := self.next()) != "]" or not chars:
            if char == "[" or char == "]":
                raise self.refusal()
            if char == "\\":
                chars |= self.escaped()
            elif len(self.rest) > 1 and self.rest[-1] == "-" and self.rest[-2] != "]":
                self.next()
                last = self.next()
                if not (
                    char.isalnum()
                    and last.isalnum()
                    and char.isascii()
                    and last.isascii()
                    and char <= last
                ):
                    raise self.refusal()
                chars |= set(map(chr, range(ord(char), ord(last) + 1)))
            else:
                chars.add(char)
        return Item(frozenset(chars), negated)


def _literal(char: str) -> Item:
    return Item(frozenset(char))
