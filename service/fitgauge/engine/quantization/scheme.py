"""Which tensors a quantizer touches: a Scheme is an ordered list of rules, and what no rule
names stays in 16 bit."""

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Tensor
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Basis
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.quantization.patterns import Chain, Patterns, parse, parse_glob

LINEARS = (Kind.LINEAR, Kind.EXPERT)
MATRICES = (Kind.LINEAR, Kind.EXPERT, Kind.ROUTER, Kind.EMBEDDING, Kind.HEAD)
LANGUAGE = (Part.LANGUAGE, Part.ENCODER, Part.HEAD, Part.EMBEDDING, Part.MTP)
"""Parts that a quantizer touches by itself; vision, audio and projectors only where its config
names them."""

_WRAPPERS = frozenset({"model", "language_model", "transformer", "backbone", "decoder"})
"""Leading names that a checkpoint and a quantizer's list write differently for the same module."""


_MAX_CLASSED = 4096
"""Names up to which it pays to find the layers that they do not tell apart."""


class Names(msgspec.Struct, frozen=True):
    """Modules by name, with or without their wrappers."""

    roots: frozenset[str] = frozenset()
    """whole dotted parts: the module or any of its parents"""
    modules: frozenset[str] = frozenset()
    """the module itself, none of its parents"""
    patterns: tuple[tuple[Chain, ...], ...] = ()
    """globs and regular expressions, each as its alternatives"""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Which weights are stored in one format."""

    form: Format | None
    """Their format; None: left in 16 bit."""
    kinds: tuple[Kind, ...] = LINEARS
    """Kinds of tensors it holds for."""
    parts: tuple[Part, ...] = LANGUAGE
    """Parts of the model it holds for."""
    names: Names | None = None
    """Tensor names it holds for; None: any."""
    whole_groups: bool = False
    """Whether a matrix whose rows are no whole groups stays in 16 bit."""


class Placed(msgspec.Struct, frozen=True):
    """A matrix of a block's layers, by the format it has in each."""

    prefix: str
    """The block's prefix."""
    first_layer: int
    """The number of the block's first layer."""
    name: str
    """The tensor's name after the prefix."""
    runs: tuple[tuple[Format | None, tuple[int, ...]], ...]
    """Every format with the layers that have it."""


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is stored: the first rule that fits a tensor decides."""

    name: str
    """The scheme's name, as answers use it."""
    rules: tuple[Rule, ...] = ()
    """The rules in their order."""
    placed: tuple[Placed, ...] = ()
    """Matrices that go before all rules, where the model itself decides."""
    dtype: str | None = None
    """Canonical format of what no rule touches; None for the model's own."""
    usual_form: Format | None = None
    """What stands for all its formats where it mixes them; None: the first rule's."""
    basis: Basis = "computed"
    """`assumed` where the config was not understood or the format is an average over a file."""
    warnings: tuple[Note, ...] = ()
    """Warnings of its reading."""

    @property
    def form(self) -> Format | None:
        """The format that stands for all, None where nothing is quantized."""
        return self.usual_form or next((rule.form for rule in self.rules if rule.form), None)

    @property
    def formats(self) -> frozenset[Format]:
        """Every format that a rule gives."""
        forms = [rule.form for rule in self.rules]
        forms += [form for matrix in self.placed for form, _ in matrix.runs]
        return frozenset(form for form in forms if form)

    @property
    def pattern_states(self) -> int:
        """States of the automaton that matches the patterns of all rules."""
        return sum(
            len(chain) + 1
            for rule in self.rules
            if rule.names
            for pattern in rule.names.patterns
            for chain in pattern
        )

    def format_of(self, module: str, tensor: Tensor, part: Part) -> Format | None:
        """Return what RuleIndex does; for many tensors make one RuleIndex."""
        return RuleIndex(self.rules).format_of(module, tensor, part)


class RuleIndex:
    """The rules of a scheme by what they name: a module costs the same however many there are."""

    def __init__(self, rules: Sequence[Rule], placed: Iterable[Placed] = ()) -> None:
        self._rules = rules
        self._placed = {
            (matrix.prefix, matrix.first_layer, matrix.name): matrix.runs for matrix in placed
        }
        self.by_name = any(rule.names for rule in rules)
        """whether a tensor's format depends on the name of its module"""
        self._unnamed: dict[tuple[Kind, Part], Rule | None] = {}
        alike: dict[tuple[tuple[Kind, ...], tuple[Part, ...]], list[int]] = {}
        for index, rule in enumerate(rules):
            alike.setdefault((rule.kinds, rule.parts), []).append(index)
        self._tables = [
            (kinds, parts, _Table(rules, numbers)) for (kinds, parts), numbers in alike.items()
        ]

    def runs(
        self, block: Block, tensor: Tensor
    ) -> tuple[tuple[Format | None, tuple[int, ...]], ...] | None:
        """Return a matrix's formats with their layers where the scheme places it."""
        return self._placed.get((block.prefix, block.layers[0], tensor.name))

    def layer_class(self, index: int) -> Hashable:
        """Return the same for layers that no rule tells apart."""
        text = str(index)
        return len(text), *[table.layer_class(text) for _, _, table in self._tables]

    def format_of(self, module: str, tensor: Tensor, part: Part) -> Format | None:
        """Return the format by the first rule that fits, None for a tensor that stays unquantized.

        Vectors stay, and so does what the model itself keeps in a dtype of its own.
        """
        if len(tensor.shape) < 2 or tensor.dtype is not None:
            return None
        rule = self._rule_of(module, tensor.kind, part)
        if rule is None or rule.form is None or (rule.whole_groups and _is_cut(tensor, rule.form)):
            return None
        return rule.form

    def _rule_of(self, module: str, kind: Kind, part: Part) -> Rule | None:
        """Return the first rule for such a matrix, None without one; where no rule names modules,
        the same for all of them."""
        if self.by_name:
            return self._first_rule(module, kind, part)
        key = kind, part
        if key not in self._unnamed:
            self._unnamed[key] = self._first_rule("", kind, part)
        return self._unnamed[key]

    def _first_rule(self, module: str, kind: Kind, part: Part) -> Rule | None:
        tables = [table for kinds, parts, table in self._tables if kind in kinds and part in parts]
        first = min((table.first(module) for table in tables), default=len(self._rules))
        return self._rules[first] if first < len(self._rules) else None


