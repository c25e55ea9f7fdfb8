"""Short answers with a verdict: serving and training."""

from msgspec import UNSET

from fitgauge.engine.quantity import GIB
from fitgauge.services.common.fit_schemas import FitAnswer, PerGpu
from fitgauge.services.common.responses import host_in_words
from fitgauge.services.common.schemas import GpuAnswer, Verdict
from fitgauge.services.common.speed_schemas import SpeedAnswer
from fitgauge.services.fit.echo import OF_THE_SPEED
from fitgauge.services.fit.speed import in_words, targets_in_words
from fitgauge.services.tools.arguments import Arguments
from fitgauge.services.tools.faces import Tool
from fitgauge.services.tools.needs import needs_answer
from fitgauge.services.tools.schemas import Other, ToolAnswer
from fitgauge.services.tools.wording import (
    assumed,
    bounded,
    engine_title,
    fixes,
    gib,
    gpus,
    number,
    one_decimal,
    parts,
    readings,
    short_name,
    shown_warnings,
    unrepeated,
)
from fitgauge.services.training_fit.around import around_in_words
from fitgauge.services.training_fit.schemas import TrainingAnswer

_VERDICTS: dict[Verdict, str] = {
    "fits": "fits",
    "tight": "is tight",
    "does_not_fit": "does not fit",
    "unsupported": "is not supported",
}
_METHODS = {"lora": "LoRA", "qlora": "QLoRA", "dora": "DoRA", "full": "full fine-tuning"}
_TRAINING_FIELDS = (
    "model", "method", "activation_checkpointing", "framework", "precision", "optimizer", "loss",
    "micro_batch_size", "sequence_length", "quantization",
)  # fmt: skip
"""What is assumed of a training, the decisive first."""


def fit_answer(
    tool: Tool, call: Arguments, answer: FitAnswer, quantization: str | None
) -> ToolAnswer:
    """Return the short answer about serving. quantization: the format of the weights."""
    if answer.gpu is None or answer.verdict is None:
        return needs_answer(call, answer)
    understood = answer.understood_as
    context, requests = number(understood, "context_length"), number(understood, "concurrency")
    short = ToolAnswer(
        verdict=answer.verdict or UNSET,
        answer="",
        model=answer.model.id,
        gpu=answer.gpu.name,
        gpu_count=answer.gpu.count,
        engine=str(understood["engine"]),
        quantization=quantization or UNSET,
        context_length=context,
        concurrency=requests,
        fixes=fixes(tool, call, answer.suggestions) or UNSET,
        command=answer.launch.command if answer.launch else UNSET,
    )
    notes = [
        f"{one.setting} {_plain(one.value)} instead of {_plain(one.default)}"
        for one in answer.chosen
    ]
    first = [*notes, *call.notes, *readings(answer.read_as)]
    short.assumed = unrepeated([*first, *assumed(answer.assumed)]) or UNSET
    short.warnings = shown_warnings(answer.warnings) or UNSET
    _sizes(short, answer)
    if answer.verdict == "unsupported":
        short.answer = one_decimal(answer.summary)
    else:
        if answer.limits and answer.verdict != "does_not_fit":
            short.max_context = answer.limits.max_context_length or UNSET
            short.max_concurrency = answer.limits.max_concurrency or UNSET
        load = f"at {context:,} tokens" if isinstance(context, int) else "as asked"
        if isinstance(requests, int) and requests > 1:
            load += f" x {requests:,} requests"
        subject = _served(answer, answer.gpu, quantization)
        short.answer = _sentence(subject, short, load, answer)
    if answer.speed is not None:
        _speed(short, answer.speed, is_asked=bool(OF_THE_SPEED & understood.keys()))
    return bounded(short)


def _served(answer: FitAnswer, gpu: GpuAnswer, quantization: str | None) -> str:
    """Return what is served where, with the verdict."""
    understood = answer.understood_as
    written = f"{short_name(answer.model.id)}{f' in {quantization}' if quantization else ''}"
    if half := understood.get("disaggregation"):
        written += f" ({half})"
    version = str(understood.get("engine_version", "")).removesuffix(".0")
    place = f"{gpus(gpu)} with {engine_title(understood['engine'])} {version}".rstrip()
    if any(one.code == "engine-version-unknown" for one in answer.warnings):
        place += " (not known yet: see warnings)"
    return f"{written} {_in_words(answer.verdict)} on {place}{targets_in_words(answer.speed)}"


