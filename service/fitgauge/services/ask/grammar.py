"""The grammar of a question: which tokens belong together. LALR(1), hence linear time.

A question is a row of phrases that say something, with other words between them. Numbers bind to
the setting next to them, before or after it, and hardware to its counts and sizes."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from lark import Lark, Transformer
from lark import Token as Terminal
from lark.lexer import Lexer

from fitgauge.catalog.sizes import parse_size
from fitgauge.engine.quantity import HOURS_OF_A_MONTH
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.gpu_phrases import gpu_facts
from fitgauge.services.ask.scan import Token
from fitgauge.services.ask.vocabulary import MEMORY

_GRAMMAR = r"""
start: item*

?item: hardware | model | setting | junk

hardware: part+ | counted part*
?part: COUNT | MACHINES | GPU | GPUS | MAC | memory
memory: SIZE | SIZE RAM | SIZE DISK | RAM SIZE | RAM
counted: NUM GPU | NUM GPUS | NUM MAC | NUM memory | NUM MACHINES | NUM MACHINES NUM

model: MODEL
     | PARAMS
     | PARAMS NOUN
     | PARAMS MODEL            -> sized_before
     | PARAMS NOUN MODEL       -> sized_before
     | MODEL PARAMS            -> sized_after
     | MODEL NOUN PARAMS       -> sized_after
     | MODEL NOUN
     | FAMILY                  -> family
     | FAMILY NOUN             -> family
     | PARAMS FAMILY           -> sized_before
     | PARAMS NOUN FAMILY      -> sized_before
     | FAMILY PARAMS           -> sized_after
     | FAMILY NOUN PARAMS      -> sized_after

?setting: length | prompt | output | users | batch | samples | epochs | data | degree | cache
        | budget | rate | format | engine | trainer | framework | method | utilization | speed
        | first_token | cached | hardware_after

_named{kind}: kind | kind NUM | NUM kind
_tokens{kind}: _named{kind} | kind NUM TOKENS | NUM TOKENS kind
hardware_after: (LENGTH | PROMPT | OUTPUT | USERS | BATCH | EPOCHS) counted part*
length: _tokens{LENGTH} | NUM TOKENS -> tokens
prompt: _tokens{PROMPT}
output: _tokens{OUTPUT}
users: _named{USERS}
batch: _named{BATCH} | BATCH NUM TOKENS -> tokens
samples: NUM SAMPLES | SAMPLES
epochs: _named{EPOCHS} | EPOCHS NUM SAMPLES -> samples
data: PARAMS TOKENS
degree: _degree NUM | _degree
_degree: TP | PP | DP | EP | RANK | ZERO | GLOBAL_BATCH | ACCUMULATION
cache: KV | KV FORMAT | FORMAT KV
budget: MONEY NUM _money_time? | NUM MONEY _money_time? | NUM MONTHLY | MONEY
_money_time: MONEY | HOURLY | MONTHLY | MONEY HOURLY | MONEY MONTHLY
utilization: UTILIZATION NUM | UTILIZATION NUM PERCENT | UTILIZATION
speed: NUM RATE | RATE NUM | NUM TOKENS RATE
first_token: FIRST_TOKEN DURATION | DURATION FIRST_TOKEN | FIRST_TOKEN NUM | FIRST_TOKEN
cached: CACHED NUM | CACHED NUM PERCENT | NUM PERCENT CACHED | CACHED
rate: RATE | NUM UNIT | UNIT | NUM PERCENT | PERCENT | TOKENS RATE | DURATION
format: FORMAT
engine: ENGINE
trainer: TRAINER
framework: FRAMEWORK
method: METHOD
junk: NUM | OTHER | NOUN | TOKENS | HOURLY | MONTHLY | DISK
"""


_TERMINALS = sorted(set(re.findall(r"\b_?[A-Z][A-Z_]+\b", _GRAMMAR)))
_THOUSANDS = {"k": 1000 / 1024, "m": (1000 / 1024) ** 2}
"""What a number with such a unit is of samples, over what it is of tokens."""


def in_tens(written: str) -> float:
    """Return by what to multiply a number of samples or of tokens of data, which ends here: its
    thousands are of ten, those of a context of two."""
    return _THOUSANDS.get(written[-1:].lower(), 1)


_NAMES = frozenset({"family", "format", "engine", "trainer", "framework", "method"})
"""Phrases that name something: the others have a number."""
_PARTS = frozenset({"utilization", "cached"})
"""Phrases of a share: of the GPU's memory, of prompts that the prefix cache holds."""

