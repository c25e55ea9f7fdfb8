"""Which GPUs a question means: one kind, or several on a par, with their count and memory."""

import itertools
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.gpu_phrases import (
    SIZES_ON_A_PAR,
    Hardware,
    count_in_all,
    count_of_each,
    count_with_added,
    counts_side_by_side,
    whole_nodes,
)
from fitgauge.services.ask.machines import in_laptop
from fitgauge.services.ask.model_choice import after_contrast, end_of_contrast, is_left
from fitgauge.services.ask.names import GpuNames
from fitgauge.services.ask.other_gpus import BEFORE, CAPACITY
from fitgauge.services.ask.topics import is_about

_NEEDED = re.compile(
    r"(?:need\w*|requir\w*|take[sn]?|took|use[sd]?|consum\w*|show\w*|cost\w*|reach\w*|least|about"
    r"|around|(?<!better )than|~|occup\w*|increas\w*|占用|占|需要|需|要|至少|达到|大概|左右|消耗"
    r"|升到|降低|减小|最高|最小|最低)[^.,;?!，]{0,24}$|=\s{0,3}$"
)
_HAD = re.compile(
    r"(?:\b(?:in|on|with|en|em|con|avec|mit|auf|в|на|under|have|has|got|within|only|my|single|a|an|using"
    r"|for|is|i|out of|mod(?:d?ed)? (?:to|with))\b"
    r"|用|在|仅|只有|有|单卡|是|只)\s*(?:\w+\s)?[^\w]{0,3}$"
)
_ON_ONE = re.compile(
    r"\b(?:for|on|in|with)\s+(?:my|a|an|the|one|our)\s+(?:single\s+)?$|\b(?:out of|on)\s+$"
)
_ENDS = re.compile(r"[ ?!.。？！]*$|[ ?!.。？！]*[,;，；]")
"""The end of a clause, where a memory needs no other words."""
_SUFFICES = re.compile(
    r"\benough\b|\bcan \d+ ?gi?b\b|\bsuffic\w+"
    r"|\b(?:will|would|does|do)\b[^.?!]{0,16}\bdo\b|够|足り|충분",
    re.IGNORECASE,
)
"""Words by which the memory of a text is what somebody has."""
_OWN = re.compile(r"\b(?:have|has|got|my|own|only|our)\b|我|只有|手上|现有|本地")
_SLICE = re.compile(r"\b\dg\.\d{1,3}gb\b", re.IGNORECASE)
"""A slice of a GPU as MIG names it."""
_IN_ONE = re.compile(
    r"\b(?:together|combin\w+|mix\w*|split|across|both|alongside|plus)\b"
    r"|\bsame (?:pc|machine|rig|box)\b|llama\.?cpp|ollama|kobold|lm ?studio|混",
    re.IGNORECASE,
)
"""Words by which "and" between two GPUs means one machine with both."""

_AND = re.compile(
    r"\s*(?:and|und|et|y|e|,|、|&|和|与|及|와|과|랑|と)\s*(?:an?\s+|the\s+)?", re.IGNORECASE
)
_OR = re.compile(
    r"\s*(?:(?:of vram|vram|gpus?|cards?) )?(?:or|vs\.?|versus|to|over|instead of|还是)\s+"
    r"(?:(?:an?|the)\s+)?",
    re.IGNORECASE,
)
"""What stands between the memory of two GPUs, of which one is to be taken."""
_ADDS = re.compile(r"\+")
_PLUS = re.compile(r"\s(?:and|plus|with|along ?side)\s|和|加", re.IGNORECASE)
_NOTHING = re.compile(r"[\s,]*(?:and\s*)?\d+\s?x?\s*$", re.IGNORECASE)
"""What stands between the GPUs of one machine: a sign; words where the text says that they are
together; nothing but a count where each has one."""

_EDITIONS = ("", " laptop")
_CHIPS = ("", " pro", " max", " ultra")
"""Kinds of one generation that memory tells apart: an "M4 with 48 GB" is an M4 Pro."""

_OLD = 4
"""Memory that older GPUs than those of the catalog had [GB]."""

