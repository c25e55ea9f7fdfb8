"""Whether a published checkpoint holds its weights in the format that a caller requests."""

import re

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name, requested_scheme
from fitgauge.engine.quantization.scheme import Scheme

_GROUPING = re.compile(r"_(?:tensor|channel|block\d+x\d+|double)$")
"""How many weights share a scale, at the end of a format's name."""

_FOUR_BIT = frozenset({"awq_int4", "gptq_int4", "packed_int4", "int4"})
"""What people mean by a 4-bit checkpoint; not the floating-point formats."""


def holds_format(spec: ModelSpec, requested: str) -> bool:
    """Return whether the repository of `spec` is published in the format `requested` as a whole.

    "fp8" is any checkpoint of fp8 weights, whatever shares a scale; "fp8_block" names the scales
    too; "int4" is AWQ, GPTQ or packed integers. A mixture of formats is none of them. Raises
    UnsupportedError for an unknown format."""
    name = canonical_name(requested)
    scheme = published(spec)
    if name in UNQUANTIZED:
        return scheme is None and UNQUANTIZED[name] == spec.dtype
    if scheme is None:
        return False
    kinds, wanted = _kinds(scheme), _kinds(requested_scheme(requested, spec))
    if len(kinds) != 1:
        return False
    if name == "int4":
        return kinds <= _FOUR_BIT
    if kinds != wanted:
        return False
    shared = name.removeprefix("fp8_") if name.startswith("fp8_") else ""
    return all(f"_{shared}" in form.name for form in scheme.formats) if shared else True


def _kinds(scheme: Scheme) -> set[str]:
    """Return the formats of a scheme, whatever shares a scale in them."""
    return {_GROUPING.sub("", form.name) for form in scheme.formats}
