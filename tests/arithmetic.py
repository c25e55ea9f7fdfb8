"""Evaluate a printed formula: numbers, units, + - x / ^ % and brackets; words are left out.

`HEADING: EXPRESSION; REMARK` -> the value of EXPRESSION [bytes]. Raises ValueError where two
numbers stand side by side or anything else is no arithmetic, so that prose is no formula."""

import math
import re

_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "bits": 0.125}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(?P<percent> ?%)?"
    r"|(?P<word>[^\W\d](?:[\w'./:-]*[\w])?)|(?P<sign>[-+/^(),]))"
)
_FUNCTIONS = {"max": max, "min": min, "ceil": math.ceil}


def expression(formula: str) -> str:
    """Return the arithmetic of a formula, without what stands before and after it."""
    return formula.partition("; ")[0].rpartition(": ")[2]


def value_of(formula: str) -> float:
    """Return what a formula adds up to."""
    tokens = _tokens(expression(formula))
    value, rest = _sum(tokens)
    if rest:
        raise ValueError(f"no operator before {rest[0]!r} in {formula!r}")
    return value


def _tokens(text: str) -> list[str | float]:
    tokens: list[str | float] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"no arithmetic: {text[position:]!r} in {text!r}")
        position = match.end()
        if match["number"]:
            number = float(match["number"].rstrip(",").replace(",", ""))
            tokens.append(number / 100 if match["percent"] else number)
            if match["number"].endswith(","):
                tokens.append(",")
        elif match["sign"]:
            tokens.append(match["sign"])
        elif match["word"] in ("x", "of") and match["word"] == "x":
            tokens.append("x")
        elif match["word"] in _UNITS:
            tokens += ["*unit", float(_UNITS[match["word"]])]
        elif match["word"] in _FUNCTIONS and text[position : position + 1] == "(":
            tokens.append(match["word"])
    return tokens


def _sum(tokens: list[str | float]) -> tuple[float, list[str | float]]:
    value, tokens = _product(tokens)
    while tokens and tokens[0] in ("+", "-"):
        sign = 1 if tokens[0] == "+" else -1
        term, tokens = _product(tokens[1:])
        value += sign * term
    return value, tokens


def _product(tokens: list[str | float]) -> tuple[float, list[str | float]]:
    value, tokens = _power(tokens)
    while tokens and tokens[0] in ("x", "/"):
        factor, rest = _power(tokens[1:])
        value = value * factor if tokens[0] == "x" else value / factor
        tokens = rest
    return value, tokens


def _power(tokens: list[str | float]) -> tuple[float, list[str | float]]:
    value, tokens = _atom(tokens)
    while tokens and tokens[0] in ("^", "*unit"):
        if tokens[0] == "^":
            exponent, tokens = _atom(tokens[1:])
            value = value**exponent
        else:
            value, tokens = value * float(tokens[1]), tokens[2:]
    return value, tokens


def _atom(tokens: list[str | float]) -> tuple[float, list[str | float]]:
    if not tokens:
        raise ValueError("a number is missing")
    first, rest = tokens[0], tokens[1:]
    if isinstance(first, float):
        return first, rest
    if first in _FUNCTIONS:
        values, rest = [], rest
        while rest and rest[0] in ("(", ","):
            value, rest = _sum(rest[1:])
            values.append(value)
        if not rest or rest[0] != ")":
            raise ValueError(f"no end of {first}")
        return float(_FUNCTIONS[first](*values)), rest[1:]
    if first == "(":
        value, rest = _sum(rest)
        if not rest or rest[0] != ")":
            raise ValueError("a bracket is open")
        return value, rest[1:]
    raise ValueError(f"no number: {first!r}")