_TOLERANCE = 0.05
"""How far a memory size may be from a whole number to be that of a GPU [GB]."""


def choose(
    text: str, facts: Sequence[Fact], questions: Collection[int], gpus: GpuNames, *, terse: bool
) -> tuple[str | None, list[str], int | None]:
    """Return the GPU that is meant, else several on a par, and the count.

    facts: of hardware; questions: the numbers of the sentences that ask something; terse: whether
    the text is names and numbers alone, so that memory is that of a GPU."""
    hardware, options = _Choice(text, facts, questions, gpus, terse).hardware()
    if hardware is not None:
        name, count = name_of(hardware, gpus)
        if name and (counts := counts_side_by_side(text)):
            return None, [f"{number}x {name}" for number in counts], None
        if name and (sizes := _sizes_of(text, name, gpus)):
            return None, sizes, count
        return name and in_laptop(text, name, count, gpus), [], count
    named = [(name, count) for name, count in (name_of(one, gpus) for one in options) if name]
    names = [name for name, _ in named]
    counted = [count for _, count in named]
    if len({count or 1 for count in counted}) > 1:
        return None, [f"{count}x {name}" if count else name for name, count in named], None
    stated = [*counted, *(fact.value.count for fact in facts), count_of_each(text)]
    return None, names, max((count for count in stated if count), default=None)


def _sizes_of(text: str, name: str, gpus: GpuNames) -> list[str]:
    """Return the two sizes of a GPU that a text sets side by side: "A100 40 or 80"; none else."""
    bare = re.sub(r"\s*\d{1,3}\s?gi?b$", "", name, flags=re.IGNORECASE)
    for sizes in SIZES_ON_A_PAR.findall(text):
        named = [f"{bare} {size}GB" for size in sizes]
        if len(set(map(gpus.find, named)) - {None}) > 1:
            return named
    return []


