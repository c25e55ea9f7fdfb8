"""Which clouds a question rents GPUs from, "on AWS", "an Azure VM", "runpod for $5/h", and the GPU
that a free notebook has: "on Colab", "with Kaggle"."""

import re
from collections.abc import Collection
from functools import cache

from fitgauge.catalog.instances import CLOUD_NAMES

_ALSO_OTHERS = frozenset(
    {"google", "microsoft", "amazon", "oracle", "lambda", "huawei", "tencent", "alibaba"}
)
"""Names that publish models or mean something else: of a cloud only where the next word says so."""

_SPACED = {
    "amazon web services": "aws",
    "google cloud": "gcp",
    "google compute": "gcp",
    "oracle cloud": "oci",
    "lambda labs": "lambda",
    "on lambda": "lambda",
    "lambda cloud": "lambda",
    "alibaba cloud": "alibaba",
    "huawei cloud": "huawei",
    "tencent cloud": "tencent",
    "digital ocean": "digitalocean",
    "阿里云": "alibaba",
    "腾讯云": "tencent",
    "华为云": "huawei",
    "火山引擎": "volcengine",
}
"""Names of several words or signs."""

_NOTEBOOK = re.compile(
    r"(?<![\w/.])(colab|kaggle)\b(?![./]\w)(?!(?:'s)?\s+(?:pro|paid|data\w*|competition|notebook))",
    re.IGNORECASE,
)
_FREE_GPUS = {"colab": ("T4", 1), "kaggle": ("T4", 2)}
"""Source: mccormickml.com/2024/04/23/colab-gpus-features-and-pricing (March 2026: the T4 is free);
Kaggle's "GPU T4 x2", instead of one P100 (ContextLab/llmXive issue 367: T4 or P100)."""


def clouds_in(text: str, listed: Collection[str]) -> list[str]:
    """Return the clouds that a text names, of those that the catalog lists, in its order."""
    named = _pattern(frozenset(listed)).finditer(text.lower())
    names = (_SPACED.get(match[0]) or CLOUD_NAMES.get(match[0], match[0]) for match in named)
    return list(dict.fromkeys(name for name in names if name in listed))


@cache
def _pattern(listed: frozenset[str]) -> re.Pattern[str]:
    """Return what finds their names as words of their own, not as the owner of a repository."""
    words = {*listed, *CLOUD_NAMES} - _ALSO_OTHERS
    latin = [name for name in (*words, *_SPACED) if name.isascii()]
    others = [name for name in _SPACED if not name.isascii()]
    joined = "|".join(map(re.escape, sorted(latin, key=len, reverse=True)))
    return re.compile(rf"(?<![\w/.-])(?:{joined})(?![\w/-])|" + "|".join(others))


def free_gpu(text: str) -> tuple[str, int, str] | None:
    """Return the GPU that a free notebook has, how many and a sentence on it; None for none."""
    match = _NOTEBOOK.search(text)
    if match is None:
        return None
    name, count = _FREE_GPUS[match[1].lower()]
    return name, count, f"gpu: taken as {count} x {name}, which {match[1].title()} gives for free."
