"""Parse a catalog overlay file, strictly: one invalid row rejects the file, and the error names
it."""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import PurePath
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import Bytes
from fitgauge.errors import InvalidCatalogError
from fitgauge.field_docs import doc
from fitgauge.refused_values import in_words

SUFFIXES = (".toml", ".json")

LARGEST = 2**20
"""Bytes of all files together: as much as a ConfigMap holds."""

_MOST_ROWS = 2000

_ALIKE = 70
"""Similarity in percent from which an unknown field may mean another."""

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Count = Annotated[int, Meta(ge=1, le=4096)]
Dollars = Annotated[float, Meta(ge=0, le=1e6)]


def _own_accelerator() -> type[Struct]:
    """Return the type of an accelerator's row: an id and any fields of Accelerator."""
    fields = [field for field in msgspec.structs.fields(Accelerator) if field.name != "id"]
    kinds: dict[str, Any] = {field.name: field.type for field in fields} | {"usable": Bytes | int}
    row_id = Annotated[
        str,
        doc(
            "A bundled id changes that GPU; any other adds one.",
            pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$",
        ),
    ]
    return msgspec.defstruct(
        "OwnAccelerator",
        [("id", row_id), *((name, kind | UnsetType, UNSET) for name, kind in kinds.items())],
        kw_only=True,
        forbid_unknown_fields=True,
        namespace={
            "__doc__": (
                "A new GPU, or the fields to change of a bundled one. `usable`: bytes, or an"
                " interval of them."
            )
        },
    )


OwnAccelerator = _own_accelerator()


class OverlayInstance(Struct, kw_only=True, forbid_unknown_fields=True):
    """A machine of a cloud. It replaces a bundled one of the same cloud and name."""

    cloud: Annotated[Name, doc("The cloud, such as own or aws.")]
    instance: Annotated[Name, doc("The cloud's name of the machine.")]
    accelerator: Annotated[Name, doc("An unambiguous name of one GPU of the catalog.")]
    count: Annotated[Count, doc("GPUs in the machine.")]
    vcpus: Annotated[Annotated[int, Meta(ge=1, le=65536)] | None, doc("Its virtual CPUs.")] = None
    memory_gib: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None, doc("Memory of the host [GiB].")
    ] = None
    usd_per_hour: Annotated[Dollars | None, doc("Of the whole instance.")] = None


Names = dict[Name, Name]
Prices = dict[Name, Dollars]
Quotas = dict[Name, Annotated[int, Meta(ge=0, le=10**6)]]
_SECTIONS: dict[str, Any] = {
    "accelerators": OwnAccelerator, "names": Names, "prices": Prices, "quotas": Quotas,
    "instances": OverlayInstance,
}  # fmt: skip
_FEW = Meta(max_length=_MOST_ROWS)


class OverlayFile(Struct, kw_only=True, forbid_unknown_fields=True):
    """A company's own catalog, which adds to the bundled one and overrides it."""

    only: Annotated[bool, doc("Hide bundled accelerators without a row here.")] = False
    as_of: Annotated[date | None, doc("The date of the prices.")] = None
    accelerators: Annotated[
        list[OwnAccelerator],  # type: ignore[valid-type]
        _FEW,
        doc("New GPUs, and changes of bundled ones."),
    ] = []
    names: Annotated[
        Names, _FEW, doc("Names, each with the GPU, or count and GPU, it stands for.")
    ] = {}
    prices: Annotated[
        Prices, _FEW, doc("USD per hour of one GPU; replaces the clouds' prices of it.")
    ] = {}
    quotas: Annotated[Quotas, _FEW, doc("Maximum GPUs of a kind in use at once.")] = {}
    instances: Annotated[list[OverlayInstance], _FEW, doc("Machines, each with its GPUs.")] = []


_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<field>[^`]*)`)?$", re.DOTALL)
_NAMED = re.compile(r"(?:missing required|contains unknown) field `(?P<field>[^`]*)`")


def parse(file: str, raw: bytes) -> OverlayFile:
    """Return the contents of one file. Raise InvalidCatalogError, which names file, row and
    field."""
    text, contents = _decoded(file, raw)
    try:
        return msgspec.convert(contents, OverlayFile)
    except msgspec.ValidationError as error:
        raise _refusal(file, text, contents, error) from None


