"""Which of the number formats, engines and methods of training in a question are meant: one, or
several set side by side."""

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import get_args

from fitgauge.catalog.format_names import USUAL_GGUF
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.training.workload import Framework
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.grammar import CACHE_TYPES
from fitgauge.services.ask.model_choice import after_contrast, end_of_contrast
from fitgauge.services.ask.topics import OPTIMIZERS, is_about, is_quantized
from fitgauge.services.ask.vocabulary import METHODS

_TRAINED_IN = re.compile(r"[- ](?:training|pre-?training|fine-?tuning|recipe)\b", re.IGNORECASE)
"""What follows the precision of a training's products: "fp8 training"."""

PRECISIONS = frozenset({"bf16", "fp16", "fp32", "bfloat16", "float16"})
"""Formats that in training are a precision, of which a word does not say which parts have it."""

_FOUR_BITS = "int4"
"""What "quantized" means where no format is named."""

WIDTHS = frozenset({"int4", "int8"})
"""What "4 bit" says besides a format: "GPTQ 4bit" is GPTQ."""

_INSTEAD = re.compile(r"(?:(?<!if )\bnot|\bwithout|n't|不用|非|不)\s*(?:\w+\s)?$")
_RULED_OUT = re.compile(
    r"\s+(?:is|are)(?:n't| not| no)\s+(?:an? )?(?:option|possible|allowed|supported|acceptable)"
    r"|\s+is (?:out|ruled out)\b"
)
"""Words behind it that say the same."""
_BEFORE = 24
"""Characters before a word that say that it is not wanted."""

_IN = re.compile(r"\b(?:in|at|with|mit|en|em)\s+$", re.IGNORECASE)

AGAINST = re.compile(
    r"\b(?:vs\.?|versus|or|over|than|compared (?:to|with)|against|oder|ou|if not|otherwise|sonst)\b"
    r"|还是|或|对比|、|/|不行的话|不行就",
    re.IGNORECASE,
)
"""What stands between formats that are set side by side."""
_SUPPORTED = re.compile(r"[- ](?:support|capab|tensor cores?|hardware|acceleration)", re.IGNORECASE)
"""What follows a format that GPUs compute in, which the weights need not have."""
_OWN = re.compile(r"[\s,(-]*(?:(?:in|at|as|en|em|mit|@)\s+)?", re.IGNORECASE)
"""What stands between a model and the format that is its own."""
_OF_BOTH = re.compile(
    r"\s(?:for\s)?(?:both\s)?(?:the\s)?(?:model\s)?weights\s?(?:and|&|\+)\s?(?:the\s|for\s)*kv\b",
    re.IGNORECASE,
)
"""What follows a format that the weights and the KV cache have."""
_OF_CACHES = re.compile(rf"(?:\s|kv|cache|-)*(?:{AGAINST.pattern})\s*", re.IGNORECASE)
"""The same between formats of a KV cache."""
LISTED = re.compile(rf"{AGAINST.pattern}|,|\b(?:and|und|et|y|e)\b|和|与", re.IGNORECASE)
"""The same in a text that compares."""


def is_refused(text: str, fact: Fact) -> bool:
    """Return whether a text says that it does not want something: "without quantization"."""
    before = text[max(0, fact.start - _BEFORE) : fact.start].lower()
    return bool(_INSTEAD.search(before) or _RULED_OUT.match(text.lower(), fact.end))


def wanted_formats(text: str, facts: Sequence[Fact], *, training: bool) -> list[Fact]:
    """Return the formats that the weights may have. facts: of formats."""
    return [
        fact
        for fact in facts
        if not is_refused(text, fact)
        and not _SUPPORTED.match(text, fact.end)
        and not (
            training
            and (
                fact.value in PRECISIONS
                or of_the_optimizer(text, fact)
                or (fact.value == "fp8" and _TRAINED_IN.match(text, fact.end))
            )
        )
    ]


def is_no_format(text: str, fact: Fact) -> bool:
    """Return whether a format is only the bits of another one, or what GPUs compute in."""
    return str(fact.value).endswith("bpw") or _SUPPORTED.match(text, fact.end) is not None


def of_the_optimizer(text: str, fact: Fact) -> bool:
    """Return whether a number format is that of an optimizer's states: "8-bit Adam"."""
    return any(one.start() <= fact.start < one.end() for one in OPTIMIZERS.finditer(text))


def format_meant(text: str, facts: Sequence[Fact], *, training: bool) -> str | None:
    """Return the format of the weights that a text wants; None where it names none."""
    wanted = wanted_formats(text, facts, training=training)
    contrast = end_of_contrast(text)
    wanted = [fact for fact in wanted if fact.start >= contrast] or wanted
    if wanted:
        return str(wanted[0].value)
    return _FOUR_BITS if not facts and not training and is_quantized(text) else None