_OTHERS = {"rate": "other", "junk": "number"}
"""Numbers of what no request has a field for, and those that nothing explains."""

CACHE_TYPES = {"q4_k_m": "q4_0", "q5_k_m": "q5_0", "int8": "int8_per_token_head"}
"""Formats of a cache by what the same word means of weights: "q4 KV cache"."""


class _Tokens(Lexer):
    """Hands over tokens that are already made."""

    def __init__(self, _: object) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any = None) -> Iterator[Terminal]:  # noqa: ANN401 - lark's protocol
        """Yield the tokens, each under the name of its terminal."""
        for token in lexer_state:
            yield Terminal(token.kind, token)


@cache
def _parser() -> Lark:
    """Return the parser, made for the first question: no other command needs it."""
    return Lark(
        f"{_GRAMMAR}%declare {' '.join(_TERMINALS)}\n",
        parser="lalr",
        lexer=_Tokens,
        maybe_placeholders=False,
    )


def facts(tokens: Sequence[Token]) -> list[Fact]:
    """Return what the tokens say, in the order of the text."""
    tree = _parser().parse(tokens)
    result: list[Fact] = _Facts().transform(tree)
    return sorted(result, key=lambda fact: fact.start)


class _Facts(Transformer[Terminal, list[Fact]]):
    """Turns phrases into facts, from the leaves to the root."""

    def __default__(self, data: Terminal, children: list[Terminal], meta: object) -> list[Fact]:
        """Return what a phrase names, or its number."""
        kind = str(data)
        if kind in _NAMES:
            return [_fact(kind, children[0].value.value, children[0].value)]
        if kind in _PARTS:
            return _shares(kind, children)
        return _numbered(_OTHERS.get(kind, kind), children)

    def start(self, items: list[list[Fact]]) -> list[Fact]:
        """Join the facts of all phrases."""
        return [fact for item in items for fact in item]

    def memory(self, parts: list[Terminal]) -> tuple[str, float, Token]:
        """Return whether a size is of a GPU, of the host or of a disk."""
        size = next((part.value for part in parts if part.type == "SIZE"), None)
        if size is None:
            return "nothing", 0.0, parts[0].value
        others = {part.type for part in parts} - {"SIZE"}
        kind = "disk" if "DISK" in others else "ram" if "RAM" in others else "memory"
        return kind, float(size.value), size

    def counted(self, parts: list[Any]) -> list[Any]:
        """Return a number and what it counts."""
        return parts

    def hardware(self, parts: list[Any]) -> list[Fact]:
        """Return one fact for each GPU that is named, with its count and memory."""
        flat = [part for group in parts for part in (group if isinstance(group, list) else [group])]
        return list(gpu_facts(flat))

    def hardware_after(self, parts: list[Any]) -> list[Fact]:
        """Return the hardware whose count stands after a setting without a number; the setting
        where that is no count of GPUs: "batch 2 显存多少"."""
        setting, counted, *others = parts
        if not others and isinstance(counted, list) and _is_memory(counted):
            return _numbered(setting.type.lower(), counted)
        return self.hardware(parts[1:])

    def model(self, parts: list[Terminal]) -> list[Fact]:
        """Return the model, or the size of one."""
        token = parts[0].value
        return [_fact("model" if parts[0].type == "MODEL" else "size", token.value, token)]

    def sized_before(self, parts: list[Terminal]) -> list[Fact]:
        """Join "the 120b model of gpt-oss"."""
        return _sized(parts[-1].value, parts[0].value)

    def sized_after(self, parts: list[Terminal]) -> list[Fact]:
        """Join "Llama 2 (70B)"."""
        return _sized(parts[0].value, parts[-1].value)

    def prompt(self, parts: list[Terminal]) -> list[Fact]:
        """Return the tokens of a prompt; not how many prompts there are: "1M prompts"."""
        is_count = parts[0].type == "NUM" and parts[-1].value.text.lower() == "prompts"
        return _numbered("prompts" if is_count else "prompt", parts)

    def samples(self, parts: list[Terminal]) -> list[Fact]:
        """Return the samples of a data set, whose thousands are of ten."""
        return [
            fact._replace(value=fact.value * in_tens(part.value.text))
            for part in parts
            for fact in _numbered("samples", [part])
        ]

    def data(self, parts: list[Terminal]) -> list[Fact]:
        """Return "1B tokens" both ways: as the data of a training, and as the size of a model."""
        token = parts[0].value
        size = parse_size(str(token.value)) or 0
        return [_fact("data", float(size), token), _fact("size", token.value, token)]

    def degree(self, parts: list[Terminal]) -> list[Fact]:
        """Return a degree of parallelism or another whole number of training."""
        return _numbered(parts[0].type.lower(), parts[1:])

    def cache(self, parts: list[Terminal]) -> list[Fact]:
        """Return the number format of the KV cache."""
        formats = [part.value for part in parts if part.type == "FORMAT"]
        return [
            _fact("cache", CACHE_TYPES.get(str(token.value), token.value), token)
            for token in formats
        ]

    def budget(self, parts: list[Terminal]) -> list[Fact]:
        """Return an amount of money, whose thousands are of ten: of an hour where the text says of
        an hour or of a month."""
        kinds = {part.type for part in parts}
        hours = 1 if "HOURLY" in kinds else HOURS_OF_A_MONTH if "MONTHLY" in kinds else None
        return [
            fact._replace(value=fact.value * in_tens(part.value.text) / (hours or 1))
            for part in parts
            for fact in _numbered("budget" if hours else "money", [part])
        ]

    def first_token(self, parts: list[Terminal]) -> list[Fact]:
        """Return the time to a first token [s]."""
        times = [part.value for part in parts if part.type == "DURATION"]
        return [_fact("first_token", token.value, token) for token in times] or _numbered(
            "other", parts
        )


