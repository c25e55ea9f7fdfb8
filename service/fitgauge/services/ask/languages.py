"""Words of other languages by what they mean in English, so that every rule is of one language.

Chinese, Japanese and Korean have no spaces between words: their phrases are in `vocabulary`."""

import re

from fitgauge.services.ask.rows import rows

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
