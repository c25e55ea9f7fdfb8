"""The engine's command in a container, in the spelling that the parser of its log reads."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from msgspec import Struct, structs

from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.rope_scaling import OPTION
from fitgauge.engine.serving.start_log.arguments import flags
from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.services.common.launch_fields import launch_fields
from fitgauge.services.manifests.containers import Container, Note, words
from fitgauge.services.manifests.quantities import count_of
from fitgauge.services.manifests.rope_scaling import lengthens, scaling_of
from fitgauge.services.manifests.settings_file import file_words
from fitgauge.services.manifests.yaml_text import Text, text_of

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_VARIABLE = re.compile(
    r"\$\((?P<kubernetes>\w{1,128})\)"
    r"|\$\{(?P<braced>\w{1,128})(?::?[-?](?P<default>[^{}]{0,512}))?\}|\$(?P<plain>[A-Za-z_]\w{0,127})"
)
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_]\w{0,127})=(?P<value>.*)", re.DOTALL)
_ENDS = frozenset({";", "&&", "||", "|", "&"})
_ROUND = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)(?P<unit>[kKmMgGtT])")
_SCALES = {
    "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
}  # fmt: skip
"""Numbers as vLLM reads them: 32k is 32,000 tokens, 32K is 32,768 (utils/argparse_utils.py,
human_readable_int)."""
_RANKS = frozenset({"--node-rank", "--node_rank"})
_MISSPELT = 0.9
"""Similarity from which a flag that is not read may be another, misspelt."""
_LONGEST = 16 * 1024
_ADDED = "VLLM_ADDITIONAL_ARGS"
_TAG = re.compile(r":v?(?P<version>\d+\.\d+(?:\.\d+)?(?:\.post\d+)?)(?![\w.])")
_MODEL_LOADED = re.compile(r"ollama (?:pull|run) (?P<tag>[A-Za-z0-9][\w.:/-]{1,96})")


class Flag(NamedTuple):
    """A word of a command line with its value."""

    name: Text
    """As it is written."""
    text: str
    """As the parser reads it, with its value."""
    value: str | None
    """Its value; None without one."""


class ServerCommand(Struct, frozen=True):
    """What starts a model server."""

    engine: Engine
    """The engine's row."""
    log: StartLog
    """What its parser reads of the command."""
    model: Text | None
    """The model as it is written, a Hub ID or a path."""
    served_name: Text | None
    """The name that its API answers to."""
    flags: tuple[Flag, ...]
    """Every flag."""
    notes: tuple[Note, ...]
    """Flags that are not read, and what others mean."""
    fits_context: bool
    """Whether the engine takes the longest context that fits."""
    release: str | None
    """The release in the image's tag."""
    line: int
    """The line of the program, or of the image that starts it."""


def server_command(container: Container) -> ServerCommand | None:
    """Return the command of a model server; None where the container starts none."""
    every = list(commands(container))
    for row in ENGINES.values():
        for command in every:
            for program in row.container_start.programs if row.container_start else ():
                end = _program_end(command, program)
                if end is not None:
                    own = filter(None, map(_ASSIGNED.fullmatch, command[:end]))
                    named = {one["name"]: text_of(one["value"], 1) for one in own}
                    started = structs.replace(container, environment=container.environment | named)
                    return _read(row, command[end:], started, command[end - 1].line)
    if container.command is not None or container.image is None:
        return None
    for row in ENGINES.values():
        if row.container_start and any(
            part in container.image for part in row.container_start.images
        ):
            arguments = [word for command in every for word in command]
            arguments += _added(container)
            return _read(row, arguments, container, container.image.line)
    return None


def follows(command: ServerCommand) -> bool:
    """Return whether a command starts a further node of a server that another node starts."""
    ranks = (flag.value for flag in command.flags if flag.name in _RANKS)
    return any(count_of(rank) for rank in ranks)


def _added(container: Container) -> list[Text]:
    """Return the arguments that the templates of LLMInferenceService take from a variable
    (kserve/kserve config/llmisvcconfig/config-llm-template.yaml)."""
    return words(container.environment.get(_ADDED)) if container.command is None else []


def commands(container: Container) -> Iterator[list[Text]]:
    """Yield the commands of a container with its variables filled in, those of a shell's script
    one by one."""
    environment: dict[str, str] = {
        "LWS_GROUP_SIZE": str(container.group_size),
        "LWS_WORKER_INDEX": "0",
        **{
            name: _expanded(value, container.environment)
            for name, value in container.environment.items()
        },
    }
    line = [*(container.command or ()), *container.arguments]
    shell = bool(line) and line[0].rsplit("/", 1)[-1] in _SHELLS
    script = next((word for word in line[1:] if not word.startswith("-")), None) if shell else None
    called = script if shell else next(iter(line), None)
    script = container.files.get((called or "").strip(), script)
    if script is None:
        yield [text_of(_expanded(word, environment), word.line) for word in line]
        return
    for command in _script(script):
        named = [_ASSIGNED.fullmatch(word) for word in command if word != "export"]
        if all(named):
            for match in filter(None, named):
                environment[match["name"]] = _expanded(match["value"], environment)
        else:
            yield [text_of(_expanded(word, environment), word.line) for word in command]


