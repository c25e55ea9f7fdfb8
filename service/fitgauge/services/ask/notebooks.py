"""The GPU that a free notebook has: "on Colab", "with Kaggle"."""

import re

_NOTEBOOK = re.compile(
    r"(?<![\w/.])(colab|kaggle)\b(?![./]\w)(?!(?:'s)?\s+(?:pro|paid|data\w*|competition|notebook))",
    re.IGNORECASE,
)
_FREE_GPUS = {"colab": ("T4", 1), "kaggle": ("T4", 2)}
"""Source: mccormickml.com/2024/04/23/colab-gpus-features-and-pricing (March 2026: the T4 is free);
Kaggle's "GPU T4 x2", instead of one P100 (ContextLab/llmXive issue 367: T4 or P100)."""


def free_gpu(text: str) -> tuple[str, int, str] | None:
    """Return the GPU that a free notebook has, how many and a sentence on it; None for none."""
    match = _NOTEBOOK.search(text)
    if match is None:
        return None
    name, count = _FREE_GPUS[match[1].lower()]
    return name, count, f"gpu: taken as {count} x {name}, which {match[1].title()} gives for free."
