"""Registry of the training tools: one line a tool, whose file says the rest."""

from collections.abc import Container, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache

from msgspec import structs

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import SAMPLED, Algorithm
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.launchers.automodel import AUTOMODEL
from fitgauge.services.training_fit.launchers.axolotl import AXOLOTL
from fitgauge.services.training_fit.launchers.lightning import LIGHTNING
from fitgauge.services.training_fit.launchers.litgpt import LITGPT
from fitgauge.services.training_fit.launchers.llama_factory import LLAMA_FACTORY
from fitgauge.services.training_fit.launchers.megatron import MEGATRON_LAUNCHER
from fitgauge.services.training_fit.launchers.ms_swift import MS_SWIFT
from fitgauge.services.training_fit.launchers.nemo import NEMO
from fitgauge.services.training_fit.launchers.openrlhf import OPENRLHF
from fitgauge.services.training_fit.launchers.tool import Default, Launcher, Tool, Value, word_of
from fitgauge.services.training_fit.launchers.torchtitan import TORCHTITAN
from fitgauge.services.training_fit.launchers.torchtune import TORCHTUNE
from fitgauge.services.training_fit.launchers.trl import TRL, TRL_LAUNCHER
from fitgauge.services.training_fit.launchers.unsloth import UNSLOTH
from fitgauge.services.training_fit.launchers.verl import VERL
from fitgauge.services.training_fit.launchers.words_as_files import FilesOf
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.shared_fields import SharedFields

TOOLS: tuple[Tool, ...] = (
    TRL,
    UNSLOTH,
    AXOLOTL,
    LLAMA_FACTORY,
    MS_SWIFT,
    TORCHTUNE,
    TORCHTITAN,
    LITGPT,
    LIGHTNING,
    NEMO,
    AUTOMODEL,
    VERL,
    OPENRLHF,
)

_NOT_MODELLED: Mapping[str, tuple[str, str]] = {
    "colossalai": (
        "ColossalAI's Gemini moves chunks between GPU and host while it trains",
        "framework deepspeed with zero_stage 3",
    ),
    "fairseq": (
        "fairseq has flat fp32 copies of its own",
        "framework deepspeed with zero_stage 0, which needs as much",
    ),
    **dict.fromkeys(
        ("mlx", "mlxlm", "mlxtune"),
        (
            "MLX's training memory was never measured",
            "framework transformers, for a rough estimate",
        ),
    ),
}
"""Tools without an estimate: the reason, and the nearest request."""


def launcher_of(workload: TrainingWorkload) -> Launcher:
    """Return the launcher of a framework."""
    return MEGATRON_LAUNCHER if workload.framework == "megatron" else TRL_LAUNCHER


def readers() -> Iterator[FilesOf]:
    """Yield what reads a command as files, of every tool and launcher that has some."""
    for files in (*(tool.files for tool in TOOLS), MEGATRON_LAUNCHER.files):
        if files is not None:
            yield files


def tools_by_word() -> Mapping[str, Tool]:
    """Return the tools by every name and alias."""
    return _by_word(TOOLS)


@lru_cache(maxsize=8)
def _by_word(tools: tuple[Tool, ...]) -> Mapping[str, Tool]:
    return {word: tool for tool in tools for word in tool.words}


def find_tool(text: str | None) -> Tool | None:
    """Return the tool of this name, however it is written; None where no tool has it."""
    return None if text is None else tools_by_word().get(word_of(text))


def tool_named(text: str) -> Tool:
    """Return the tool of this name. Raises InvalidRequestError for an unknown one."""
    if (tool := find_tool(text)) is not None:
        return tool
    raise InvalidRequestError(
        f"Unknown trainer {text.strip()!r}.",
        hint=f"Send {', '.join(tool.name for tool in TOOLS)}.",
        matches=tuple(get_close_matches(word_of(text), tools_by_word(), n=3)),
        field="trainer",
        code="unknown-trainer",
    )


def tool_of(request: SharedFields) -> Tool | None:
    """Return the tool a request names as its trainer, else as its framework; None without one.
    NeMo is Automodel with PyTorch's own frameworks, else Megatron-Bridge.

    Raises InvalidRequestError for an unknown trainer, and for a version without one.
    """
    if request.trainer is None:
        tool = find_tool(request.framework)
        if tool is None and request.trainer_version is not None:
            raise InvalidRequestError(
                "trainer_version is that of a trainer, and none is named.",
                hint="Name the trainer as framework, or leave trainer_version out.",
                field="trainer_version",
                code="conflicting-fields",
            )
        return tool
    tool = tool_named(request.trainer)
    of_torch = word_of(request.framework or "").startswith(("fsdp", "transformers"))
    return AUTOMODEL if tool is NEMO and of_torch else tool


def tool_running(request: TrainingRequest, algorithm: Algorithm) -> Tool:
    """Return the tool whose command runs the algorithm: the one that a request names, else TRL."""
    tool = tool_of(request)
    if tool is None:
        return TRL
    samples = algorithm in SAMPLED and tool.sampling_command is not None
    return tool if samples or algorithm in tool.algorithms else TRL


def not_modelled(text: str) -> InvalidRequestError | None:
    """Return the error for a tool whose memory is not modelled, with the nearest request."""
    if (row := _NOT_MODELLED.get(word_of(text))) is None:
        return None
    reason, nearest = row
    return InvalidRequestError(
        f"{text.strip()} is not modelled: {reason}.",
        hint=f"Send {nearest}.",
        field="framework",
        code="not-modelled",
    )


def with_tool_defaults(
    request: TrainingRequest, method: str, count: int, spec: ModelSpec
) -> TrainingRequest:
    """Return the request with the defaults and the framework of its tool; a framework that the
    request names together with a trainer stays."""
    if (tool := tool_of(request)) is None:
        return request
    open_framework = request.framework is None or find_tool(request.framework) is not None
    defaults: dict[str, Value] = {
        default.field: default.value for default in tool.defaults_for(request, method, count, spec)
    }
    return structs.replace(
        request,
        **defaults,
        trainer=tool.name,
        framework=tool.framework_on(count) if open_framework else request.framework,
    )


def moved_defaults(
    sent: TrainingRequest, method: str, count: int, spec: ModelSpec
) -> tuple[Default, ...]:
    """Return what other releases of a request's tool, else of TRL, take for the fields that it
    leaves out."""
    return (tool_of(sent) or TRL).moved_for(sent, method, count, spec)


def tool_defaults(
    sent: TrainingRequest, filled: TrainingRequest, understood: Container[str]
) -> dict[str, Value]:
    """Return the fields that the tool fills in, with its values.

    `sent`, `filled`: the request before and after `with_tool_defaults`; `understood`: fields that
    matter to this model.
    """
    tool = tool_of(filled)
    return {
        default.field: default.value
        for default in ((*tool.moved, *tool.defaults) if tool else ())
        if default.field in understood
        and getattr(sent, default.field) is None
        and getattr(filled, default.field) == default.value
    }


def defaults_note(
    sent: TrainingRequest, filled: TrainingRequest, understood: Container[str]
) -> Note | None:
    """Return `tool_defaults` as a warning; None where there are none."""
    tool, values = tool_of(filled), tool_defaults(sent, filled, understood)
    if tool is None or not values:
        return None
    settings = ", ".join(f"{field} {_text(value)}" for field, value in values.items())
    return Note("tool-defaults", "framework", f"Defaults of {tool.of_release(filled)}: {settings}.")


def _text(value: Value) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
