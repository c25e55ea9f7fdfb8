"""Settings of a training as its tools write them: flags of a command, YAML, TOML or JSON, overrides
and keyword arguments of a script. The names are those of the launchers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.launchers import registry
from fitgauge.services.training_fit.launchers.torchtune import RECIPE_NAME
from fitgauge.services.training_fit.launchers.trl import TRL
from fitgauge.services.training_fit.setting_names import FIELDS, MEANINGS, Read
from fitgauge.services.training_fit.settings_together import put_together

_NAME = r"[A-Za-z_][\w.-]{0,80}+"
_VALUE = r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|\[[^\]\n]{0,400}\]|[^\s,;(){}\[\]\"']{1,200}+"
_LISTED = r"(?:(?:,|[ \t]+)[A-Za-z]\w{0,40}_\w{1,40}+(?![\w.:=]))*+"
"""More values behind a first one: names of linears and modules."""
_PAIR = re.compile(
    rf"(?<![\w./-])(?:(?P<flag>--{_NAME})(?:[ \t=]+(?P<given>(?!-)(?:{_VALUE}){_LISTED}))?"
    rf"|[\"']?(?P<name>{_NAME})[\"']?[ \t]*[:=][ \t]*(?P<value>(?:{_VALUE}){_LISTED}|\{{)?"
    r"|(?P<spoken>[a-z]+_\w{1,60}+)[ \t]+(?P<number>\d+(?:\.\d+)?)\b)"
)
_COMMENT = re.compile(r"(?:(?<=\s)|^)#(?: .*)?$", re.MULTILINE)
_DEEPEST = 80
"""Spaces before a setting of YAML: a longer line is not searched for its begin."""
_OPENED = re.compile(r"[{}]")
_BLOCK_LIST = re.compile(
    r"^([ \t]*[\w.-]{1,80}+:)[ \t]*((?:\n[ \t]*-[ \t]+[\w.-]{1,80}+[ \t]*$)+)", re.MULTILINE
)


class _Setting(NamedTuple):
    name: str
    """Lower-case, with underscores, under the names of the objects around it."""
    value: str
    """Empty of a switch."""


def _word(text: str) -> str:
    return text.strip().strip("\"'")


_CALLED = re.compile(r"\b(LoraConfig|get_peft_model)\s*\(")
_TRAINERS = re.compile(
    r"\btrl(?:\.scripts\.| )(?P<script>dpo|kto|grpo|rloo|reward)\b"
    r"|\b(?P<class>DPO|KTO|GRPO|RLOO|ORPO|GKD|Reward)(?:Config|Trainer)\b"
)
"""What trains by another algorithm than sft: TRL's scripts and classes."""
_SIGNS: Mapping[tuple[str, str], re.Pattern[str]] = {
    ("framework", "megatron"): re.compile(r"\bpretrain_gpt\.py\b|\bmegatron (?:sft|rlhf|pt)\b"),
    ("method", "lora"): re.compile(rf"\blora{RECIPE_NAME}|\bLoraConfig\(|\bget_peft_model\("),
    ("method", "full"): re.compile(rf"\bfull{RECIPE_NAME}|\bpretrain_gpt\.py\b"),
    ("activation_checkpointing", "none"): re.compile(
        r"\A(?!.*gradient_checkpointing).*?\bopenrlhf\.cli\b", re.DOTALL
    ),
    ("offload", "optimizer"): re.compile(r"\boffload_optimizer\b(?![^\n]{0,30}\bnone\b)"),
}
"""What only such a text has."""


def tool_settings(text: str, gpus: int | None = None) -> dict[str, object]:
    """Return the fields of check_training_fit that the settings in a text set, whatever else it
    says; what is out of bounds is left to the request's own check. gpus: those that train, where
    the text does not say how many processes it starts."""
    fields: dict[str, Any] = {}
    rank: dict[str, int] = {}
    text = _in_brackets(_COMMENT.sub("", text))
    for setting in _settings(text):
        for key in _meant(setting.name):
            field, read = key
            if field in fields and rank[field] <= FIELDS[key]:
                continue
            try:
                value = read(setting.value)
            except (ValueError, InvalidRequestError):
                continue
            if value is not None:
                fields[field], rank[field] = value, FIELDS[key]
    if (trainer := _TRAINERS.search(text)) is not None:
        fields.setdefault("algorithm", (trainer["script"] or trainer["class"]).lower())
    if fields.get("algorithm", "sft") != "sft":
        fields.pop("packed", None)  # of supervised training alone
    if fields or _TRAINERS.search(text) or re.search(RECIPE_NAME, text):
        for (field, value), sign in (*_tools(), *_SIGNS.items()):
            if field not in fields and sign.search(text):
                fields[field] = value
    return put_together(fields, gpus)


def _tools() -> Iterator[tuple[tuple[str, str], re.Pattern[str]]]:
    """Yield the tools with their signs, TRL last: others build on it."""
    for tool in sorted(registry.TOOLS, key=lambda tool: tool is TRL):
        if tool.sign is not None:
            yield ("trainer", tool.name), tool.sign


def _in_brackets(text: str) -> str:
    """Return the text with YAML's lists of a name a line in brackets."""
    return _BLOCK_LIST.sub(lambda one: f"{one[1]} [{', '.join(one[2].split()[1::2])}]", text)


def _meant(name: str) -> tuple[tuple[str, Read], ...]:
    """Return what a name means: with as many of the names around it as a row has."""
    while name not in MEANINGS and "." in name:
        name = name.partition(".")[2]
    return MEANINGS.get(name, ())


def _settings(text: str) -> Iterator[_Setting]:
    """Yield the settings of a text, those of an object or a call under its name."""
    around: list[str] = []
    sections: list[tuple[int, str]] = []
    place = 0
    calls = [(match.end(), match[1].lower()) for match in _CALLED.finditer(text)][::-1]
    call = ""
    for match in _PAIR.finditer(text):
        for brace in _OPENED.finditer(text, place, match.start()):
            if brace[0] == "}" and around:
                around.pop()
            elif brace[0] == "{":
                around.append("")
        place = match.end()
        written = match["flag"] or match["name"] or match["spoken"]
        name = written.lstrip("-").lower().replace("-", "_")
        value = match["given"] or match["value"] or match["number"]
        if value == "{":
            around.append(name)
            continue
        if (column := _column(text, match.start())) is not None:
            while sections and sections[-1][0] >= column:
                sections.pop()
        if value is None and not match["flag"]:
            if column is not None:
                sections.append((column, name))
            continue
        while calls and calls[-1][0] <= match.start():
            call = calls.pop()[1]
        within = around[-1] if around else call if name == "r" else ""
        if column is not None and sections:
            within = ".".join(one for _, one in sections)
        yield _Setting(f"{within}.{name}" if within else name, _word(value or ""))


def _column(text: str, place: int) -> int | None:
    """Return the indent of what begins at a place; None where it begins no line."""
    before = text[max(0, place - _DEEPEST) : place]
    indent = before.rpartition("\n")[2]
    ends_here = "\n" in before or place <= _DEEPEST
    return len(indent) if ends_here and not indent.strip() else None
