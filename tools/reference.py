"""Write docs/api.md, docs/command.md and docs/variables.md from the OpenAPI
document, the command's own options and the settings."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import msgspec

from fitgauge import settings
from fitgauge.api.openapi import document
from fitgauge.cli import main
from fitgauge.settings import Settings, variable

DOCS = Path(__file__).parents[1] / "docs"

_API = """# API

Questions and answers are JSON. The whole contract, with the schemas of answers, is what a service
has at `/schema/openapi.json`. Only fields marked with * are needed. Errors are
`application/problem+json`: `code` ([all of them](CODES.md)), `detail`, and a `hint` that says what
to send.

Written by `make formulas` from the OpenAPI document.

"""

_COMMAND = """# Command

`fitgauge COMMAND --help` prints the same. `--json` prints the API's own answer.

Written by `make formulas` from the command's own options.

"""

_VARIABLES = """# Environment variables

They are those of `fitgauge serve`; the other commands follow those of the Hub and
`FITGAUGE_CATALOG`. `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE` and `HF_HOME` mean what they mean
to huggingface_hub; answers of the Hub are stored in `$HF_HOME/fitgauge`. Wrong values end
`fitgauge serve` with exit code 2 and a line for each; `fitgauge config` prints every setting, its
value and where it comes from.

Written by `make formulas` from `service/fitgauge/settings.py`.

| Variable | Default | Value | Meaning |
|---|---|---|---|
"""


def pages() -> dict[str, str]:
    """Return every page by its file's name."""
    return {"api.md": api_page(), "command.md": command_page(), "variables.md": variables_page()}


def api_page() -> str:
    """Return the page of the operations."""
    contract = document("/")
    return _API + "\n".join(
        "\n".join(_operation(f"{method.upper()} {path}", operation, contract))
        for path, methods in contract["paths"].items()
        for method, operation in methods.items()
    )


def _operation(
    name: str, operation: Mapping[str, Any], contract: Mapping[str, Any]
) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"**{operation['summary']}** {operation['description']}\n"
    rows = [
        (one["name"], one["schema"], one.get("required"), one.get("description", ""))
        for one in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        schema = contract["components"]["schemas"][_named(body["schema"])]
        rows += [
            (field, kind, field in schema.get("required", ()), kind.get("description", ""))
            for field, kind in schema["properties"].items()
        ]
    if rows:
        yield "| Field | Type | Meaning |\n|---|---|---|"
        for field, kind, required, meaning in rows:
            yield f"| `{field}`{' *' if required else ''} | {_type(kind)} | {_cell(meaning)} |"
        yield ""


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a field in words."""
    if "$ref" in schema:
        return f"`{_named(schema)}`"
    if "anyOf" in schema:
        kinds = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(map(_type, kinds)))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    kinds = schema.get("type", "any")
    names = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
    if names == ["array"] and "items" in schema:
        return f"list of {_type(schema['items'])}"
    return " or ".join(names)


def _named(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def command_page() -> str:
    """Return the page of the commands."""
    return _COMMAND + "\n".join(
        "\n".join(_command(path, command)) for path, command in _commands("fitgauge", main)
    )


def _commands(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def _command(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"## {path}\n"
    yield f"    {' '.join([path, *command.collect_usage_pieces(context)])}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    options = [one for one in command.params if isinstance(one, click.Option)]
    operation, fields = _fields_of(options)
    if fields:
        anchor = re.sub(r"[^\w -]", "", operation.lower()).replace(" ", "-")
        yield (
            f"Every field of [`{operation}`](api.md#{anchor}) is an option:"
            f" `{fields[0].name}` is `{fields[0].opts[0]}`.\n"
        )
    own = [one for one in options if one not in fields]
    if own:
        yield "| Option | Meaning |\n|---|---|"
        for one in own:
            flags = ", ".join([*one.opts, *one.secondary_opts])
            value = "" if one.is_flag else f" {_cell(one.make_metavar(context))}"
            yield f"| `{flags}{value}` | {_cell(one.help or '')} |"
        yield ""


def _fields_of(options: list[click.Option]) -> tuple[str, list[click.Option]]:
    """Return the operation whose request's fields most of the options are, and these options."""
    contract = document("/")
    best: tuple[str, list[click.Option]] = ("", [])
    for path, methods in contract["paths"].items():
        body = methods.get("post", {}).get("requestBody", {}).get("content", {})
        if "application/json" not in body:
            continue
        schema = contract["components"]["schemas"][_named(body["application/json"]["schema"])]
        meanings = {name: kind.get("description") for name, kind in schema["properties"].items()}
        fields = [one for one in options if one.help and one.help == meanings.get(one.name or "")]
        if len(fields) > len(best[1]):
            best = f"POST {path}", fields
    return best


def variables_page() -> str:
    """Return the page of the settings."""
    meanings = _documented(Settings)
    rows = []
    for field in msgspec.structs.fields(Settings):
        default = field.default
        text = f"{default:g}" if isinstance(default, float) else str(default)
        shown = f"`{text.lower() if isinstance(default, bool) else text}`" if text else "none"
        wanted = _cell(str(field.type.__metadata__[0].description))
        meaning = re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", _cell(meanings[field.name]))
        rows.append(f"| `{variable(field.name)}` | {shown} | {wanted} | {meaning} |\n")
    return _VARIABLES + "".join(rows)


def _documented(kind: type) -> dict[str, str]:
    """Return the texts under the fields of a class."""
    module = ast.parse(inspect.getsource(settings))
    body = next(
        node.body
        for node in module.body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        DOCS.joinpath(name).write_text(text, "utf-8")
