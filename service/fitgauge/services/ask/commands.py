"""The command of a model server that a question holds, read as those of manifests are."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.services.ask.meant import engine_of_flags
from fitgauge.services.ask.schemas import Understood
from fitgauge.services.ask.vocabulary import NOISE, SERVING
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.launch_fields import launch_fields
from fitgauge.services.common.reading_schemas import Verdict
from fitgauge.services.manifests.command_line import (
    LORA_FLAGS,
    host_weights_flag,
    lora_fields,
    server_command,
)
from fitgauge.services.manifests.containers import Container, Note
from fitgauge.services.manifests.questions import MissingModelError, model_fields
from fitgauge.services.manifests.yaml_text import Block, text_of

_WORD = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s"'`])+|`|\n\s*""")
_FLAG_BEGINS = re.compile(r"(?://)?--?[A-Za-z]")
_FLAG = re.compile(r"(?://)?(-{1,2}[A-Za-z][\w.-]*)(=.*)?", re.DOTALL)
_PROSE = re.compile(r"[a-z]+[,.;:?!]?|[^\x00-\x7f].*|.*[,;?!]|\(.*|\d+[x*×]\S*")
"""What is no value of a flag: a word of a sentence, a count of GPUs."""
_VALUE = re.compile(r"[a-z]+")
_LISTED_NUMBER = re.compile(r"((?:[a-z]+\d\w*|\d+(?:\.\d+)*k?))[,;.]$")
"""A value with the comma of the sentence around the command."""
_NO_VALUES = NOISE | frozenset(SERVING) | {"on", "and", "with", "in", "but", "for", "it", "i", "so"}
_SWITCHES = frozenset({"on", "off", "auto"})
"""Values of flags, where another flag follows: "-fa on -c 8192"."""
_RELEASE = re.compile(r":v?(\d{1,2}(?:\.\d{1,3}){1,3})$")
"""The release in the tag of an engine's image."""
_FLAG_ALONE = re.compile(
    r"(?<![\w-])(?P<flag>--[a-z][a-z-_]+[a-z])(?![\w-])"
    r"(?:(?:\s*=\s*|\s+)(?P<value>\d[\w.]*\w|\d|[a-z]+\d\w*|awq|gptq|auto)(?![\w-]))?",
    re.IGNORECASE,
)
_SWITCH = re.compile(r"enable|enforce|disable|-only$|cpu-moe$")
"""In the name of a flag that has no value."""
_CONTINUED = re.compile(r"\\[ \t]*\n")
_MOST_FLAGS = 64
_AT_START = r"(?<![\w.~/-])"
"""Where a path or an image begins: tried at each of its characters, a long one would take the
square of its length."""
_PATH = _AT_START + r"(?:python3?\s+-m\s+)?(?:[\w.~-]*/)*"
_MODEL = re.compile(r"[\"']?[\w.$~{}-]*[/-].*", re.DOTALL)
"""What names a model behind a program: a sentence goes on with words."""


class Pasted(NamedTuple):
    """A command within a question."""

    fields: dict[str, Any]
    """What it asks, as fields of a request; `model` is missing where it names none."""
    spans: tuple[tuple[int, int], ...]
    """Where its parts begin and end in the text."""
    notes: tuple[str, ...]
    """What of it is not read."""
    text: str = ""
    """As it is written; empty of flags without their program."""

    @property
    def takes_whole_context(self) -> bool:
        """Return whether the engine makes room for the model's whole context, as vLLM does where a
        command says none."""
        row = ENGINES.get(self.fields.get("engine", ""))
        is_started = bool(self.text) and "context_length" not in self.fields
        return is_started and row is not None and row.default_context_is_maximum

    def blanked(self, text: str) -> str:
        """Return the text of the question with blanks in its place."""
        for start, end in self.spans:
            text = text[:start] + " " * (end - start) + text[end:]
        return text

    def settings(self) -> dict[str, object]:
        """Return its settings as a reading holds them."""
        return as_read({name: value for name, value in self.fields.items() if name != "model"})


