"""A check of manifests: every model server in them asked about, and what to change."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.engine.quantity import gib
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.rope_scaling import OPTION
from fitgauge.errors import FitgaugeError, UnknownModelError
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.model_schemas import ModelDetail
from fitgauge.services.common.schemas import FitRequest, Verdict
from fitgauge.services.manifests.command_line import (
    Flag,
    ServerCommand,
    follows,
    host_weights_flag,
    server_command,
)
from fitgauge.services.manifests.containers import Container
from fitgauge.services.manifests.disk import disk_note, download
from fitgauge.services.manifests.gpus import gpus_of
from fitgauge.services.manifests.questions import (
    MissingModelError,
    Question,
    question,
    shared_memory_note,
)
from fitgauge.services.manifests.reading import Manifest, read_manifests
from fitgauge.services.manifests.schemas import (
    Change,
    FileRemark,
    ManifestsAnswer,
    Remark,
    Rule,
    ServerAnswer,
)
from fitgauge.services.manifests.summary import summary
from fitgauge.services.manifests.unknown import unknown_server

Ask = Callable[[FitRequest], Awaitable[FitAnswer]]
Describe = Callable[[str], Awaitable[ModelDetail]]

_AT_ONCE = 8
"""Questions under way at once, well below what a service lets wait."""
_MULTI_NODE = frozenset({"--nnodes", "--data-parallel-address", "--distributed-executor-backend"})
"""Flags of servers that spread over pods which the manifest may not name."""
_OTHER_CHECKPOINTS = ("checkpoint-loaded", "checkpoint-needed")
"""Warnings that another repository than the named one is estimated."""
_RULES: dict[Verdict | None, Rule] = {
    "does_not_fit": "does-not-fit",
    "unsupported": "unsupported",
    "tight": "tight",
    None: "no-answer",
}
_WORST: tuple[Verdict | None, ...] = ("does_not_fit", "unsupported", None, "tight", "fits")


class Source(NamedTuple):
    """A file."""

    name: str
    """Its name."""
    text: str
    """What it holds."""


class _Server(NamedTuple):
    """A model server of a manifest."""

    container: Container
    """What starts it."""
    command: ServerCommand
    """Its command."""
    manifest: Manifest
    """What the file holds besides."""


class _Pending(NamedTuple):
    """A server that was read."""

    answer: ServerAnswer
    """Its answer, filled in later."""
    question: Question | None
    """Its question; None where it has none, with the reason in `answer`."""
    server: _Server
    """What it was read from."""


class ManifestChecker:
    """Asks about every model server in manifests."""

    def __init__(self, ask: Ask, describe: Describe, catalog: Catalog, engines: Engines) -> None:
        """describe: tells what a model is made of."""
        self._ask = ask
        self._describe = describe
        self._catalog = catalog
        self._engines = engines

    async def check(
        self, sources: Iterable[Source], overrides: Mapping[str, Any]
    ) -> ManifestsAnswer:
        """Return the answers to every server. overrides: fields that the caller sets."""
        servers: list[_Pending] = []
        unreadable: dict[str, Remark] = {}
        others: list[FileRemark] = []
        files = list(sources)
        manifests = read_manifests([source.text for source in files])
        for source, manifest in zip(files, manifests, strict=True):
            if manifest.unreadable is not None:
                note = manifest.unreadable
                rule: Rule = "not-read" if manifest.is_template else "unreadable"
                unreadable[source.name] = Remark(rule, note.line, note.message)
            for container in manifest.containers:
                command = server_command(container)
                if command is not None and follows(command):
                    continue
                if command is not None:
                    built = _Server(container, command, manifest)
                    servers.append(self._pending(source.name, built, overrides))
                elif (other := unknown_server(container, manifest)) is not None:
                    others.append(FileRemark(source.name, container.name, other))
        _name_apart(servers)
        waiting = iter(servers)
        while batch := list(islice(waiting, _AT_ONCE)):
            await asyncio.gather(*(self._answer(one) for one in batch))
        answers = [one.answer for one in servers]
        return ManifestsAnswer(
            verdict=_worst([one.verdict for one in answers], unreadable.values()),
            summary=summary(answers, len(files), others),
            files=len(files),
            servers=answers,
            others=others,
            unreadable=unreadable,
        )

    def _pending(self, file: str, server: _Server, overrides: Mapping[str, Any]) -> _Pending:
        """Return a server with its question."""
        container, command, manifest = server
        gpus = gpus_of(container, manifest.claims)
        answer = ServerAnswer(
            file=file,
            line=command.line,
            name=container.name,
            engine=command.engine.name,
            request={},
            summary="",
        )
        try:
            built = question(container, command, gpus, self._catalog, self._engines, overrides)
        except MissingModelError as error:
            answer.summary = str(error)
            answer.remarks = [Remark("no-answer", error.line, answer.summary)]
            answer.remarks += [
                Remark("not-read", note.line, note.message) for note in command.notes
            ]
            return _Pending(answer, None, server)
        except FitgaugeError as error:
            answer.summary = f"{error.detail} {error.hint}"
            answer.remarks = [Remark("no-answer", command.line, answer.summary)]
            return _Pending(answer, None, server)
        answer.request = _sent(built.request)
        answer.remarks = [Remark("not-read", note.line, note.message) for note in built.notes]
        shared = shared_memory_note(container, command, built.ranks)
        if shared is not None:
            answer.remarks.append(Remark("shared-memory", shared.line, shared.message))
        few = _too_few(built, command)
        if few is not None:
            answer.remarks.insert(0, Remark("too-few-gpus", gpus.line or command.line, few))
        return _Pending(answer, built, server)

    async def _answer(self, pending: _Pending) -> None:
        """Fill in the answer to a server's question."""
        if pending.question is None:
            return
        answer = pending.answer
        try:
            request, model = await self._named(pending.question)
            if not pending.question.fits_context:
                request = _with_context(request, model)
            request, fit = await self._answer_of(request, answer)
        except MissingModelError as error:
            answer.summary = str(error)
            answer.remarks.insert(0, Remark("no-answer", error.line, answer.summary))
            return
        except FitgaugeError as error:
            answer.summary = f"{error.detail} {error.hint}"
            answer.remarks.insert(0, Remark("no-answer", answer.line, answer.summary))
            return
        path = pending.question.path
        if path is not None and request.model == pending.question.request.model:
            read = f"The model is read from its path: {request.model}."
            answer.remarks.append(Remark("not-read", path.line, read))
        answer.request = _sent(request)
        taken = fit.understood_as.get("context_length")
        if taken and request.context_length is None and not pending.question.fits_context:
            message = f"No context length is set: {taken:,} tokens are checked."
            answer.remarks.append(Remark("not-read", answer.line, message))
        _add_disk(answer, pending.server, model)
        few = next((one for one in answer.remarks if one.rule == "too-few-gpus"), None)
        answer.verdict = "does_not_fit" if few is not None else fit.verdict
        answer.summary = few.message if few is not None else fit.summary
        answer.fit_probability = fit.fit_probability
        offloading = host_weights_flag(pending.server.command)
        if offloading is not None and answer.verdict != "fits" and not request.cpu_offload_gib:
            answer.verdict = answer.fit_probability = None
            answer.summary = _of_host_weights(offloading)
            answer.remarks.insert(0, Remark("no-answer", offloading.name.line, answer.summary))
            return
        if fit.gpu is not None:
            answer.gpu, answer.gpu_count = fit.gpu.name, fit.gpu.count
        if fit.per_gpu is not None:
            answer.required_bytes = fit.per_gpu.required_bytes.expected
            answer.budget_bytes = fit.per_gpu.budget_bytes
        answer.changes = [
            Change(one.change, one.verdict, one.required_bytes, one.request)
            for one in fit.suggestions
        ]
        if fit.verdict is None:
            answer.summary = _without_gpu(fit)
        few = few or _needs_another_checkpoint(answer, pending, fit)
        answer.summary += _idle_gpus(pending.question, fit.verdict)
        transfer = next((one for one in fit.warnings if one.code == "kv-transfer"), None)
        if transfer is not None and request.disaggregation == "prefill":
            answer.remarks.append(Remark("kv-transfer", answer.line, transfer.message))
        if answer.verdict in _RULES and few is None:
            rule = _RULES[answer.verdict]
            answer.remarks.insert(0, Remark(rule, answer.line, answer.summary))

    async def _named(self, question: Question) -> tuple[FitRequest, ModelDetail]:
        """Return the question, with its model: the caller's where the last part of a path is no
        model's name. Raises MissingModelError where the caller names none."""
        request, path = question.request, question.path
        try:
            return request, await self._describe(request.model)
        except UnknownModelError:
            if path is None:
                raise
        if question.model_instead is None:
            raise MissingModelError(path.line, str(path))
        request = structs.replace(request, model=question.model_instead)
        return request, await self._describe(request.model)

    async def _answer_of(
        self, request: FitRequest, answer: ServerAnswer
    ) -> tuple[FitRequest, FitAnswer]:
        """Return the answer to a question, and the question: without a quantization that no request
        has a name for, since it names how the checkpoint is stored, and with the encoders that a
        release loads though no item may be sent."""
        try:
            fit = await self._ask(request)
        except FitgaugeError as error:
            if error.code != "unknown-quantization":
                raise
            message = f"Quantization {request.quantization!r} is read as the model is published."
            answer.remarks.append(Remark("not-read", answer.line, message))
            request = structs.replace(request, quantization=None)
            fit = await self._ask(request)
        if fit.verdict == "unsupported" and request.language_model_only:
            whole = structs.replace(request, language_model_only=None)
            counted = await self._ask(whole)
            if counted.verdict != "unsupported":
                message = "The release is estimated with its encoders alone: they are counted."
                answer.remarks.append(Remark("not-read", answer.line, message))
                return whole, counted
        return request, fit


