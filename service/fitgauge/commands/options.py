"""Options of the commands, made from the requests of the contract."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from fitgauge.console import ARGUMENTS, as_typed
from fitgauge.errors import InvalidRequestError
from fitgauge.refused_values import in_words
from fitgauge.services.common.schemas import Launch
from fitgauge.services.tools.values import Field, fields_of, is_not_set, read
from fitgauge.services.training_fit.length_files import LONGEST_FILE, read_lengths

_Request = TypeVar("_Request")
machine_option = click.option(
    "--machine/--no-machine",
    default=True,
    help="Without GPU: ask about this machine's GPUs and what is free of them (default), or only"
    " say what the model needs.",
)
_TYPES = {"integer": int, "number": float, "string": str}


def question_options(request: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option for every optional field of a request of the contract, under the
    contract's own name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, schemas = msgspec.json.schema_components([request])
        fields = fields_of(request)
        for field, schema in reversed(schemas[request.__name__]["properties"].items()):
            kinds = [
                kind.get("type") or ("string" if "enum" in kind else None)
                for kind in schema.get("anyOf", ())
            ]
            name = "--" + field.replace("_", "-")
            described = schema["description"].replace("check_fit", "`fitgauge check`")
            if field in (*schemas[request.__name__]["required"], "gpu"):
                continue  # arguments
            if kinds[:2] == ["integer", "array"]:
                command = click.option(name, type=_integers, metavar="INTEGERS", help=described)(
                    command
                )
            elif "boolean" in kinds:
                command = click.option(
                    f"{name}/--no-{name.removeprefix('--')}", default=None, help=described
                )(command)
            elif field != "detail" and (
                choices := next(
                    (kind["enum"] for kind in schema.get("anyOf", ()) if "enum" in kind), None
                )
            ):
                command = click.option(name, type=click.Choice(choices), help=described)(command)
            elif kinds and kinds[0] == "object":
                command = click.option(name, type=_Lengths(), help=described)(command)
            elif kinds and kinds[0] in _TYPES and field != "detail":
                kind = _TYPES[kinds[0]] if kinds[0] == "string" else _Number(fields[field])
                command = click.option(name, type=kind, help=described)(command)
        return command

    return decorate


def as_request(fields: dict[str, Any], kind: type[_Request]) -> _Request:
    """Return the request of the contract; None is left out.

    Raises click.UsageError where a value does not fit."""
    try:
        return msgspec.convert(
            {name: value for name, value in fields.items() if value is not None}, kind
        )
    except msgspec.ValidationError as error:
        raise _misused(error) from None


def write_launch_files(launch: Launch | None, directory: Path) -> str:
    """Write the files and return the command that reads them; else why there are none."""
    if launch is None:
        return "No files: the training does not fit."
    if launch.files is msgspec.UNSET:
        return "No files: this tool reads its settings from the command line."
    directory.mkdir(parents=True, exist_ok=True)
    for file in launch.files:
        directory.joinpath(file.name).write_text(file.text, "utf-8")
    return f"cd {directory} && {launch.file_command}"


class _Number(click.ParamType[object]):
    """A number as people write it: 32k, 95%, 1.5m."""

    name = "number"

    def __init__(self, field: Field) -> None:
        """field: what is set."""
        self._field = field

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return the number. Fail where it is none."""
        if is_not_set(self._field, value):
            return self.fail(f"{value!r} is no value; leave the option out.", param, ctx)
        try:
            return read(self._field, value).get(self._field.name, value)
        except InvalidRequestError as error:
            return self.fail(f"{error.detail} {as_typed(error.hint)}", param, ctx)


class _Lengths(click.ParamType[dict[str, int]]):
    """A file of lengths: JSON, one whole number a line, or two columns; - reads standard input."""

    name = "file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, int]:
        """Return number of samples by length. Fail where the file holds no lengths."""
        try:
            with click.open_file(str(value), "rb") as file:
                return read_lengths(file.read(LONGEST_FILE + 1))
        except OSError as error:
            return self.fail(f"{value}: {error.strerror}.", param, ctx)
        except InvalidRequestError as error:
            return self.fail(f"{error.detail} {error.hint}", param, ctx)


def _integers(text: str) -> list[int]:
    """Return whole numbers with commas between them; click tells of the ValueError."""
    return [int(part) for part in text.split(",")]


def _misused(error: msgspec.ValidationError) -> click.UsageError:
    """Return the error of an option or argument, named as it is typed."""
    problem, _, path = str(error).partition(" - at `$.")
    name = path.rstrip("`").partition("[")[0]
    typed = name.upper() if name in ARGUMENTS else f"--{name.replace('_', '-')}"
    return click.UsageError(f"{in_words(problem, typed) if path else problem}.")