def _script(script: Text) -> Iterator[list[Text]]:
    """Yield the commands of a shell's script, each word with its line."""
    command: list[Text] = []
    first = script.line + (1 if "\n" in script and script.in_file else 0)
    for index, line in enumerate(script.splitlines()):
        number = index if script.in_file else 0
        continues = line.rstrip().endswith("\\")
        lexer = shlex.shlex(line.rstrip().rstrip("\\"), posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        try:
            parts = list(lexer)
        except ValueError:
            parts = line.split()
        for part in parts:
            if part in _ENDS:
                yield command
                command = []
            else:
                command.append(text_of(part, first + number))
        if not continues:
            yield command
            command = []
    yield command


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with the variables that are set in it; others stay as they are written."""

    def value(match: re.Match[str]) -> str:
        name = match["kubernetes"] or match["braced"] or match["plain"]
        return environment.get(name) or match["default"] or match[0]

    return _VARIABLE.sub(value, text) if "$" in text else text


def _program_end(command: Sequence[Text], program: tuple[str, ...]) -> int | None:
    """Return the index after the words of a program; None where it is not started."""
    names = [word.rsplit("/", 1)[-1] for word in command]
    for start in range(len(names) - len(program) + 1):
        if tuple(names[start : start + len(program)]) == program:
            return start + len(program)
    return None


def _read(row: Engine, command: Sequence[Text], container: Container, line: int) -> ServerCommand:
    """Return what the parser of the engine's log reads of a command."""
    facts = row.container_start
    assert facts is not None
    flags, positional = _flags(command, facts.spellings)
    flags, outside = _with_settings(row, flags, container.files)
    first = next(iter(positional), None) if facts.names_model_first else None
    values = {_key(flag): flag for flag in flags}
    named = next((values[name] for name in facts.model_flags if name in values), None)
    model = text_of(named.value, named.name.line) if named and named.value else first
    variables = [
        text.format(value)
        for name, text in facts.variables.items()
        if (value := container.environment.get(name)) and text.partition(" ")[0] not in values
    ]
    start = " ".join((*facts.programs[0], *([first] if first and not named else ())))
    fitted = [flag for flag in flags if flag.value in facts.fitted_context.get(_key(flag), ())]
    flags = tuple(flag for flag in flags if flag not in fitted)
    texts = [*variables, *(flag.text for flag in flags)]
    script = [word for one in commands(container) for word in one]
    loaded = _MODEL_LOADED.search(" ".join((*container.hooks, *script)))
    hook = [f"ollama run {loaded['tag']}"] if loaded else []
    log = _parsed(row, [start, *hook, *texts])
    if model is None:
        model = next(
            (
                container.environment[name]
                for name, text in facts.variables.items()
                if text.partition(" ")[0] in facts.model_flags and name in container.environment
            ),
            None,
        )
    served = values.get("--served-model-name")
    notes = (
        *outside,
        *(_fitted_note(row, flag) for flag in fitted),
        *_unread(row, flags, [start, *hook, *variables], log),
    )
    is_own = row.image is not None and row.image.repository in (container.image or "")
    tag = _TAG.search(container.image or "") if is_own else None
    return ServerCommand(
        engine=row,
        log=log,
        model=model,
        served_name=text_of(served.value, served.name.line) if served and served.value else None,
        flags=flags,
        notes=notes,
        fits_context=bool(fitted),
        release=tag["version"] if tag else None,
        line=line,
    )


def _with_settings(
    row: Engine, flags: tuple[Flag, ...], files: Mapping[str, Text]
) -> tuple[tuple[Flag, ...], list[Note]]:
    """Return the flags, with those of the file that one of them names where they are not set
    already, and a note on a file that is not known."""
    facts = row.container_start
    assert facts is not None
    result, notes = list(flags), []
    for flag in flags:
        if _key(flag) not in facts.settings_flags or flag.value is None:
            continue
        result.remove(flag)
        more = file_words(files, flag.value, dotted=facts.dotted_settings)
        if more is None:
            message = f"`{flag.name}`: {flag.value} is not read: what it sets is left out."
            notes.append(Note(flag.name.line, message))
            continue
        named = {_key(one) for one in result}
        result += [one for one in _flags(more, facts.spellings)[0] if _key(one) not in named]
    return tuple(result), notes


def _key(flag: Flag) -> str:
    """Return the flag as the parser reads it, without its value."""
    return flag.text.partition(" ")[0]


def _fitted_note(row: Engine, flag: Flag) -> Note:
    message = f"`{flag.name} {flag.value}`: {row.title} takes the longest context that fits."
    return Note(flag.name.line, message)


def _parsed(row: Engine, texts: Sequence[str]) -> StartLog:
    """Return what the parser of the engine's log reads of these words."""
    assert row.log_parser is not None
    return row.log_parser.read([Line(1, " ".join(texts)[:_LONGEST] + " ")])


def _flags(
    command: Sequence[Text], spellings: Mapping[str, str]
) -> tuple[tuple[Flag, ...], list[Text]]:
    """Return the flags with their values, and the words before the first of them."""
    result: list[Flag] = []
    positional: list[Text] = []
    index = 0
    while index < len(command):
        word = command[index]
        index += 1
        if not _is_flag(word):
            if not result:
                positional.append(word)
            continue
        name, equals, value = word.partition("=" if " " not in word.partition("=")[0] else " ")
        values = [value] if equals else []
        while not equals and index < len(command) and not _is_flag(command[index]):
            values.append(command[index])
            index += 1
        key = name.replace("_", "-")
        key = spellings.get(key, key)
        value = _plain_number(values[0]) if values else ""
        text = f"{key} {value}" if values else key
        result.append(Flag(text_of(name, word.line), text, value if values else None))
    return tuple(result), positional


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit() and len(word) > 1


def _plain_number(value: str) -> str:
    """Return 32k as 32000; any other value as it is."""
    match = _ROUND.fullmatch(value)
    return str(int(float(match["number"]) * _SCALES[match["unit"]])) if match else value


def _unread(
    row: Engine, command_flags: Sequence[Flag], before: Sequence[str], log: StartLog
) -> Iterator[Note]:
    """Yield a note for each flag that may bear on memory and that the estimate leaves out: the
    question is the same without it."""
    facts = row.container_start
    assert facts is not None
    named = {*facts.unrelated_flags, *facts.model_flags, *LORA_FLAGS, facts.host_weights}
    for flag in command_flags:
        name = _key(flag)
        harmless = facts.harmless_values.get(name)
        if (
            name in named
            or scaling_of(facts.positions, name, flag.value) is not None
            or name.replace("--no-", "--", 1) in named
            or (harmless is not None and harmless.search(flag.value or ""))
        ):
            continue
        if "$" in flag.text:
            yield Note(flag.name.line, f"`{flag.name}`: `{flag.value}` is not set here.")
        elif (flag.value or "") not in facts.default_values.get(name, ()):
            others = [one.text for one in command_flags if one is not flag]
            if _asks(_parsed(row, [*before, *others])) == _asks(log):
                yield Note(flag.name.line, _left_out(flag, name, row))


def _left_out(flag: Flag, name: str, row: Engine) -> str:
    """Return that a flag is left out, and why: its value, or a name like one that is read."""
    names = [*(row.log_parser.options if row.log_parser else ()), *LORA_FLAGS]
    if name in names:
        return f"`{flag.name}`: `{flag.value}` cannot be read: the estimate leaves it out."
    near = get_close_matches(name, names, 1, _MISSPELT)
    meant = f" Did you mean `{near[0]}`?" if near else ""
    return f"`{flag.name}` is not read: the estimate leaves it out.{meant}"


def _asks(log: StartLog) -> object:
    """Return what a question takes from a command."""
    return launch_fields(log), log.model


def host_weights_flag(command: ServerCommand) -> Flag | None:
    """Return the flag that keeps weights in host memory that no request says; None without one."""
    facts = command.engine.container_start
    assert facts is not None
    if "override_tensor" not in command.log.flags:
        return None
    return next(flag for flag in command.flags if _key(flag) == facts.host_weights)


LORA_FLAGS = frozenset({"--enable-lora", "--max-loras", "--max-lora-rank"})


def scaling_fields(
    command: ServerCommand, container: Container, version: tuple[int, ...]
) -> tuple[dict[str, float], Note | None]:
    """Return the factor by which the command scales rotary positions as a field of a request, 1
    where the engine takes no longer context for it, and why."""
    start = command.engine.container_start
    if start is None or OPTION not in command.engine.options:
        return {}, None
    for flag in command.flags:
        scaling = scaling_of(start.positions, _key(flag), flag.value)
        if scaling is None:
            continue
        if lengthens(start.positions, scaling, version, container.environment):
            fields = {OPTION: scaling.factor}
            if scaling.positions and command.engine.default_context_is_maximum:
                fields["context_length"] = scaling.positions
            return fields, None
        message = (
            f"`{flag.name}` does not lengthen the context: set `max_position_embeddings` there too,"
            f" or {start.positions.any_length}=1."
        )
        return {OPTION: 1}, Note(flag.name.line, message)
    return {}, None


def lora_fields(command: ServerCommand) -> dict[str, int]:
    """Return the slots and the rank of LoRA adapters as fields of a request."""
    texts = " ".join(flag.text for flag in command.flags)
    if "lora_slots" not in command.engine.options or "--enable-lora" not in texts:
        return {}
    named = flags(texts, {"lora_slots": ("max_loras", int), "lora_rank": ("max_lora_rank", int)})
    return {"lora_slots": 1} | {name: int(value) for name, value in named.items()}