def _fact(kind: str, value: object, token: Token) -> Fact:
    return Fact(kind, value, token.start, token.end, token.sentence)


def _is_memory(counted: Sequence[Any]) -> bool:
    """Return whether a number stands before memory, which it does not count."""
    words = [part.value.text.lower() for part in counted if isinstance(part, Terminal)]
    return len(words) == 2 and words[1] in MEMORY


def _numbered(kind: str, parts: Sequence[Terminal]) -> list[Fact]:
    """Return the fact of a phrase that has a number; none where it has none."""
    numbers = [part.value for part in parts if part.type == "NUM"]
    return [_fact(kind, number.value, number) for number in numbers]


def _shares(kind: str, parts: Sequence[Terminal]) -> list[Fact]:
    """Return a share, of a number above 1 in percent."""
    percent = any(part.type == "PERCENT" for part in parts)
    return [
        fact._replace(value=fact.value / 100 if percent or fact.value > 1 else fact.value)
        for fact in _numbered(kind, parts)
    ]


def _sized(model: Token, size: Token) -> list[Fact]:
    """Join a family and a size; a name that has a size of its own stays apart."""
    name = str(model.value)
    first, last = sorted((model, size), key=lambda token: token.start)
    if any(
        part.rstrip("b").replace(".", "").isdigit() and part.endswith("b") for part in _parts(name)
    ):
        return [
            _fact("size" if token is size else "model", token.value, token)
            for token in (first, last)
        ]
    return [Fact("model", f"{name} {size.value}", first.start, last.end, model.sentence)]


def _parts(name: str) -> list[str]:
    return (
        name.lower().replace("-", " ").replace("_", " ").replace(":", " ").replace("x", " ").split()
    )
