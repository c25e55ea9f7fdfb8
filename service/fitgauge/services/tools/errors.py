"""Errors of the tools: what is wrong, and the arguments of the next call."""

from collections.abc import Mapping
from types import MappingProxyType

from fitgauge.errors import FitgaugeError, HubError, ModelError, UnknownAcceleratorError
from fitgauge.services.tools.faces import OPTIONS, Tool
from fitgauge.services.tools.schemas import ToolError, Value
from fitgauge.services.tools.wording import to_arguments

_LONGEST = 590
"""Characters of a message, which ends between words."""

_ALTERNATIVES = 3
_NAMES = ("model", "gpu")
"""A near name of these may mean another thing: the service says what to send."""


class UnknownToolError(Exception):
    """No tool has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class ToolCallError(Exception):
    """A call without an answer: `reason` is why, `answer` is what the caller gets."""

    def __init__(self, reason: FitgaugeError, answer: ToolError) -> None:
        super().__init__(reason.detail)
        self.reason = reason
        self.answer = answer


def explain(
    tool: Tool,
    reason: FitgaugeError,
    sent: Mapping[str, object],
    options: str = "",
    keys: Mapping[str, str] = MappingProxyType({}),
) -> ToolError:
    """Return the error of a call. sent: the fields of the call. options: its options, read. keys:
    names beyond the face under which fields were sent, to be left out with them."""
    field = _field(tool, reason, sent)
    send: dict[str, Value] = {
        name: "" if value is None else value
        for name, value in (getattr(reason, "send", None) or {}).items()
    }
    others = list(reason.matches)
    if not send and reason.field and field not in _NAMES and others:
        send, others = {reason.field: others[0]}, others[1:]
    if (
        not send
        and field in sent
        and field not in tool.required
        and (reason.code == "unknown-model" or not isinstance(reason, HubError))
    ):
        send = {str(field): ""}
    send = _in_lists(tool, reason, send, sent)
    text = f"{reason.detail} {reason.hint}".strip() if not others else reason.detail
    answer = ToolError(error=_shortened(text), code=reason.code)
    if send:
        answer.send = to_arguments(tool, send, options)
        answer.send |= {keys[name]: "" for name in send if send[name] == "" and name in keys}
    if alternatives := [name for name in others if name not in send.values()]:
        answer.alternatives = alternatives[:_ALTERNATIVES]
    return answer


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0]} ..."


def _in_lists(
    tool: Tool, reason: FitgaugeError, send: Mapping[str, Value], sent: Mapping[str, object]
) -> dict[str, Value]:
    """Return what to send, with a name of a list (`models`) in the place of the one at fault."""
    fields: dict[str, Value] = {}
    for name, value in send.items():
        several = f"{name}s"
        if name in tool.request.__struct_fields__ or name == OPTIONS:
            fields[name] = value
        elif several in sent:
            names = [one.strip() for one in str(sent[several]).split(",")]
            fields[several] = ", ".join(
                str(value) if repr(one) in reason.detail else one for one in names
            )
    return fields


def _field(tool: Tool, reason: FitgaugeError, sent: Mapping[str, object]) -> str | None:
    """Return the argument at fault, where one value of it would do; None for lists. Of several
    models it is the one that the reason names."""
    field = reason.field
    if field in (None, "model") and isinstance(reason, ModelError | HubError):
        models = [name for name in sent if name.endswith("_model")]
        field = next((name for name in models if repr(sent[name]) in reason.detail), "model")
    if field is None and isinstance(reason, UnknownAcceleratorError):
        field = "gpu"
    return field if field in tool.request.__struct_fields__ else None