def _name_apart(servers: Sequence[_Pending]) -> None:
    """Add the container's own name to servers of a file that are named alike."""
    counts = Counter((one.answer.file, one.answer.name) for one in servers)
    for one in servers:
        own = one.server.container.own_name
        if own is not None and counts[one.answer.file, one.answer.name] > 1:
            one.answer.name = f"{one.answer.name}/{own}"


def _with_context(request: FitRequest, model: ModelDetail) -> FitRequest:
    """Return a request with the context that its engine makes room for, and no other scaling of
    positions than its command asks for."""
    longest = model.max_context_length
    if request.engine is None or not longest:
        return request
    if request.context_length is not None:
        scales = OPTION in ENGINES[request.engine].options
        beyond = scales and request.context_length > longest
        unscaled = beyond and request.rope_scaling_factor is None
        return structs.replace(request, rope_scaling_factor=1) if unscaled else request
    if not ENGINES[request.engine].default_context_is_maximum:
        return request
    return structs.replace(request, context_length=longest)


def _add_disk(answer: ServerAnswer, server: _Server, model: ModelDetail) -> None:
    """Add what is downloaded, and whether there is room for it."""
    place = download(server.container, server.command)
    if place is None:
        return
    answer.download_bytes = model.weights_bytes
    note = disk_note(place, server.manifest.storage, model.weights_bytes)
    if note is not None:
        answer.remarks.append(Remark("disk", note.line, note.message))


