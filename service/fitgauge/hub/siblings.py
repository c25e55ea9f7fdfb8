"""Quantized repositories of one model: what the Hub lists under `base_model:quantized:`, and the
few of them that are worth a look.

One request lists them, the most downloaded first; what its `safetensors` field counts tells
their size, so that no other is needed to choose. The Hub knows the relation by the model's exact
id, whatever names redirect to it."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec

from fitgauge.engine.model.dtypes import dtype, size_of
from fitgauge.engine.serving.engine_facts import FileKind
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.hub.description import MAX_ELEMENTS, Safetensors
from fitgauge.hub.json_text import decoded
from fitgauge.hub.reference import Reference

LISTED = 50
EXPANDED = ("gated", "safetensors", "tags")
"""What the list tells of each (its `expand` parameter)."""

GGUF_LABELS = ("Q8_0", "Q4_K_M")
"""Of a repository of GGUF files: the usual 8-bit and 4-bit ones."""

_STEPS = ((0.4, 0.8), (0.0, 0.4))
"""Sizes as a share of the 16-bit weights: of 8-bit checkpoints, and of 4-bit ones, which keep
embeddings and scales wider."""


class Listed(msgspec.Struct, frozen=True):
    """One repository of the list."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+(/[\w.-]+)?$", max_length=200)]
    """The repository, as owner/name."""
    gated: bool | str = False
    """Whether access is granted on request."""
    tags: list[str] = []
    """Its tags, the model it was made from among them."""
    safetensors: Safetensors | None = None
    """What the Hub counted in its safetensors files."""

    @property
    def stored_bytes(self) -> int:
        """Bytes of its safetensors files; 0 where the Hub did not count them, or counts an
        unknown dtype."""
        counts = self.safetensors.parameters if self.safetensors else {}
        if any(not 0 <= count <= MAX_ELEMENTS for count in counts.values()):
            return 0
        try:
            return sum(size_of(count, dtype(name)) for name, count in counts.items())
        except UnsupportedError:
            return 0


_FORMAT_WORD = re.compile(
    r"(?:nv|mx)?fp\d|int\d|w\d+a\d+\w*|\d+bit|q\d|k|m|s|g\d+|v\d|awq|gptq\w*|gguf|mlx|bnb|nf4|bits?|\d|quantized|quant|quants|dynamic|static|block|per|"
    r"tensor|channel|tokens?|marlin|auto|round|autoround|sym|asym|hf|hqq|i1|imatrix|mixed|precision|kv|kvcache|attn|w\d|a\d+|bf16|dwq|ct|modelopt"
)
"""Words in names of quantized repositories in addition to the model's own."""

_VERSION = re.compile(r"\.\d+(?!\w|\.?\d*b)")
"""What makes V3.1 of V3, where it follows the model's name."""

_LIST = msgspec.json.Decoder(list[Listed])


def names_same(base_id: str, other_id: str) -> bool:
    """Return whether a repository is called like the model, except for words for a
    format and owners.

    Fine-tunes are published quantized under the model they come from too; their names say what
    they are."""
    owner, _, base = base_id.rpartition("/")
    other_owner, _, other = other_id.rpartition("/")
    wanted, words = _wanted(base), _words(other)
    starts = [
        start
        for start in range(len(words) - len(wanted) + 1)
        if words[start : start + len(wanted)] == wanted
    ]
    if not starts or _VERSION.match(other.lower().rpartition(wanted[-1])[2]):
        return False
    extra = words[: starts[0]] + words[starts[0] + len(wanted) :]
    owners = {*_words(owner), *_words(other_owner)}
    return bool(extra) and all(word in owners or _FORMAT_WORD.fullmatch(word) for word in extra)


class ListedNames:
    """Ids by the words of their names: few of them are compared with a model's."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self._by_word: dict[str, list[str]] = {}
        for one in ids:
            for word in dict.fromkeys(_words(one.rpartition("/")[2])):
                self._by_word.setdefault(word, []).append(one)

    def same(self, base_id: str) -> list[str]:
        """Return the ids that are called like the model, by `names_same`, in their order."""
        wanted = _wanted(base_id.rpartition("/")[2])
        holding = (self._by_word.get(word, []) for word in wanted)
        fewest: Sequence[str] = min(holding, key=len, default=self._ids)
        return [one for one in fewest if names_same(base_id, one)]


def _wanted(base: str) -> list[str]:
    """Return the words of a model's name that a repository of the same weights has too."""
    words = _words(base)
    return words[:-1] if words[-1:] == ["hf"] else words


@lru_cache(maxsize=8192)
def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def quantized_of(repo_id: str) -> dict[str, str | list[str]]:
    """Return the parameters of the Hub's list of what is quantized from a repository."""
    return {"filter": f"base_model:quantized:{repo_id}", "expand": list(EXPANDED)}


def read_list(body: bytes) -> tuple[Listed, ...]:
    """Return the list, in its order. Raises HubUnreachableError where the answer is no JSON,
    MalformedModelError where it is no such list."""
    listed = decoded(_LIST, body, "The Hub's list of quantized models")
    return tuple(listed)


def choose(
    listed: Iterable[Listed], base_id: str, base_bytes: int, kind: FileKind
) -> tuple[Reference, ...]:
    """Return the most downloaded of 8 bits and of 4, the larger first, among those that anybody
    may load. base_bytes: of the 16-bit weights."""
    open_ones = [
        one
        for one in listed
        if not one.gated and kind_of(one) == kind and names_same(base_id, one.id)
    ]
    if kind == "gguf":
        if open_ones:
            return tuple(Reference(open_ones[0].id, file=label) for label in GGUF_LABELS)
        return ()
    chosen = []
    for least, most in _STEPS:
        fitting = (
            one for one in open_ones if least * base_bytes < one.stored_bytes <= most * base_bytes
        )
        if (first := next(fitting, None)) is not None:
            chosen.append(Reference(first.id))
    return tuple(chosen)


def kind_of(listed: Listed) -> FileKind | None:
    """Return the files it holds, None where no engine here loads them."""
    if "gguf" in listed.tags:
        return "gguf"
    if "mlx" in listed.tags:
        return "mlx"
    return "safetensors" if "safetensors" in listed.tags else None
