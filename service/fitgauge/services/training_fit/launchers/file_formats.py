"""Files that a command writes first and then reads."""

import re
from collections.abc import Mapping

import msgspec

_PLAIN = re.compile(r"[A-Za-z_./][\w./-]*")
_TAKEN = ("true", "false", "null", "yes", "no", "on", "off")


def written(name: str, text: str) -> str:
    """Return a shell command that writes a text into a file, as it stands."""
    return f"cat > {name} <<'END'\n{text}END"


def yaml_of(settings: Mapping[str, object], indent: str = "") -> str:
    """Return a mapping as YAML, a setting a line; mappings in it are indented, lists stand in
    brackets."""
    lines = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name}:\n{yaml_of(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{name}: {_scalar(value)}\n")
    return "".join(lines)


def _scalar(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _TAKEN
    return str(value) if plain else msgspec.json.encode(value).decode()
