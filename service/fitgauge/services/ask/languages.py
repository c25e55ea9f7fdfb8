"""Words of other languages by what they mean in English, and spoken numbers in digits, so that
every rule is of one language.

Chinese, Japanese and Korean have no spaces between words: their phrases are in `vocabulary`."""

import re

from fitgauge.services.ask.vocabulary import rows

_COUNTED = (
    r"(?= (?:(?:видео)?карт|kart|gpu|\w+(?:s|en|ern|i|ów|ов|ей|ий)\b"
    r"|(?:rtx |gtx |rx )?(?:[a-z]{1,2}\d{1,3}|\d{4})\b))"
)
"""What follows where things are counted, and no memory."""

_WORDS = dict(rows("languages"))
"""Forms of words, by their meaning."""

_MEANINGS = tuple(_WORDS)
_FORMS = re.compile(
    r"(?<!\w)(?:"
    + "|".join(
        f"(?P<w{at}>{forms.replace('{counted}', _COUNTED)})"
        for at, forms in enumerate(_WORDS.values())
    )
    + r")(?!\w)",
    re.IGNORECASE,
)
"""Where a word begins alone: every form is tried there, and nowhere else."""
_GIGABYTES = re.compile(r"(?<=\d)(\s?)(?:Go\b|[ГгGg][Бб]|gigas?\b|гиг\w*|ギガ(?:バイト)?)")
"""As French, Russian and Japanese write them: "80 Go"."""
_BITS = re.compile(r"(?<=\d)\s?(?:비트|ビット|比特)")
_K = re.compile(r"(?<=\d)\s?к\b", re.IGNORECASE)
_THOUSANDS = re.compile(
    r"(?<=\d) ?(?:thousand|mil(?:le|a)?|tausend|тыс\w*\.?|bin)(?!\w)", re.IGNORECASE
)
_ELIDED = re.compile(r"\b(combien d)['’](?=\w)", re.IGNORECASE)
"""French: "combien d'utilisateurs"."""
_ENDING = re.compile(r"(?<=\d)(?:ern|er|'?s(?= met)|ах|'?(?:de|da|te|ta))(?= |$)")
"""What German and Turkish add to a number: "zwei 3090ern"."""


def in_english(text: str) -> str:
    """Return a text with words of other languages by their meaning, in the order that they have."""
    text = _ELIDED.sub(r"\1e ", text)
    text = _GIGABYTES.sub(r"\1GB", text)
    text = _THOUSANDS.sub("000", _K.sub("k", _BITS.sub("bit", text)))
    return _FORMS.sub(lambda match: _MEANINGS[int(str(match.lastgroup)[1:])], _ENDING.sub("", text))


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
