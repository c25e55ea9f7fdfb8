"""A question taken apart: words, numbers, signs, each with its place. One pass, linear time."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fitgauge.catalog.name_parts import in_latin
from fitgauge.services.ask.languages import in_digits, in_english
from fitgauge.services.ask.vocabulary import rows

_PIECE = re.compile(
    r"(?P<han>[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3])"
    r"|(?P<url>https?://[^\s<>()（）\"'`，。、]+)"
    r"|(?P<hub>(?<![A-Za-z0-9_/.-])(?=[A-Za-z0-9][A-Za-z0-9_.-]*/)(?!\d+(?:\.\d+)?/|[\w./-]*\.gguf\b|[\w.-]+/\d+[gG][bB]?\b|\w+/(?:h|hr|hour|mo|month)\b)[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
    r"(?::[A-Za-z0-9_.-]*[A-Za-z0-9])?(?!/))"
    r"|(?P<number>\d{1,3}(?:,\d{3})+(?![\w]))"
    r"|(?P<word>[A-Za-zÀ-ÿ0-9]+(?:\.[A-Za-z0-9]+)*)"
    r"|(?P<end>[.!;,、]|\?+|\n)"
    r"|(?P<sign>\S)"
)

_SPELLINGS = {"×": "x", "’": "'", "기가": "gb", " v ram": " vram", "chat gpt": "chatgpt"}

_SWITCHED_OFF = re.compile(
    r"(?<![\w-])(?:--)?[A-Za-z]\w*_\w+[\"']?\s*[:=]\s*[\"']?(?:false|no|off|null|none)\b[\"']?",
    re.IGNORECASE,
)
"""A setting of a configuration that is off: it is not said."""

_REWRITTEN: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]] = (
    # A setting of a chart or a configuration: maxModelLen: 8192
    (r"\b[a-z]+(?:[A-Z][a-z]+)+(?=[\"']?\s*[:=])", lambda key: re.sub(r"(?=[A-Z])", "_", key[0])),
    # The indices of the GPUs that a command is given
    (
        r"\b(?:CUDA|NVIDIA|HIP|ROCR)_VISIBLE_DEVICES\W{1,3}(\d{1,2}(?:,\d{1,2}){0,15})",
        lambda indices: f"{indices[1].count(',') + 1} gpus",
    ),
    # torchtune's own configurations: "--config llama3_2/3B_full"
    (
        r"(--config\s+[a-z]+\d?)(?:_(\d))?/(\d+(?:\.\d+)?B)_",
        lambda name: f"{name[1]}{'.' + name[2] if name[2] else ''} {name[3]} ",
    ),
    *((pattern, meant) for pattern, meant, _ in rows("rewrites")),
)
_REWRITES = tuple((re.compile(written), meant) for written, meant in _REWRITTEN)
"""Ways to write, each as the readers of pieces know it, in the order in which they are tried."""

_COMMAND = re.compile(r"\bcommand[ -]?r ?(?:\+|plus\b)", re.IGNORECASE)
"""A name with a sign: "Command R+"."""
_LISTED_ARGUMENTS = re.compile(r"([\"'])\s*,\s*(?=[\"'])")
"""What stands between the arguments of a manifest: ["--max-model-len", "8192"]."""

_FILE = re.compile(r"[-._](I?Q\d[A-Z0-9_]*|B?F16|MXFP4)\.gguf\b", re.IGNORECASE)
"""A file in a repository, by the type in its name."""

_HUB_URL = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co|modelscope\.cn/models)/")
_ENDINGS = re.compile(r"\.(?:py|md|sh|json|yaml|yml|txt|log|ipynb|cpp|html|git|toml|cfg|so|exe)\b")


class Piece(NamedTuple):
    """One word or sign."""

    kind: str
    """The kind of piece: word, number or sign."""
    text: str
    """As it was written."""
    low: str
    """The same in small letters."""
    start: int
    """Where it begins in the text."""
    end: int
    """Where it ends."""
    glued: bool
    """Whether nothing stands between it and the piece before."""


def plain(text: str) -> str:
    """Return the text in compatible characters, without control characters, and with the families
    of models in Latin letters and words of other languages in English."""
    text = in_latin(unicodedata.normalize("NFKC", text))
    for written, meaning in _SPELLINGS.items():
        text = text.replace(written, meaning)
    text = in_digits(in_english(_COMMAND.sub("command-r-plus", text)))
    if '"--' in text or "'--" in text:
        text = _LISTED_ARGUMENTS.sub(r"\1 ", text)
    for pattern, meant in _REWRITES:
        text = pattern.sub(meant, text)
    return "".join(
        character if character == "\n" or unicodedata.category(character)[0] != "C" else " "
        for character in text
    ).replace("。", ".\n")


def pieces(text: str) -> list[Piece]:
    """Return the pieces of a plain text."""
    result: list[Piece] = []
    place = -1
    meant = _SWITCHED_OFF.sub(lambda match: " " * len(match[0]), text)
    for match in _PIECE.finditer(meant):
        kind = str(match.lastgroup)
        value, start = match[0], match.start()
        if kind == "url":
            hub = _HUB_URL.match(value)
            path = "/".join(re.split(r"[/?#]", value[hub.end() :])[:2]) if hub else ""
            file = _FILE.search(value) if path else None
            path += f":{file[1]}" if file else ""
            kind, value = ("hub", path) if path.count("/") else ("sign", value)
        if kind == "hub" and _ENDINGS.search(value.lower()):
            kind = "sign"
        result.append(Piece(kind, value, value.lower(), start, match.end(), start == place))
        place = match.end()
    return result
