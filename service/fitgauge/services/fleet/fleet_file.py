"""A fleet's file, TOML or YAML, read entry by entry: one that is wrong is a fault with its line,
and the others are answered."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec

from fitgauge.errors import ErrorCode, InvalidRequestError
from fitgauge.services.common import parsing
from fitgauge.services.fleet.schemas import (
    MOST_GPUS,
    MOST_LOADS,
    MOST_MODELS,
    MOST_ROWS,
    Fault,
    Fleet,
    GpuEntry,
    LoadEntry,
    ModelEntry,
)
from fitgauge.services.manifests.yaml_text import (
    Block,
    Items,
    Node,
    Text,
    UnreadableYamlError,
    documents,
)

LONGEST = 1024 * 1024
"""Characters of a file."""

_Entry = ModelEntry | GpuEntry | LoadEntry

_SECTIONS: dict[str, tuple[type[_Entry], str, int]] = {
    "models": (ModelEntry, "model", MOST_MODELS),
    "gpus": (GpuEntry, "gpu", MOST_GPUS),
    "loads": (LoadEntry, "name", MOST_LOADS),
}
"""By section: what an entry is, the field that a bare text stands for, and how many there may be.
"""

_SETTINGS = ("engine", "engine_version", "settings")
_VALUES = {
    "concurrency": "a whole number from 1 to 1,000,000",
    "context_length": "a whole number of tokens, such as 32768 or 32k",
    "count": "a whole number from 1",
    "gpus": "a list of names of GPUs of this file",
    "loads": "a list of names of loads of this file",
    "per_machine": "a whole number from 1 to 1,024",
    "replicas": "a whole number from 1 to 10,000",
    "settings": "auto or defaults",
    "usd_per_hour": "a price of one GPU in dollars an hour, such as 2.5",
}
"""What a key takes; every other takes a text of up to 200 characters."""

_THOUSANDS = re.compile(r"(\d{1,6}) ?[kK]")
"""Tokens as people write them: 32k is 32,768."""
_HEADER = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_-]+)\s*\]\]?\s*(?:#|$)")
_KEY = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*=""")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_MISSING = re.compile(r"missing required field `([^`]*)`")
_AT = re.compile(r"at `\$\.([A-Za-z_]+)")


class _Keys(NamedTuple):
    """A mapping of the file."""

    values: Mapping[str, Any]
    """Its values by key."""
    lines: Mapping[str, int]
    """The lines of its keys."""
    line: int
    """Its own line."""

    def line_of(self, key: str | None) -> int:
        """Return the line of a key, else its own."""
        return self.lines.get(key or "", self.line)


def read_fleet(text: str, *, is_yaml: bool = False) -> Fleet:
    """Return the fleet of a file. Raises InvalidRequestError where it cannot be read, and where it
    has no models, no GPUs or too many."""
    if len(text) > LONGEST:
        raise _unreadable(f"The file is longer than {LONGEST:,} characters.", "question-too-large")
    whole, sections = _yaml(text) if is_yaml else _toml(text)
    faults = list(_unknown_keys(whole))
    lines: dict[str, dict[str, int]] = {}
    entries: dict[str, list[Any]] = {}
    for section, (kind, _, most) in _SECTIONS.items():
        rows = sections[section]
        if len(rows) > most:
            raise _unreadable(f"{len(rows)} {section} are too many: the limit is {most:,}.")
        lines[section] = {}
        entries[section] = list(_entries(rows, kind, lines[section], faults))
    for section in ("models", "gpus"):
        if not entries[section]:
            why = "".join(f" Line {fault.line}: {fault.message}" for fault in faults[:1])
            raise _unreadable(f"The file has no {section}.{why}", "missing-field")
    loads = entries["loads"] or [LoadEntry(name="default")]
    written = {
        section: {str(row.values.get(key)) for row in sections[section] for key in ("name", main)}
        for section, (_, main, _) in _SECTIONS.items()
    }
    models = list(
        _with_known_names(entries["models"], entries["gpus"], loads, lines, written, faults)
    )
    total = sum(len(one.gpus or lines["gpus"]) * len(one.loads or loads) for one in models)
    if total > MOST_ROWS:
        message = f"The fleet has {total:,} rows: the limit is {MOST_ROWS:,}."
        raise _unreadable(message, "too-many-cells")
    settings = _settings(whole, faults)
    return Fleet(
        models=models,
        gpus=entries["gpus"],
        loads=loads,
        faults=sorted(faults, key=lambda fault: fault.line),
        lines=lines,
        **settings,
    )


