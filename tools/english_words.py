"""Write the words of the language that are names of models: catalog/data/english_words.txt.

Usage: python tools/english_words.py WORDLIST, where WORDLIST is SCOWL's list of American English,
size 50 (Debian's wamerican: /usr/share/dict/american-english). Run it after adding models.
"""

import sys
from pathlib import Path

from fitgauge.catalog.name_parts import words
from fitgauge.catalog.snapshot import Snapshot

TARGET = (
    Path(__file__).parents[1] / "service" / "fitgauge" / "catalog" / "data" / "english_words.txt"
)
SHORTEST = 3


def main(wordlist: Path) -> None:
    """Write the words that begin names of the snapshot and stand in the list."""
    english = {word.lower() for word in wordlist.read_text("utf-8").split() if word.isalpha()}
    names = {
        word
        for model_id in Snapshot().ids()
        for word in words(model_id)[:2]
        if word.isalpha() and len(word) >= SHORTEST
    }
    TARGET.write_text("".join(f"{word}\n" for word in sorted(names & english)), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
