"""Sources that name our own files: they must be there, with what is named of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "service" / "fitgauge"
NAMED = re.compile(
    r"(?<![\w/.-])(?:service/fitgauge/)?"
    r"((?:engine|services|catalog|tools/accuracy)/[\w/-]+\.(?:py|jsonl?|md))\b"
)
MEMBER = re.compile(
    r"(?<![\w/.-])(?:service/fitgauge/)?(engine/[\w/-]+\.py), (\w+\.py|\w+_\w+|precision_policy)\b"
)
TEXTS = sorted(
    path
    for folder, kinds in (
        (PACKAGE, ("*.py", "*.json")),
        (ROOT / "docs", ("*.md",)),
        (ROOT / "tools" / "accuracy", ("*.py", "*.md")),
    )
    for kind in kinds
    for path in folder.rglob(kind)
)


@pytest.fixture(scope="module")
def texts():
    """Provide every text of the package, of what is written about it and of the accuracy
    scripts, lines joined as their sentences go on."""
    texts = {path: path.read_text() for path in [*TEXTS, *ROOT.glob("*.md")]}
    return {
        path.relative_to(ROOT): re.sub(r"\s+", " ", re.sub(r'"\s+f?"', "", text))
        for path, text in texts.items()
    }


def place(name):
    return ROOT / name if name.startswith("tools/") else PACKAGE / name


def test_every_file_of_ours_that_a_text_names_is_there(texts):
    named = [(str(path), name) for path, text in texts.items() for name in NAMED.findall(text)]
    assert len(named) > 100
    assert [(path, name) for path, name in named if not place(name).exists()] == []


def test_what_a_source_names_of_a_file_of_ours_is_in_it_or_beside_it(texts):
    missing, seen = [], 0
    for path, text in texts.items():
        for name, member in MEMBER.findall(text):
            seen += 1
            file = place(name)
            if not (
                file.with_name(member).exists()
                if member.endswith(".py")
                else re.search(rf"\b{member}\b", file.read_text())
            ):
                missing.append((str(path), name, member))
    assert missing == []
    assert seen > 10