class _Choice(NamedTuple):
    """The hardware of one text."""

    text: str
    """The question."""
    facts: Sequence[Fact]
    """What it says of hardware."""
    questions: Collection[int]
    """The sentences that ask something."""
    gpus: GpuNames
    """The names of the catalog."""
    terse: bool
    """Whether the text is names and numbers alone."""

    def hardware(self) -> tuple[Hardware | None, list[Hardware]]:
        """Return the GPUs that are meant, or several that are on a par."""
        facts = [fact for fact in self.facts if self._is_hardware(fact)]
        named = [fact for fact in facts if fact.value.name]
        if not is_about(self.text, "comparison"):
            named = [fact for fact in named if not is_left(self.text, fact)] or named
        distinct: dict[object, Fact] = {}
        for fact in named:
            match = self.gpus.find(fact.value.name)
            distinct.setdefault(match.accelerator.id if match else fact.value.name, fact)
        bare = [fact for fact in facts if not fact.value.name]
        matches = [self.gpus.find(fact.value.name) for fact in named]
        unified = any(match and match.accelerator.unified_memory for match in matches)
        if not unified and (macs := self._asked_macs(bare)):
            return self._unnamed(macs), []
        if (together := self._together(named)) is not None:
            return together, []
        if len(distinct) == 1:
            (first,) = distinct.values()
            meant = [fact.value for fact in self._after_contrast(named)]
            return self._completed(meant, bare, first), []
        if not distinct:
            sizes = self._sizes_on_a_par()
            return (None, sizes) if sizes else (self._unnamed(bare), [])
        in_questions = [fact for fact in distinct.values() if fact.sentence in self.questions]
        by_sentence = [
            [fact for fact in distinct.values() if fact.sentence == sentence]
            for sentence in sorted({fact.sentence for fact in in_questions})
        ]
        alone = next((facts_[0] for facts_ in by_sentence if len(facts_) == 1), None)
        if alone is not None:
            return self._completed([alone.value], bare, alone), []
        options = list(distinct.values())
        after = [fact for fact in options if fact.start >= end_of_contrast(self.text)]
        options = after if len(after) > 1 else options
        if (
            not is_about(self.text, "comparison")
            and (moved := after_contrast(self.text, options)) is not None
        ):
            return self._completed([moved.value], bare, moved), []
        if is_about(self.text, "comparison") or len(options) > 2 or self._are_on_a_par(options):
            return None, [fact.value for fact in options]
        return self._completed([options[0].value], bare, options[0]), []

    def _are_on_a_par(self, named: Sequence[Fact]) -> bool:
        """Return whether nothing but "and" stands between two GPUs."""
        first, second = sorted(named, key=lambda fact: fact.start)
        return _AND.fullmatch(self.text[first.end : second.start]) is not None

    def _sizes_on_a_par(self) -> list[Hardware]:
        """Return GPUs that a question sets side by side by their memory alone: "a 16GB or a 24GB
        card"; none else."""
        sized = [
            fact
            for fact in self.facts
            if fact.value.memory in self.gpus.memories
            and (fact.sentence in self.questions or not self.questions)
        ]
        for one, other in itertools.pairwise(sized):
            between = self.text[one.end : other.start]
            if one.value.memory != other.value.memory and _OR.fullmatch(between):
                return [one.value, other.value]
        return []

    def _together(self, named: Sequence[Fact]) -> Hardware | None:
        """Return GPUs of several kinds in one machine: "RTX 4090 + RTX 3060", "1x4090 1x3060"."""
        if len(named) < 2 or named[0].sentence != named[-1].sentence:
            return None
        if is_about(self.text[named[0].end : named[-1].start], "comparison"):
            return None
        sized = (name_of(fact.value, self.gpus) for fact in named)
        pairs = [(str(name), count) for name, count in sized]
        joins = [_ADDS, *([_PLUS] if _IN_ONE.search(self.text) else [])]
        joins += [_NOTHING] if all(count for _, count in pairs) else []
        for one, other in itertools.pairwise(named):
            name_at = self.text.find(other.value.name, other.start)
            between = self.text[one.end : max(one.end, name_at)]
            if not any(join.search(between) for join in joins):
                return None
        joined = " + ".join(f"{count}x {name}" if count else name for name, count in pairs)
        return Hardware(joined, None, None, None, True) if self.gpus.are_unlike(joined) else None

    def _completed(self, named: Sequence[Hardware], bare: Sequence[Fact], first: Fact) -> Hardware:
        """Return the GPU that is named, with the count and the memory said elsewhere."""
        first = first._replace(value=self._opened(first.value))
        named = sorted(map(self._opened, named), key=lambda one: -(one.count or 0))
        near = [fact.value for fact in bare if abs(fact.sentence - first.sentence) <= 1]
        others = [fact.value for fact in bare]
        counts = [one.count for one in named if one.count is not None]
        counts = counts or [one.count for one in others if one.count is not None]
        count = max(counts, default=None)
        machines = max(one.machines or 1 for one in (*named, *others))
        if count is not None and machines > 1:
            count *= machines
        match = self.gpus.find(first.value.name)
        nodes = whole_nodes(self.text)
        if match is not None and nodes is not None:
            if count is None or count == nodes:
                count = nodes * (match.accelerator.node_size or 1)
        elif count is None and machines > 1 and match is not None:
            count = machines * (match.accelerator.node_size or 1)  # "2 H200 nodes"
        if match is not None and match.accelerator.unified_memory:
            near = [fact.value for fact in self.facts]
        if (added := count_with_added(self.text, [fact.start for fact in self.facts])) and (
            count or 1
        ) < added:
            count = added
        if machines == 1:
            count = count_in_all(self.text, count)
        name = first.value.name
        if (part := _SLICE.search(self.text)) and self.gpus.find(f"{name} {part[0]}"):
            name = f"{name} {part[0]}"  # "3g.40gb on an H100"
        everything = (*named, *near)
        memory = next((one.memory for one in everything if one.memory is not None), None)
        ram = next((one.ram for one in everything if one.ram is not None), None)
        return Hardware(name, count, memory, ram, True, any(one.mac for one in named))

    def _opened(self, one: Hardware) -> Hardware:
        """Return the GPUs of a cloud's machine in place of its name: those that the text counts
        besides are the same."""
        match = self.gpus.find(one.name) if one.name else None
        if match is None or match.count == 1 or match.unlike:
            return one
        count = match.count * (one.count or 1) * (one.machines or 1)
        name = match.accelerator.name
        return msgspec.structs.replace(one, name=name, count=count, machines=None)

    def _after_contrast(self, named: Sequence[Fact]) -> Sequence[Fact]:
        """Return the GPUs behind "but" where they are counted there: those before ran, or are
        what somebody has not."""
        contrast = end_of_contrast(self.text)
        after = [fact for fact in named if fact.start >= contrast]
        return after if any(fact.value.count for fact in after) else named

    def _asked_macs(self, bare: Sequence[Fact]) -> list[Fact]:
        """Return the Macs in questions that no GPU is named in."""
        return [
            fact
            for fact in bare
            if fact.value.mac
            and (fact.value.memory or fact.value.ram)
            and fact.sentence in self.questions
        ]

    def _unnamed(self, bare: Sequence[Fact]) -> Hardware | None:
        """Return GPUs that a sentence describes by memory or number alone."""
        described = [fact for fact in bare if fact.value.memory is not None or fact.value.mac]
        sized = [fact.value for fact in described]
        own = [fact.value for fact in described if _OWN.search(self._before(fact))]
        several = [one for one in sized if (one.count or 0) > 1]
        counts = [fact.value.count for fact in bare if fact.value.count is not None]
        if not sized:
            in_all = count_in_all(self.text, counts[0]) if counts else None
            return Hardware(None, in_all, None, None, True) if counts else None
        one: Hardware = (several or own or sized)[0]
        count = one.count if several else max(counts, default=None)
        return msgspec.structs.replace(one, count=count_in_all(self.text, count), machines=None)

    def _before(self, fact: Fact) -> str:
        """Return what stands before a fact, in small letters."""
        return self.text[max(0, fact.start - BEFORE) : fact.start].lower()

    def _is_hardware(self, fact: Fact) -> bool:
        """Return whether a phrase is about GPUs that somebody has, not about what is needed."""
        one: Hardware = fact.value
        if one.name is not None or (one.mac and (one.memory or one.ram)):
            return True
        before = self._before(fact)
        if one.memory is None:
            return one.count is not None or one.machines is not None
        is_sold = one.memory <= _OLD or round(one.memory) in self.gpus.memories
        if not is_sold and one.count is None:
            return False
        if abs(one.memory - round(one.memory)) > _TOLERANCE:
            return False
        if (one.count or 0) > 1:
            return True
        if _NEEDED.search(before) and not _ON_ONE.search(before):
            return False
        if self.terse or _ENDS.match(self.text, fact.end):
            return True
        if fact.start == 0 or (_SUFFICES.search(self.text) and not CAPACITY.search(self.text)):
            return True
        return one.named or one.count is not None or _HAD.search(before) is not None


def name_of(one: Hardware, gpus: GpuNames) -> tuple[str | None, int | None]:
    """Return the GPU as a request names it, and the count."""
    count = one.count
    if one.name is None:
        memory = one.memory or (one.ram if one.mac else None)
        if memory is None:
            return None, count
        unified = f"Mac {memory:g}GB"
        if one.mac and gpus.find(unified):
            return unified, count
        return (f"{memory:g}GB" if gpus.find(f"{memory:g}GB") else None), count
    match = gpus.find(one.name)
    name = one.name
    if match is not None and match.count > 1:
        count = match.count * (count or 1)
        name = match.accelerator.name
    unified_memory = match is not None and match.accelerator.unified_memory
    for size in (one.memory, one.ram if unified_memory else None):
        if size is None or match is None or re.search(r"\d\s?gi?b?\b", name.lower()):
            continue
        kinds = _CHIPS if unified_memory else _EDITIONS
        sized = (f"{name}{kind} {size:g}GB" for kind in kinds)
        if (sold := next(filter(gpus.find, sized), None)) is not None:
            return sold, count
    return name, count