def training_answer(tool: Tool, call: Arguments, answer: TrainingAnswer) -> ToolAnswer:
    """Return the short answer about training."""
    if answer.gpu is None or answer.verdict is None:
        return needs_answer(call, answer)
    understood = answer.understood_as
    method = str(understood.get("method", ""))
    batch, length = number(understood, "micro_batch_size"), number(understood, "sequence_length")
    short = ToolAnswer(
        verdict=answer.verdict or UNSET,
        answer="",
        model=answer.model.id,
        gpu=answer.gpu.name,
        gpu_count=answer.gpu.count,
        method=method,
        sequence_length=length,
        micro_batch_size=batch,
        others={
            name: Other(needs_gib=gib(one.required_bytes), verdict=one.verdict)
            for name, one in answer.others.items()
        }
        or UNSET,
        fixes=fixes(tool, call, answer.suggestions) or UNSET,
        command=answer.launch.command if answer.launch else UNSET,
    )
    _sizes(short, answer)
    if answer.limits is not None and answer.limits.max_micro_batch_size:
        short.max_micro_batch_size = answer.limits.max_micro_batch_size
    if answer.limits is not None and answer.limits.max_sequence_length:
        short.max_sequence_length = answer.limits.max_sequence_length
    if answer.verdict == "unsupported":
        short.answer = one_decimal(answer.summary)
    else:
        algorithm = understood.get("algorithm")
        title = _METHODS.get(method, method)
        base = understood.get("quantization") if method == "lora" else None
        title = title if algorithm in (None, "sft") else f"{str(algorithm).upper()} by {title}"
        title = f"{title[0].upper()}{title[1:]}"
        subject = f"{title} of {short_name(answer.model.id)}"
        subject += f" over a base in {base}" if base else ""
        short.answer = _sentence(
            f"{subject} {_in_words(answer.verdict)} on {gpus(answer.gpu)}",
            short,
            f"with {batch} x {length:,} tokens" if isinstance(length, int) else "as asked",
            answer,
        )
        short.answer += one_decimal(around_in_words(answer))
    first = [*call.notes, *readings(answer.read_as)]
    short.assumed = unrepeated([*first, *assumed(answer.assumed, _TRAINING_FIELDS)]) or UNSET
    short.warnings = shown_warnings(answer.warnings) or UNSET
    return bounded(short)


def _of_host(answer: FitAnswer | TrainingAnswer) -> str:
    """Return the host memory that an answer needs, as a sentence without its end; empty for what
    any machine has."""
    if answer.host_memory is None or answer.host_memory.total_bytes < GIB:
        return ""
    machine = answer.understood_as.get("host_memory_gib")
    has = float(machine) if isinstance(machine, int | float) else None
    return f". {one_decimal(host_in_words(answer.host_memory, has))}".removesuffix(".")


def _speed(short: ToolAnswer, speed: SpeedAnswer, *, is_asked: bool) -> None:
    """Fill in the speed; where a call asks for it, also the time to a first token, how they are
    known and which are reached."""
    rates, first = speed.tokens_per_second_per_request, speed.seconds_to_first_token
    short.tokens_per_second_per_request = float(f"{rates.expected:.3g}")
    if not is_asked:
        return
    if first is not None:
        short.seconds_to_first_token = float(f"{first.expected:.2g}")
    short.answer += (
        in_words(speed) or f" {rates.expected:.3g} tokens a second and request ({speed.basis})."
    )


def _in_words(verdict: Verdict | None) -> str:
    return _VERDICTS[verdict] if verdict else ""


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:,}"


def _sizes(short: ToolAnswer, answer: FitAnswer | TrainingAnswer) -> None:
    """Fill in what a GPU needs and may use, where the answer has it."""
    memory = answer.per_gpu
    if memory is None or answer.terms is None:
        return
    needs, usable = memory.required_bytes, memory.usable_bytes
    if isinstance(memory, PerGpu) and memory.limited_by == "budget":
        usable = memory.budget_bytes
    short.needs_gib = gib(needs.expected)
    short.usable_gib = gib(usable)
    short.range_gib = [gib(needs.low), gib(needs.high)]
    short.parts_gib = parts(answer.terms, gib(needs.expected))


def _sentence(
    subject: str, short: ToolAnswer, load: str, answer: FitAnswer | TrainingAnswer
) -> str:
    """Return the answer in words, with the figures of the fields."""
    each = " per GPU" if short.gpu_count is not UNSET and short.gpu_count > 1 else ""
    if isinstance(short.gpu, str) and " + " in short.gpu:
        each = " on the fullest GPU"
    if short.verdict == "does_not_fit":
        text = f"{subject}: needs {short.needs_gib:,} GiB{each} {load}, {short.usable_gib:,} usable"
    else:
        text = f"{subject}: {short.needs_gib:,} of {short.usable_gib:,} GiB{each} {load}"
    if short.verdict == "tight" and answer.fit_probability is not None:
        text += f"; {answer.fit_probability:.0%} likely"
    if short.max_context is not UNSET:
        text += f"; {short.max_context:,} tokens at most"
        if short.max_concurrency is not UNSET:
            text += (
                f", or {short.max_concurrency:,} request{'s' if short.max_concurrency > 1 else ''}"
            )
    if short.max_micro_batch_size is not UNSET and short.verdict != "does_not_fit":
        most = short.max_micro_batch_size
        text += f"; {most} sequence{'s' if most > 1 else ''} at most"
        if short.max_sequence_length is not UNSET:
            text += f", or of {short.max_sequence_length:,} tokens"
    text += _of_host(answer)
    if isinstance(short.fixes, list) and short.verdict != "fits":
        first = short.fixes[0]
        text += f". Fix: {first.change} ({first.needs_gib:,} GiB)"
    elif short.verdict == "does_not_fit":
        text += ". No change on this GPU is known to help: see recommend_gpus"
    return f"{text}."