def with_caches(text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts with a format that is set against one of the KV cache as the same, "fp8 or
    fp16 kv cache", and that of a text about the cache: "KV cache of a 70b at 128k in fp8"."""
    result = list(facts)
    places = [at for at, fact in enumerate(facts) if fact.kind in ("format", "cache")]
    pairs = [
        pair
        for pair in itertools.pairwise(places)
        if _OF_CACHES.fullmatch(text[result[pair[0]].end : result[pair[1]].start])
        and "cache" in (result[pair[0]].kind, result[pair[1]].kind)
    ]
    if len(places) == 1 and is_about(text, "cache") and _IN.search(text[: result[places[0]].start]):
        pairs = [(places[0], places[0])]
    for at in itertools.chain.from_iterable(pairs):
        value = CACHE_TYPES.get(str(result[at].value), result[at].value)
        result[at] = result[at]._replace(kind="cache", value=value)
    both = (fact for fact in facts if fact.kind == "format" and _OF_BOTH.match(text, fact.end))
    for fact in both if all(fact.kind != "cache" for fact in result) else ():
        value = CACHE_TYPES.get(str(fact.value), fact.value)
        result.append(fact._replace(kind="cache", value=value))
    return result


def with_own_formats(
    text: str, models: Sequence[Fact], facts: Sequence[Fact]
) -> tuple[list[str], list[Fact]]:
    """Return several models, each with the format in or behind its name where they have not all the
    same: "gemma 12b q8 or qwen 14b q6"; and the facts without those formats."""
    own: dict[str, Fact] = {}
    for form in (fact for fact in facts if fact.kind == "format"):
        before = next((one for one in reversed(models) if one.start <= form.start), None)
        if before and _OWN.fullmatch(text[before.end : form.start]):
            own.setdefault(str(before.value), form)
    names = [str(one.value) for one in models]
    behind = {
        str(one.value): f" {own[str(one.value)].value}"
        for one in models
        if str(one.value) in own and own[str(one.value)].start >= one.end
    }
    in_some_names = len(behind) < len(own) < len(models)
    if len({form.value for form in own.values()}) < 2 and not in_some_names:
        return names, list(facts)
    others = [fact for fact in facts if fact not in own.values()]
    return [f"{name}{behind.get(name, '')}" for name in names], others


def is_file(text: str, fact: Fact) -> bool:
    """Return whether a fact is the word GGUF, which names an engine by what it reads."""
    return fact.kind == "engine" and text[fact.start : fact.end].lower() == "gguf"


def formats_side_by_side(text: str, facts: Sequence[Fact]) -> list[str]:
    """Return the formats that a text sets side by side, in its order; empty for one: "GPTQ 4bit
    vs AWQ", "awq or gguf". facts: all of the text."""
    named = [
        fact._replace(value=USUAL_GGUF) if is_file(text, fact) else fact
        for fact in facts
        if fact.kind == "format" or is_file(text, fact)
    ]
    wanted = wanted_formats(text, named, training=False)
    groups = [wanted[:1]]
    against = LISTED if is_about(text, "comparison") else AGAINST
    for before, after in itertools.pairwise(wanted):
        if against.search(text[before.end : after.start]):
            groups.append([])
        groups[-1].append(after)
    names = list(dict.fromkeys(_most_exact([str(fact.value) for fact in one]) for one in groups))
    return names if len(groups) > 1 and len(names) > 1 else []


def _most_exact(names: Collection[str]) -> str:
    return next((name for name in names if name not in WIDTHS), next(iter(names), ""))


_LIBRARIES = frozenset(ENGINES) & frozenset(get_args(Framework))
"""Engines that are libraries that models are trained with, too."""
_RELEASE = re.compile(r"\s*(?:version\s*|[v=@-]+\s*)?(\d{1,2}(?:\.\d{1,3}){1,3})(?![\w.]*\w)")
"""The release behind an engine's name: "vLLM 0.11.0", "sglang v0.5"."""
_FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z-]+")


def engines_side_by_side(text: str, named: Sequence[Fact]) -> list[str]:
    """Return the engines that a text about serving sets side by side; empty for one.

    named: facts of engines."""
    covered = [str(fact.value) for fact in named if fact.value in ENGINES]
    names = list(dict.fromkeys(covered))
    return names if len(names) > 1 and is_about(text, "comparison") else []


def engine_meant(text: str, named: Sequence[Fact]) -> Fact | None:
    """Return the engine after "but", else the first: a library that models are trained with too
    only where no other is named. named: facts of engines."""
    covered = [fact for fact in named if fact.value in ENGINES] or named
    engines = [fact for fact in covered if fact.value not in _LIBRARIES] or named
    return after_contrast(text, engines) or next(iter(engines), None)


