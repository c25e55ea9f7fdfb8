"""Which tensors a quantizer touches: a Scheme is an ordered list of rules, and what no rule names stays in 16 bit."""

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from fitgauge.engine.architecture import Kind, ModelSpec, Part, Tensor
from fitgauge.engine.quantity import Basis
from fitgauge.engine.quantization import Format

LINEARS = (Kind.LINEAR, Kind.EXPERT)
MATRICES = (Kind.LINEAR, Kind.EXPERT, Kind.ROUTER, Kind.EMBEDDING, Kind.HEAD)
LANGUAGE = (Part.LANGUAGE, Part.ENCODER, Part.HEAD, Part.EMBEDDING, Part.MTP)
"""Parts that a quantizer touches by itself; vision, audio and projectors only where its config names them."""

_WRAPPERS = frozenset({"model", "language_model", "transformer", "backbone", "decoder"})
"""Leading names that a checkpoint and a quantizer's list write differently for the same module."""

MAX_PATTERNS = 32
MAX_WILDCARDS = 3
"""Bounds on a stranger's regular expressions: more could keep a process busy for minutes (backtracking)."""


class Names(msgspec.Struct, frozen=True):
    """Modules by name: whole dotted parts (`roots`: the module or any of its parents), or regular expressions (`patterns`)."""

    roots: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()

    def match(self, module: str) -> bool:
        """Whether `module`, with or without its wrappers, is named."""
        short = bare(module)
        if self.roots and not self.roots.isdisjoint(_spans(short)):
            return True
        return any(_compiled(pattern).search(name) for pattern in self.patterns for name in (short, module))


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of these `kinds` and `parts`, under these `names` (None: any), are stored in `form` (None: left in 16 bit)."""

    form: Format | None
    kinds: tuple[Kind, ...] = LINEARS
    parts: tuple[Part, ...] = LANGUAGE
    names: Names | None = None


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is stored: the first rule that fits a tensor decides.

    `dtype`: canonical format of what no rule touches, None for the model's own. `basis` is `assumed` where the config was not
    understood or the format is an average over a file.
    """

    name: str
    rules: tuple[Rule, ...] = ()
    dtype: str | None = None
    basis: Basis = "computed"
    warnings: tuple[str, ...] = ()

    @property
    def form(self) -> Format | None:
        """The format most weights have, None where nothing is quantized."""
        return next((rule.form for rule in self.rules if rule.form), None)

    def format_of(self, module: str, tensor: Tensor, part: Part) -> Format | None:
        """The format of `tensor` of `module`, None for one that stays unquantized.

        Vectors stay, and so does what the model itself keeps in a dtype of its own.
        """
        if len(tensor.shape) < 2 or tensor.dtype is not None:
            return None
        for rule in self.rules:
            if tensor.kind in rule.kinds and part in rule.parts and (rule.names is None or rule.names.match(module)):
                return rule.form
        return None


def bare(name: str) -> str:
    """The name of a tensor's module without wrappers: 'model.language_model.layers.0.mlp.gate_proj.weight' -> 'layers.0.mlp.gate_proj'.

    Wrappers go from the front only, as far as something is left.
    """
    parts = name.removesuffix(".weight").split(".")
    while len(parts) > 1 and parts[0] in _WRAPPERS:
        parts = parts[1:]
    return ".".join(parts)


def named(entries: Iterable[str]) -> Names:
    """Names as configs write them: dotted names, globs (`*`), and regular expressions after `re:`.

    `x*` without a dot before the star means x and all below it, as ModelOpt uses it. Raises ValueError for a regular expression
    that is broken or could take too long.
    """
    roots, patterns = set(), []
    for entry in entries:
        if entry.startswith("re:"):
            patterns.append(_bounded(entry[3:]))
            continue
        subtree = re.sub(r"\.?\*$", "", bare(entry))
        if "*" not in subtree:
            roots.add(subtree)
        else:
            glob = ".*".join(re.escape(piece) for piece in subtree.split("*")).removeprefix(".*\\.")
            patterns.append(f"(^|\\.){glob}($|\\.)")
    if len(patterns) > MAX_PATTERNS:
        raise ValueError(f"{len(patterns)} patterns, at most {MAX_PATTERNS} are read")
    return Names(roots=frozenset(roots), patterns=tuple(patterns))


def _bounded(pattern: str) -> str:
    core = re.sub(r"^\^?(\.\*)+|(\.\*)+\$?$", "", pattern)
    if len(core) > 300 or len(re.findall(r"(?<!\\)[*+{]", core)) > MAX_WILDCARDS or re.search(r"\)[*+{]", core):
        raise ValueError(f"the pattern {pattern[:60]!r} could take too long")
    try:
        re.compile(core)
    except re.error as error:
        raise ValueError(f"the pattern {pattern[:60]!r} is broken: {error}") from None
    return core


def is_nominal(spec: ModelSpec) -> bool:
    """Whether a spec is a bare count of parameters: nothing but tensors of shape (n, 1), whose scales cannot be known."""
    return all(tensor.shape[1:] == (1,) for block in spec.blocks for tensor in block.tensors)


def _spans(module: str) -> Iterable[str]:
    parts = module.split(".")
    return {".".join(parts[first:last]) for first in range(len(parts)) for last in range(first + 1, len(parts) + 1)}


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