def as_read(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings as a reading holds them: those that no word of a question says under
    `flags`."""
    fields = set(Understood.__struct_fields__)
    flags = {name: value for name, value in settings.items() if name not in fields}
    named = {name: value for name, value in settings.items() if name in fields}
    return named | ({"flags": flags} if flags else {})


def pasted_command(text: str) -> Pasted | None:
    """Return the first command of a model server in a text; None where there is none."""
    text = _CONTINUED.sub(lambda one: " " * len(one[0]), text)
    for match in _programs().finditer(text):
        row = ENGINES[_engine_of(match)]
        words, end = _arguments(text, match.end(), row)
        if words:
            read = _read(row, words, [(match.start(), end)])
            if read is not None and (tag := _RELEASE.search(match[0])) is not None:
                read = read._replace(fields={"engine_version": tag[1], **read.fields})
            return read and read._replace(text=text[match.start() : end])
    return None


def as_started(answer: FitAnswer) -> str:
    """Return that a command does not fit with the settings that it leaves to the engine, where it
    does with others, as a sentence with a space behind it; else nothing."""
    defaults = answer.defaults
    if defaults is None or defaults.verdict in ("fits", answer.verdict):
        return ""
    return f"As started it {how_it_is(defaults.verdict)}. "


def how_it_is(verdict: Verdict | None) -> str:
    """Return a verdict that is not "fits" as it stands in a sentence."""
    return "is tight" if verdict == "tight" else "does not fit"


def flags_alone(text: str) -> Pasted | None:
    """Return the flags of a model server that a text names without its program, as those of the
    engine that it names or that alone has one of them: "with --enable-lora --max-loras 8". A flag
    that is asked for has no value, and is none of them."""
    low = text.lower()
    if "--" not in text:
        return None
    named = (name for name in ENGINES if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", low))
    owner = engine_of_flags(text) or next(named, None)
    row = ENGINES[owner or DEFAULT_ENGINES[0]]
    options = _options(row.name)
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _FLAG_ALONE.finditer(text):
        value = match["value"]
        if match["flag"].replace("_", "-") in options and (value or _SWITCH.search(match["flag"])):
            words += [match["flag"], *([value] if value else [])]
            spans.append(match.span())
    read = _read(row, words, spans) if words else None
    if read is not None and owner is None:
        del read.fields["engine"]
    return read


@cache
def _options(name: str) -> frozenset[str]:
    row = ENGINES[name]
    if row.log_parser is None or (facts := row.container_start) is None:
        return frozenset()
    adapters = LORA_FLAGS if "lora_slots" in row.options else ()
    return frozenset({*row.log_parser.options, *facts.spellings, *adapters})


def _read(row: Engine, words: Sequence[str], spans: Sequence[tuple[int, int]]) -> Pasted | None:
    """Return what the arguments of an engine's program ask."""
    assert row.container_start is not None
    command = [text_of(word, 1) for word in (*row.container_start.programs[0], *words)]
    container = Container(name="", line=1, command=command, resources=Block(), pod=Block())
    read = server_command(container)
    if read is None:
        return None
    notes: list[Note] = []
    fields = launch_fields(read.log) | lora_fields(read)
    try:
        fields |= model_fields(container, read, notes)
    except MissingModelError:
        fields.pop("model", None)
    method = fields.get("quantization")
    fields["quantization"] = row.container_start.quantizations.get(str(method), method)
    offloading = host_weights_flag(read)
    unread = dict.fromkeys(note.message for note in read.notes)
    if offloading is not None:
        unread[f"`{offloading.name}` is not read: the estimate leaves it out."] = None
    plain = {name: _plain(value) for name, value in fields.items() if value is not None}
    return Pasted(plain | {"engine": row.name}, tuple(spans), tuple(unread))


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


@cache
def _programs() -> re.Pattern[str]:
    """Return what matches the start of a model server: its program, or its image before flags. The
    whole of an image's name is taken or nothing: what lies in it may be there many times."""
    starts: dict[str, str] = {}
    for name, row in ENGINES.items():
        facts = row.container_start
        if facts is None or row.log_parser is None:
            continue
        programs = sorted(facts.programs, key=len, reverse=True)
        called = "|".join(r"\s+".join(map(re.escape, program)) for program in programs)
        images = "|".join(map(re.escape, facts.images))
        image = rf"(?>[\w./-]*(?:{images}))[\w./-]*+(?::[\w.-]++)?+"
        image += r"(?=\s+(?:serve\s|-))"
        or_image = f"|{_AT_START}{image}" if images else ""
        starts[name] = rf"(?:{_PATH}(?:{called})(?![\w.-]){or_image})"
    names = {name: f"e{index}" for index, name in enumerate(ENGINES)}
    return re.compile("|".join(f"(?P<{names[name]}>{text})" for name, text in starts.items()))


def _engine_of(match: re.Match[str]) -> str:
    return list(ENGINES)[int(str(match.lastgroup)[1:])]


def _arguments(text: str, start: int, row: Engine) -> tuple[list[str], int]:
    """Return the words of a command behind its program, and where the last of them ends."""
    facts = row.container_start
    assert facts is not None
    words: list[str] = []
    end, nothing = start, ("", start)
    tokens = _tokens(text, start)
    word, stop = next(tokens, nothing)
    if facts.names_model_first and _MODEL.fullmatch(word) and not _FLAG.fullmatch(word):
        words.append(_unquoted(word))
        end, (word, stop) = stop, next(tokens, nothing)
    while len(words) < _MOST_FLAGS and (match := _FLAG.fullmatch(word)):
        words.append(match[1] + _unquoted(match[2] or ""))
        end, (word, stop) = stop, next(tokens, nothing)
        word = _LISTED_NUMBER.sub(r"\1", word)
        is_switch = word in _SWITCHES and _FLAG.match(text[stop:].lstrip()) is not None
        if word and not match[2] and (is_switch or _is_value(word)):
            words.append(_unquoted(word))
            end, (word, stop) = stop, next(tokens, nothing)
    return words, end


def _tokens(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield the words behind a place, each with its end, to the end of the command: a backtick, or
    a line that the next one does not go on with flags."""
    for match in _WORD.finditer(text, start):
        if match[0] == "`" or match[0] in ("\\", ";", "|", "&&", "||"):
            return
        if match[0][0] == "\n":
            if not _FLAG_BEGINS.match(text, match.end()):
                return
            continue
        yield match[0], match.end()


def _is_value(word: str) -> bool:
    """Return whether a word behind a flag is its value, and no word of a sentence."""
    if _FLAG.fullmatch(word):
        return False
    if _VALUE.fullmatch(word):
        return word not in _NO_VALUES
    return _PROSE.fullmatch(word) is None


def _unquoted(word: str) -> str:
    equals = word[:1] if word[:1] == "=" else ""
    bare = word[len(equals) :]
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'":
        bare = bare[1:-1]
    return equals + bare