def _unreadable(message: str, code: ErrorCode = "invalid-value") -> InvalidRequestError:
    return InvalidRequestError(
        message, hint="Write [[models]], [[gpus]] and [[loads]] as docs/FLEET.md shows.", code=code
    )


def _toml(text: str) -> tuple[_Keys, dict[str, list[_Keys]]]:
    """Return the keys of the file and the entries of its sections. Raises InvalidRequestError."""
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: of numbers, too
        raise _unreadable(f"The file is no TOML: {error}.") from None
    whole: dict[str, int] = {}
    headers: dict[str, list[tuple[int, dict[str, int]]]] = {}
    keys = whole
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.match(line):
            keys = {}
            headers.setdefault(match[1], []).append((number, keys))
            whole.setdefault(match[1], number)
        elif match := _KEY.match(line):
            keys.setdefault(match[1], number)
    sections = {}
    for section, (_, main, _) in _SECTIONS.items():
        rows = values.get(section, [])
        rows = rows if isinstance(rows, list) else [rows]
        places = headers.get(section, [])
        if len(places) == len(rows):
            sections[section] = [
                _Keys(_named(row, main), lines, number)
                for row, (number, lines) in zip(rows, places, strict=True)
            ]
        else:
            first = whole.get(section, 1)
            sections[section] = [
                _Keys(_named(row, main), {}, _line_of(text, row, main, first)) for row in rows
            ]
    return _Keys(values, whole, 1), sections


def _line_of(text: str, row: object, main: str, first: int) -> int:
    """Return the line from `first` on that holds the name of an inline entry."""
    name = row.get(main) if isinstance(row, dict) else row
    lines = text.splitlines()
    return next(
        (
            number
            for number, line in enumerate(lines[first - 1 :], first)
            if f'"{name}"' in line or f"'{name}'" in line
        ),
        first,
    )


def _yaml(text: str) -> tuple[_Keys, dict[str, list[_Keys]]]:
    """Return the keys of the file and the entries of its sections. Raises InvalidRequestError."""
    try:
        roots = documents(text)
    except UnreadableYamlError as error:
        raise _unreadable(f"The file is no YAML, line {error.line}: {error}.") from None
    root = next((one for one in roots if isinstance(one, Block)), Block())
    sections = {}
    for section, (_, main, _) in _SECTIONS.items():
        rows = root.get(section)
        sections[section] = [
            _Keys(_named(_plain(row), main), _lines(row), getattr(row, "line", 1))
            for row in (rows if isinstance(rows, Items) else [] if rows is None else [rows])
        ]
    return _Keys({name: _plain(value) for name, value in root.items()}, _lines(root), 1), sections