def _is_cut(tensor: Tensor, form: Format) -> bool:
    """Return whether a group of the matrix ends short."""
    rows = tensor.shape[-1]
    return rows > form.group > 0 and rows % form.group > 0


class _Table:
    """Rules of the same kinds and parts: the first of them that names a module."""

    def __init__(self, rules: Sequence[Rule], numbers: Sequence[int]) -> None:
        self._default = next((index for index in numbers if rules[index].names is None), len(rules))
        named = [
            (index, names)
            for index in numbers
            if index < self._default and (names := rules[index].names)
        ]
        self._roots: dict[str, int] = {}
        self._modules: dict[str, int] = {}
        for index, names in reversed(named):
            self._roots.update(dict.fromkeys(names.roots, index))
            self._modules.update(dict.fromkeys(names.modules, index))
        patterns = [(index, pattern) for index, names in named for pattern in names.patterns]
        self._numbers = [index for index, _ in patterns]
        self._patterns = Patterns([pattern for _, pattern in patterns])

        whole = (*self._roots.items(), *self._modules.items())
        self._tells_all = self._patterns.tells_digits or len(whole) > _MAX_CLASSED
        self._numbered = {} if self._tells_all else _numbered(whole)

    def layer_class(self, index: str) -> Hashable:
        """Return the same for numbers with as many digits that no rule tells apart."""
        return index if self._tells_all else self._numbered.get(index)

    def first(self, module: str) -> int:
        """Return the number of the first rule for `module`, else the number of all rules."""
        if not self._roots and not self._modules and not self._numbers:
            return self._default
        whole = module.removesuffix(".weight")
        short = bare(whole)
        first = min(self._default, self._modules.get(short, self._default))
        if self._roots:
            roots = self._roots
            first = min([first, *[roots[span] for span in _spans(short) if span in roots]])
        if self._numbers:
            names = (whole, short) if self._patterns.anchored and whole != short else (whole,)
            pattern = self._patterns.first(*names, suffixes=("", ".weight"))
            first = first if pattern is None else min(first, self._numbers[pattern])
        return first


def bare(name: str) -> str:
    """Return the name of a tensor's module without wrappers:
    'model.language_model.layers.0.mlp.gate_proj.weight' -> 'layers.0.mlp.gate_proj'.

    Wrappers go from the front only, as far as something is left.
    """
    name, start = name.removesuffix(".weight"), 0
    while (dot := name.find(".", start)) >= 0 and name[start:dot] in _WRAPPERS:
        start = dot + 1
    return name[start:]


def named(entries: Iterable[str]) -> Names:
    """Name as configs write them: dotted names, globs (`*`), and regular expressions after `re:`.

    `x*` without a dot before the star means x and all below it, as ModelOpt uses it. Raises
    ValueError for a regular expression that is broken or that patterns.py does not read."""
    roots, patterns = set(), {}
    for entry in entries:
        if entry.startswith("re:"):
            patterns[entry] = tuple(parse(entry[3:]))
            continue
        name = bare(entry)
        subtree = name.removesuffix("*").removesuffix(".") if name.endswith("*") else name
        if "*" not in subtree:
            roots.add(subtree)
        else:
            patterns[subtree] = tuple(parse_glob(subtree.removeprefix("*.")))
    return Names(roots=frozenset(roots), patterns=tuple(patterns.values()))


def is_nominal(spec: ModelSpec) -> bool:
    """Return whether a spec is a bare count of parameters: nothing but tensors of shape (n, 1),
    whose scales cannot be known."""
    return all(tensor.shape[1:] == (1,) for block in spec.blocks for tensor in block.tensors)


def _numbered(roots: Iterable[tuple[str, int]]) -> dict[str, frozenset[tuple[str, int]]]:
    """Return by number the roots that hold it, with a blank in its place, and their rules."""
    blanks_by_number: dict[str, set[tuple[str, int]]] = {}
    for root, rule in roots:
        parts = root.split(".")
        for index in {part for part in parts if part.isdigit()}:
            blank = ".".join("" if part == index else part for part in parts)
            blanks_by_number.setdefault(index, set()).add((blank, rule))
    return {index: frozenset(blanks) for index, blanks in blanks_by_number.items()}


def _spans(module: str) -> Iterable[str]:
    """Return every run of dotted parts of a name."""
    dots = [at for at, char in enumerate(module) if char == "."]
    ends = (*dots, len(module))
    return [
        module[first:last]
        for first in (0, *[dot + 1 for dot in dots])
        for last in ends
        if last > first
    ]
