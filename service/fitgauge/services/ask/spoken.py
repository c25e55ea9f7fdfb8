"""Numbers as they are spoken, in digits: "three point one", "forty ninety", "seventy billion"."""

import re

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: value for value, word in enumerate(_SMALL)}
_VALUES |= {word: 10 * tens for tens, word in enumerate(_TENS, 2)}
_VALUES |= {f"{word[:-1]}ies": _VALUES[word] for word in _TENS}
_SCALES = {"hundred": 100, "thousand": 1000}
_WORD = "|".join(sorted(_VALUES, key=len, reverse=True))
_VALUES["a"] = 1
_NUMBER = re.compile(
    rf"\b(?:{_WORD}|a(?= hundred\b| thousand\b))"
    rf"(?:(?: point|(?<=d) and(?= (?:{_WORD})\b))?[ -](?:{_WORD}|hundred|thousand))*\b"
    r"(?P<unit> (?:[bk]|[mb]illion|gi?b|gigs?|gigabytes?|bits?)\b)?",
    re.IGNORECASE,
)
_LEAST = 13
"""From which number on a word alone is in digits: smaller ones count things, "two cards"."""


def in_digits(text: str) -> str:
    """Return a text with spoken numbers in digits; small ones alone count things, and stay."""
    return _NUMBER.sub(_digits, text)


def _digits(match: re.Match[str]) -> str:
    unit = match["unit"] or ""
    words = re.split(r"[ -]", match[0].lower().removesuffix(unit.lower()))
    numbers = _numbers(words, measured=bool(unit))
    if len(words) == 1 and not unit and int(numbers[0]) < _LEAST:
        return match[0]
    plural = "s" if words[-1].endswith("ies") else ""
    return " ".join(numbers) + plural + (unit.strip() if len(unit) == 2 else unit)


def _numbers(words: list[str], *, measured: bool) -> list[str]:
    """Return the numbers of a row of words: 3.1 and 8 of "three point one eight b", 3060 of "thirty
    sixty", 235 of "two thirty five". measured: whether a unit follows, which the last one is of."""
    sums: list[int] = []
    fractions: set[int] = set()
    last = ""
    for word in words:
        value = _VALUES.get(word)
        adds = last in _SCALES or (last in _TENS and value is not None and 0 < value < 10)
        if word == "point":
            fractions.add(len(sums))
        elif value is None:
            sums[-1:] = [total * _SCALES.get(word, 1) for total in sums[-1:]]
        elif adds and len(sums) not in fractions:
            sums[-1] += value
        else:
            sums.append(value)
        last = word if word != "and" else last
    numbers: list[str] = []
    for place, value in enumerate(sums):
        written = numbers[-1] if numbers else ""
        if place in fractions:
            numbers[-1] += f".{value}"
        elif ("." in written and value < 10 and not measured) or (
            9 < value < 100
            and (len(written) == 2 or written == "1" or (written == "2" and value % 10))
        ):
            numbers[-1] += str(value)
        else:
            numbers.append(str(value))
    return numbers