def refused(
    file: str, row: str, what: str, hint: str = "", matches: tuple[str, ...] = ()
) -> InvalidCatalogError:
    """Return the error of one row."""
    return InvalidCatalogError(
        ": ".join(filter(None, (file, row, what))),
        hint=hint or _HINT,
        matches=matches,
        field=row or None,
    )


def place(section: str, number: int, name: object) -> str:
    """How a row of a list is called in an error: its number from 1, and its name."""
    return (
        f"{section}, row {number} ({name})" if isinstance(name, str) else f"{section}, row {number}"
    )


def schema() -> dict[str, Any]:
    """Return the JSON schema of such a file."""
    schema = msgspec.json.schema(OverlayFile)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Catalog overlay for Fitgauge",
        **schema,
    }


_HINT = "`fitgauge catalog check FILE` validates a file; docs/own-catalog.md documents it."


def _decoded(file: str, raw: bytes) -> tuple[str, dict[str, Any]]:
    if len(raw) > LARGEST:
        raise refused(file, "", f"more than {LARGEST} bytes.")
    try:
        text = raw.decode()
        if PurePath(file).suffix == ".toml":
            contents = tomllib.loads(text)
        else:
            contents = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise refused(file, "", "nested too deeply.") from None
    except ValueError as error:  # of either parser, and of text that is no UTF-8
        raise refused(file, "", f"{error}.") from None
    if not isinstance(contents, dict):
        raise refused(file, "", "the top level is not an object.")
    return text, contents


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse repeated keys, as TOML does."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is repeated in one object")
    return dict(pairs)


def _refusal(
    file: str, text: str, contents: dict[str, Any], error: msgspec.ValidationError
) -> InvalidCatalogError:
    """Return the error of the first invalid row: msgspec does not name the keys of a table."""
    for section, kind in _SECTIONS.items():
        entries = contents.get(section)
        rows: list[tuple[str, object, object]] = []
        if isinstance(entries, list):
            rows = [
                (place(section, number, _name(row)), _name(row), row)
                for number, row in enumerate(entries, 1)
            ]
        elif isinstance(entries, dict):
            rows = [
                (f"{section}, {key[:80]!r}", key, {key: value}) for key, value in entries.items()
            ]
        for row, name, value in rows:
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError as wrong:
                what, key = _words(wrong, kind if isinstance(entries, list) else None)
                return refused(f"{file}{_line(text, key, name)}", row, what)
    what, key = _words(error, OverlayFile)
    return refused(f"{file}{_line(text, key, None)}", "", what)


def _name(row: object) -> object:
    return row.get("id", row.get("instance")) if isinstance(row, dict) else None


def _words(error: msgspec.ValidationError, kind: type[Struct] | None) -> tuple[str, str]:
    """Return what is wrong in words, "`count` must be a whole number, not text.", and the key at
    fault. kind: the row, whose fields an unknown one may mean."""
    match = _AT.match(str(error))
    assert match is not None
    named = _NAMED.search(match["what"])
    if named is None:
        field = (match["field"] or "").replace("[...]", "")
        what = in_words(match["what"], f"`{field}`" if field else "it")
        return f"{f'`{field}`: ' if field and what == match['what'] else ''}{what}.", field
    if "missing" in named[0]:
        return f"`{named['field']}` is missing.", ""
    return f"unknown field `{named['field']}`.{_meant(named['field'], kind)}", named["field"]


def _meant(field: str, kind: type[Struct] | None) -> str:
    """Return which field of a row an unknown one may mean; empty for none."""
    from rapidfuzz import fuzz, process  # of names that are not there alone

    fields = [one.name for one in msgspec.structs.fields(kind)] if kind else []
    near = process.extractOne(field.lower(), fields, scorer=fuzz.ratio, score_cutoff=_ALIKE)
    return f" Did you mean `{near[0]}`?" if near else ""


def _line(text: str, key: str, name: object) -> str:
    """Return ", line 4" of a key of the row of a name, else of the name; empty where neither is
    found."""
    lines = [line.partition("#")[0] for line in text.splitlines()]
    named = next(_with(str(name), lines, 0), 0) if name else 0
    number = next(_with(key, lines, named - 1), named) if key else named
    return f", line {number}" if number else ""


def _with(word: str, lines: Sequence[str], start: int) -> Iterator[int]:
    """Yield the numbers of the lines that hold a word, from an index on."""
    pattern = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-])")
    for index, line in enumerate(lines):
        if index >= start and pattern.search(line):
            yield index + 1