def engine_of_flags(text: str) -> str | None:
    """Return the engine that alone has a flag which a text names, "which --n-cpu-moe"; None where
    it is the default one, whose flags other engines read too, or none."""
    owners = map(_flag_owners().get, _FLAG.findall(text))
    return next((owner for owner in owners if owner not in (None, DEFAULT_ENGINES[0])), None)


@cache
def _flag_owners() -> Mapping[str, str]:
    """Return each flag that one engine alone has, with that engine."""
    named: dict[str, set[str]] = {}
    for name, row in ENGINES.items():
        if (facts := row.container_start) is None:
            continue
        options = row.log_parser.options if row.log_parser is not None else ()
        spelled = (*facts.spellings, *facts.spellings.values())
        for flag in (*options, *spelled):
            named.setdefault(flag, set()).add(name)
    return {flag: min(names) for flag, names in named.items() if len(names) == 1}


def engine_version(text: str, engines: Sequence[Fact]) -> str | None:
    """Return the release behind the first engine that has one; None for none. engines: facts."""
    for fact in engines:
        if (match := _RELEASE.match(text, fact.end)) is not None:
            return match[1]
    return None


_QUARTERS = frozenset({"int4", "nf4", "bnb"})
"""Formats in which only QLoRA trains."""

_LEAST_RANK = 4
"""A smaller rank is one of a process."""

_ASKS_RANK = re.compile(r"\blora[ _-]?r(?:ank)?\b", re.IGNORECASE)
"""A rank of adapters, with its number or asked for."""

_OF_ALL_WEIGHTS = frozenset({"galore_adamw", "lomo"})
"""Optimizers that are there to train all weights in little memory."""

_FULL_OR = re.compile(r"\bfull\s*(?:vs\.?|versus|or|/)\s", re.IGNORECASE)
"""All weights, compared with another method."""
_TRAINS_ALL = re.compile(r"--model_name_or_path\b")
"""Of transformers and TRL, which train all weights by default: `use_peft` is off."""
_OF_ADAPTERS = re.compile(
    r"\b(?:llamafactory|llama-factory|swift|unsloth|peft|lora)", re.IGNORECASE
)
"""Tools that train adapters where a command says nothing of it, and words of adapters."""


def method_meant(text: str, facts: Sequence[Fact], quantization: object) -> dict[str, object]:
    """Return the method of training, and the algorithm where another word is the method.

    facts: all of the text; quantization: the format of the weights."""
    methods = [fact for fact in facts if fact.kind == "method"]
    adapters: list[object] = []
    algorithms: list[object] = []
    refused: list[object] = []
    for fact in methods:
        if not is_refused(text, fact):
            (adapters if fact.value in METHODS else algorithms).append(fact.value)
        elif fact.value in ("lora", "dora", "qlora"):
            refused.append("full")
    adapters = adapters or refused
    optimizer = OPTIMIZERS.search(text)
    of_all = optimizer is not None and optimizer.lastgroup in _OF_ALL_WEIGHTS
    if not adapters and (
        of_all
        or is_about(text, "all weights")
        or (_TRAINS_ALL.search(text) and not _OF_ADAPTERS.search(text))
    ):
        adapters.append("full")
    if not (adapters or algorithms) and quantization in _QUARTERS:
        adapters.append("qlora")
    ranked = any(fact.kind == "rank" and fact.value >= _LEAST_RANK for fact in facts)
    if not adapters and (ranked or _ASKS_RANK.search(text)):
        adapters.append("lora")
    quantized = {
        fact.sentence for fact in facts if fact.kind == "format" and fact.value in _QUARTERS
    }
    if adapters[:1] == ["lora"] and any(fact.sentence in quantized for fact in methods):
        adapters = ["qlora"]
    algorithm = next(iter(algorithms), None)
    if adapters:
        several = _side_by_side(text, methods)
        return {"method": adapters[0], "methods": several, "algorithm": algorithm}
    return {"method": algorithm}


def _side_by_side(text: str, facts: Sequence[Fact]) -> list[object] | None:
    """Return the methods that a text sets side by side, in its order: "lora or qlora"; None for
    one."""
    named = [fact for fact in facts if fact.value in METHODS and not is_refused(text, fact)]
    against = LISTED if is_about(text, "comparison") else AGAINST
    apart = [
        against.search(text[one.end : other.start]) is not None
        or text[one.end : other.start].strip() in (",", "/")
        for one, other in itertools.pairwise(named)
    ]
    values = list(dict.fromkeys(fact.value for fact in named))
    apart.append(_FULL_OR.search(text) is not None)
    if any(apart) and "full" not in values and is_about(text, "all weights"):
        values.append("full")
    return values if len(values) > 1 and any(apart) else None
