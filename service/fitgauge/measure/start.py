"""How an engine is started here: the launch command of an answer, with the program that is
installed."""

import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=.*", re.DOTALL)
_PYTHONS = ("python3", "python")
_SECONDS = 60.0
"""How long a Python may take to say whether it has a package."""

_HAS_MODULE = "import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)"


class NotInstalledError(Exception):
    """The engine is neither on PATH nor in the Python that was named."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A process to start."""

    arguments: tuple[str, ...]
    """The program and its arguments."""
    variables: Mapping[str, str] = {}
    """Environment variables in addition to those of this process."""
    client: tuple[str, ...] = ()
    """What makes a server load the model, where the server does not by itself."""
    client_after: str = ""
    """What the server prints once it takes clients."""

    @property
    def environment(self) -> dict[str, str]:
        """All of its environment; what Python prints is not held back."""
        return {**os.environ, "PYTHONUNBUFFERED": "1", **self.variables}


def start_of(command: str, python: Path | None) -> Start:
    """Return how to start a launch command. python: a Python that has the engine, for those that
    are not on PATH. Raises NotInstalledError."""
    words, python = shlex.split(command), python.expanduser() if python else None
    variables = {}
    while words and _VARIABLE.fullmatch(words[0]):
        name, _, variables[name] = words.pop(0).partition("=")
    if not words:
        raise NotInstalledError("The command names no program.")
    if words[0] in _PYTHONS:
        return Start(arguments=(_with_module(words, python), *words[1:]), variables=variables)
    program = _program(words[0], python)
    if Path(words[0]).name == "ollama" and "run" in words:
        variables.setdefault("OLLAMA_HOST", f"127.0.0.1:{_free_port()}")
        return Start(
            arguments=(program, "serve"),
            variables=variables,
            client=(program, *words[1:]),
            client_after="Listening on",
        )
    return Start(arguments=(program, *words[1:]), variables=variables)


def python_with(module: str, python: Path | None) -> str:
    """Return the Python that has a module: the one that was named, else that on PATH. Raises
    NotInstalledError."""
    program = (
        str(python.expanduser())
        if python
        else next(filter(None, map(shutil.which, _PYTHONS)), None)
    )
    if program is None:
        raise NotInstalledError("No Python is on PATH: name one by --python.")
    try:
        result = subprocess.run(
            (program, "-c", _HAS_MODULE, module),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstalledError(f"{program} does not run: {error}") from None
    if result.returncode:
        raise NotInstalledError(f"{program} has no {module}: name a Python that has, by --python.")
    return program


def _with_module(words: list[str], python: Path | None) -> str:
    """Return the Python of a command such as `python -m sglang.launch_server`."""
    module = words[2].partition(".")[0] if words[1:2] == ["-m"] and len(words) > 2 else "sys"
    return python_with(module, python)


def _program(name: str, python: Path | None) -> str:
    """Return the path of a program: next to the Python that was named, else on PATH."""
    neighbour = python.parent / name if python and Path(name).name == name else None
    if neighbour is not None and neighbour.is_file():
        return str(neighbour)
    program = shutil.which(name)
    if program is None:
        raise NotInstalledError(
            f"{name} is not installed here: it is not on PATH"
            + (f", nor next to {python}." if python else "; --python names a Python that has it.")
        )
    return program


def _free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