def _sent(request: FitRequest) -> dict[str, str | int | float | bool]:
    """Return the fields of a request that are set."""
    fields: dict[str, str | int | float | bool] = {
        name: value for name, value in structs.asdict(request).items() if value is not None
    }
    return fields


def _too_few(built: Question, command: ServerCommand) -> str | None:
    """Return why a command takes more GPUs than its container has; None where it does not."""
    spread = {flag.text.partition(" ")[0] for flag in command.flags} & _MULTI_NODE
    if built.gpu_count is None or built.ranks <= built.gpu_count or spread:
        return None
    degrees = {
        name: value
        for name in ("tensor_parallel", "pipeline_parallel", "data_parallel")
        if (value := getattr(built.request, name))
    }
    product = " x ".join(f"{name} {value}" for name, value in degrees.items())
    return (
        f"The command takes {built.ranks} GPUs ({product}); the manifest asks for"
        f" {built.gpu_count}."
    )


def _needs_another_checkpoint(
    answer: ServerAnswer, pending: _Pending, fit: FitAnswer
) -> Remark | None:
    """Note that a command names a format which the repository that it loads does not hold."""
    command, built = pending.server.command, pending.question
    other = next((one for one in fit.warnings if one.code in _OTHER_CHECKPOINTS), None)
    if not command.log.flags.get("quantization") or other is None or built is None or built.path:
        return None
    answer.verdict, answer.fit_probability = "unsupported", None
    answer.summary = (
        f"{built.request.model} is not in {built.request.quantization}, which the command asks"
        f" for: the engine refuses to load it. {other.message}"
    )
    remark = Remark("unsupported", answer.line, answer.summary)
    answer.remarks.insert(0, remark)
    return remark


def _idle_gpus(built: Question, verdict: Verdict | None) -> str:
    """Return that a command which needs more memory leaves GPUs of its manifest unused."""
    count = built.gpu_count or 0
    if verdict not in ("tight", "does_not_fit") or count <= built.ranks:
        return ""
    return f" The manifest asks for {count} GPUs, the command uses {built.ranks}."


def _of_host_weights(flag: Flag) -> str:
    """Return why a command that keeps weights in host memory has no answer."""
    written = " ".join(filter(None, (flag.name, flag.value)))
    return (
        f"`{written}` keeps weights in host memory, and how many is not read. Use --n-cpu-moe, or"
        " --cpu-offload-gib for the GiB of them per GPU; with all on the GPU it does not fit."
    )


def _without_gpu(fit: FitAnswer) -> str:
    """Return what a model needs where no GPU is named."""
    need, smallest = next(iter(fit.needs), None), next(iter(fit.smallest), None)
    needs = f" It needs {gib(need.required_bytes.expected)} in {need.name}." if need else ""
    fits = f" It fits on {smallest.gpu_count} x {smallest.gpu}." if smallest else ""
    return f"The manifest names no GPU: use --gpu.{needs}{fits}"


def _worst(verdicts: Sequence[Verdict | None], unreadable: Iterable[Remark]) -> Verdict | None:
    """Return the worst verdict; None stands for what has no answer."""
    every = [*verdicts, *(None for one in unreadable if one.rule == "unreadable")]
    return next((one for one in _WORST if one in every), None)


def remarks(answer: ManifestsAnswer) -> Iterator[tuple[str, Remark, ServerAnswer | None]]:
    """Yield every remark with its file and server."""
    for server in answer.servers:
        for remark in server.remarks:
            yield server.file, remark, server
    for other in answer.others:
        yield other.file, other.remark, None
    for file, remark in answer.unreadable.items():
        yield file, remark, None