def _plain(node: Node) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return a node without its lines."""
    match node:
        case Text():
            return str(node)
        case Block():
            return {str(key): _plain(value) for key, value in node.items()}
        case Items():
            return [_plain(value) for value in node]
    return None


def _lines(node: Node) -> dict[str, int]:
    """Return the lines of the values of a mapping."""
    if not isinstance(node, Block):
        return {}
    return {str(key): value.line if value is not None else node.line for key, value in node.items()}


def _named(row: object, main: str) -> dict[str, Any]:
    """Return an entry; a bare text is its name."""
    return row if isinstance(row, dict) else {main: row}


def _unknown_keys(whole: _Keys) -> Iterator[Fault]:
    for key in whole.values:
        if key not in (*_SECTIONS, *_SETTINGS):
            yield _unknown_key(key, (*_SETTINGS, *_SECTIONS), whole.line_of(key))


def _unknown_key(key: str, keys: Sequence[str], line: int) -> Fault:
    return Fault(
        line=line,
        code="unknown-value",
        message=f"Unknown key {key[:40]!r}. Use {', '.join(keys)}.",
        matches=get_close_matches(key, keys, n=3),
    )


def _entries(
    rows: Sequence[_Keys], kind: type[_Entry], lines: dict[str, int], faults: list[Fault]
) -> Iterator[_Entry]:
    """Yield the entries of a section that can be read, each title once, and note the lines."""
    for row in rows:
        values = dict(row.values)
        if match := _THOUSANDS.fullmatch(str(values.get("context_length"))):
            values["context_length"] = 1024 * int(match[1])
        try:
            entry = msgspec.convert(values, kind, strict=False)
        except msgspec.ValidationError as error:
            faults.append(_fault(row, kind, str(error)))
            continue
        title = entry.name if isinstance(entry, LoadEntry) else entry.title
        if title in lines:
            message = f"{title[:80]!r} is on line {lines[title]} too: give one of them a `name`."
            faults.append(Fault(line=row.line, code="conflicting-fields", message=message))
            continue
        lines[title] = row.line
        yield entry


def _fault(row: _Keys, kind: type[_Entry], message: str) -> Fault:
    """Return why an entry cannot be read."""
    if match := _UNKNOWN.search(message):
        return _unknown_key(match[1], kind.__struct_fields__, row.line_of(match[1]))
    if match := _MISSING.search(message):
        return Fault(line=row.line, code="missing-field", message=f"The entry has no `{match[1]}`.")
    match = _AT.search(message)
    key = match[1] if match else None
    takes = _VALUES.get(key or "", "a text of up to 200 characters")
    return Fault(
        line=row.line_of(key), code="invalid-value", message=f"`{key or 'entry'}` takes {takes}."
    )


def _with_known_names(
    models: Sequence[ModelEntry],
    gpus: Sequence[GpuEntry],
    loads: Sequence[LoadEntry],
    lines: Mapping[str, Mapping[str, int]],
    written: Mapping[str, Collection[str]],
    faults: list[Fault],
) -> Iterator[ModelEntry]:
    """Yield the models whose GPUs and loads are in the file. written: names of all its entries,
    those that cannot be read among them."""
    titles = {"gpus": [one.title for one in gpus], "loads": [one.name for one in loads]}
    for model in models:
        unknown = [
            (section, name)
            for section, names in titles.items()
            for name in getattr(model, section) or ()
            if name not in names
        ]
        for section, name in unknown:
            existing = titles[section]
            unread = name in written[section]
            why = (
                f"{section} {name[:80]!r} cannot be read"
                if unread
                else (f"the file has no {section} {name[:80]!r}")
            )
            fault = Fault(
                line=lines["models"][model.title],
                code="unknown-value",
                message=f"{model.title[:80]!r}: {why}.",
                matches=[] if unread else get_close_matches(name, existing, n=3) or existing[:5],
            )
            faults.append(fault)
        if not unknown:
            yield model


def _settings(whole: _Keys, faults: list[Fault]) -> dict[str, Any]:
    """Return the settings of the whole fleet; one that is wrong is a fault, and left out."""
    values: dict[str, Any] = {}
    for key in _SETTINGS:
        value = whole.values.get(key)
        if value is None:
            continue
        try:
            values[key] = _setting(key, value)
        except InvalidRequestError as error:
            message = f"{error.detail} {error.hint}"
            fault = Fault(line=whole.line_of(key), code=error.code, message=message)
            faults.append(fault)
    return values


def _setting(key: str, value: object) -> str:
    """Return a setting as it is used. Raises InvalidRequestError."""
    if key == "settings" and value not in ("auto", "defaults"):
        raise InvalidRequestError(
            f"`settings` takes {_VALUES[key]}.", hint="Leave it out for auto.", code="invalid-value"
        )
    text = str(value)
    if key == "engine":
        return parsing.engine(text)
    if key == "engine_version":
        parsing.version(text)
    return text
