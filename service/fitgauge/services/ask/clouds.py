"""Which clouds a question rents GPUs from: "on AWS", "an Azure VM", "runpod for $5/h"."""

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
