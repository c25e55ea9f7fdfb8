"""Write docs/FORMULAS.md, the formulas of the estimate, from the docstrings of the engine.

    python tools/formulas.py         # write the page
    python tools/formulas.py check   # exit with 1 where the page is not current

The page lists every function of service/fitgauge/engine that makes a Term or returns bytes
(`*_bytes`): its module, its name, the first sentence of its docstring, the lines on symbols and
equation as they stand, and the source.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "service" / "fitgauge"
PAGE = ROOT / "docs" / "FORMULAS.md"

ENGINES = {
    "vllm": "vLLM", "sglang": "SGLang", "tensorrt_llm": "TensorRT-LLM", "tgi": "TGI",
    "transformers": "transformers", "llamacpp": "llama.cpp and Ollama", "mlx": "MLX",
}  # fmt: skip
HEAD = """# Formulas

What each function of the estimate counts, in its own words. Written from the docstrings of
`service/fitgauge/engine` by `make formulas`; change a docstring, then run it.
"""

_SENTENCE = re.compile(r"(?<=[.:])\s+(?=[A-Z`=])")
_SOURCE = re.compile(r"\bSources?:\s+")
_SYMBOLS = re.compile(r"^Symbols: .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class Formula(NamedTuple):
    """One function of the page: where it is, and its docstring in three parts."""

    module: str
    name: str
    sentence: str
    lines: str
    source: str


def formulas(path: Path) -> Iterator[Formula]:
    """Return the formulas of one file, in their order."""
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    tree = ast.parse(path.read_text("utf-8"))
    for name, function in _functions(tree):
        text = ast.get_docstring(function)
        if text and _counts_bytes(function):
            yield Formula(module, name, *split(text))


def split(docstring: str) -> tuple[str, str, str]:
    """Return a docstring as (first sentence, lines on symbols and equation, source)."""
    parts = _SOURCE.split(docstring, maxsplit=1)
    sentence, _, lines = _first_sentence(parts[0].strip())
    return sentence, lines, parts[1].strip() if len(parts) > 1 else ""


def symbols(path: Path) -> str:
    """Return the paragraph on symbols at the head of a file, empty where it has none."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    match = _SYMBOLS.search(text)
    return match.group() if match else ""


def group(module: str) -> str:
    """Return the heading that a module belongs under."""
    _, _, package, *rest = module.split(".")
    if package == "training":
        return "Training"
    if package == "serving" and rest[0] in ENGINES:
        return f"Serving with {ENGINES[rest[0]]}"
    return "Shared by serving engines"


def page() -> str:
    """Return the whole page."""
    headings = [
        *(f"Serving with {name}" for name in ENGINES.values()),
        "Shared by serving engines",
        "Training",
    ]
    sections: dict[str, list[str]] = {heading: [] for heading in headings}
    for path in sorted((PACKAGE / "engine").rglob("*.py")):
        entries = list(formulas(path))
        if entries:
            module = entries[0].module
            head = (f"### `{module}`", symbols(path))
            section = sections[group(module)]
            section.extend(part for part in (*head, *map(_entry, entries)) if part)
    text = [HEAD.rstrip()]
    for heading, parts in sections.items():
        if parts:
            text += [f"## {heading}", *parts]
    return "\n\n".join(text) + "\n"


def main() -> int:
    """Write the page, or check that it is current."""
    if sys.argv[1:] == ["check"]:
        return int(not PAGE.exists() or PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
    return 0


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def _counts_bytes(function: ast.FunctionDef) -> bool:
    """Return whether a function makes a Term or returns bytes."""
    return function.name.endswith("_bytes") or any(
        _makes_term(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)
    )


def _makes_term(called: ast.expr) -> bool:
    """Return whether a call makes a Term: by its class, by a function, by a coefficient."""
    if isinstance(called, ast.Name):
        return called.id == "Term" or called.id.endswith("_term")
    return isinstance(called, ast.Attribute) and called.attr == "term"


def _first_sentence(text: str) -> tuple[str, str, str]:
    match = _SENTENCE.search(text)
    if match is None:
        return " ".join(text.split()), "", ""
    return " ".join(text[: match.start()].split()), " ", text[match.end() :]


def _entry(formula: Formula) -> str:
    lines = [f"**`{formula.name}`**: {formula.sentence}"]
    if formula.lines:
        lines += ["", "```text", formula.lines.strip(), "```"]
    if formula.source:
        lines += ["", f"*Source:* {' '.join(formula.source.split())}"]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
