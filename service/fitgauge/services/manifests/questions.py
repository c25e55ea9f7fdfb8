"""The question that a container asks: model, GPUs and settings as a request of the API."""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.note import Note as RequestNote
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.start_log.names import hub_id
from fitgauge.errors import FitgaugeError
from fitgauge.services.common import parsing
from fitgauge.services.common.launch_fields import known_version, launch_fields, valid_request
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.manifests.command_line import ServerCommand, lora_fields, scaling_fields
from fitgauge.services.manifests.containers import Container, Note
from fitgauge.services.manifests.fetched import fetched_model
from fitgauge.services.manifests.gpus import Gpus
from fitgauge.services.manifests.quantities import bytes_of
from fitgauge.services.manifests.yaml_text import Text, text_at

_GGUF = re.compile(r"[-._](?P<quantization>(?:UD-)?(?:I?Q\d[A-Z0-9_]{0,8}|BF16|F16|F32|MXFP4))$")
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_PLACEHOLDER = re.compile(r"[$<>{}]")
_IMAGE = "oci://"
"""A model in an image, whose tag names it where one repository has many."""
_SIZE = re.compile(r"\d[bm](?![a-z])", re.IGNORECASE)
_DEFAULT_SHARED_MEMORY = 64 * 1024**2
"""What a container's /dev/shm holds without a volume [bytes]. Source: docker run --shm-size, and
the OCI runtime's default mount (opencontainers/runc libcontainer/specconv/example.go, size=65536k).
"""


class Question(NamedTuple):
    """A question with what it takes for granted."""

    request: FitRequest
    """The question."""
    gpu_count: int | None
    """GPUs that the container has; None where nothing says so."""
    ranks: int
    """GPUs that the command takes."""
    fits_context: bool
    """Whether the engine takes the longest context that fits."""
    notes: tuple[Note, ...]
    """What it leaves out."""
    path: Text | None = None
    """The path whose last part is taken for the model's name; None for another name."""
    model_instead: str | None = None
    """The model that the caller names for a path that names none."""


class MissingModelError(ValueError):
    """A container that names no model.

    line: the line of its command."""

    def __init__(self, line: int, path: str | None) -> None:
        only = f", only {path!r}" if path else ""
        super().__init__(f"The manifest names no model of the Hub{only}. Use --model.")
        self.line = line


def question(
    container: Container,
    command: ServerCommand,
    gpus: Gpus,
    catalog: Catalog,
    engines: Engines,
    overrides: Mapping[str, Any],
) -> Question:
    """Return the question of a container. overrides: fields that the caller sets.

    Raises MissingModelError and the errors of fitgauge.errors."""
    notes = [*container.notes, *gpus.notes, *command.notes]
    fields = _fields_of_command(container, command, engines, overrides, notes)
    match = _gpu(gpus, catalog, notes)
    count = gpus.count
    if count is None and container.takes_all_gpus and match is not None:
        count = match.count  # of the machine that the pod is placed on
    available = count * container.group_size if count is not None else None
    ranks = _ranks(fields)
    start = command.engine.container_start
    takes_all = container.takes_all_gpus or (start is not None and start.takes_all_gpus)
    if takes_all and not fields.get("tensor_parallel"):
        ranks = available or ranks or 1
    elif ranks is None:
        ranks = 1
        fields["tensor_parallel"] = 1
    if match is not None:
        fields |= {"gpu": match.accelerator.id, "gpu_count": ranks}
    memory = bytes_of(container.memory or _limit(container))
    if memory is not None and fields.get("cpu_offload_gib"):
        fields["host_memory_gib"] = max(1.0, memory / GIB)
    fields["settings"] = "defaults"
    fields |= {name: value for name, value in overrides.items() if name not in ("model", "gpu")}
    if overrides.get("cpu_offload_gib"):
        fields |= {"n_gpu_layers": None, "n_cpu_moe": None}
    if "gpu" not in fields and overrides.get("gpu"):
        fields |= {"gpu": overrides["gpu"], "gpu_count": ranks}
    dropped: list[RequestNote] = []
    request = valid_request(
        {name: _plain(value) for name, value in fields.items() if value is not None},
        dropped,
        "Name the model with --model and the GPU with --gpu.",
    )
    notes += [Note(command.line, note.message) for note in dropped]
    written = container.model or command.model
    is_path = written is not None and "/" in written and request.model == _file_name(written)[0]
    return Question(
        request,
        available,
        ranks,
        command.fits_context,
        tuple(notes),
        written if is_path else None,
        overrides.get("model"),
    )


def _fields_of_command(
    container: Container,
    command: ServerCommand,
    engines: Engines,
    overrides: Mapping[str, Any],
    notes: list[Note],
) -> dict[str, Any]:
    """Return the fields that the command says: its flags, model, engine and release."""
    fields = launch_fields(command.log) | lora_fields(command)
    try:
        fields |= model_fields(container, command, notes)
    except MissingModelError:
        if not overrides.get("model"):
            raise
        fields["model"] = overrides["model"]
    fields["engine"] = command.engine.name
    if container.pool is not None and "disaggregation" in command.engine.options:
        fields["disaggregation"] = container.pool
    if command.engine.container_start is not None:
        method = str(fields.get("quantization"))
        fields["quantization"] = command.engine.container_start.quantizations.get(
            method, fields.get("quantization")
        )
    if command.release is not None:
        version, note = known_version(engines, command.engine.name, command.release)
        fields["engine_version"] = version
        notes += [Note(command.line, note.message)] if note else []
    profile = engines.profile(command.engine.name, None)
    release = parsing.version(fields.get("engine_version") or profile.newest)
    scaling, unscaled = scaling_fields(command, container, release)
    notes += [unscaled] if unscaled else []
    return scaling | fields


def _plain(value: object) -> object:
    """Return a text without its line."""
    return str(value) if isinstance(value, str) else value


def _ranks(fields: Mapping[str, Any]) -> int | None:
    """Return the GPUs that the degrees of parallelism take; None where none is set."""
    degrees = ("tensor_parallel", "pipeline_parallel", "data_parallel")
    values = [int(fields[name]) for name in degrees if fields.get(name)]
    return math.prod(values) if values else None


def model_fields(
    container: Container, command: ServerCommand, notes: list[Note]
) -> dict[str, str | None]:
    """Return the model, and the quantization where a file's name holds it."""
    outside = hub_id(container.model)
    named = outside or command.log.model
    written = container.model or command.model
    if named is not None:
        file = next((flag for flag in command.flags if flag.text.startswith("-hff ")), None)
        _, quantization = _file_name(file.value or "") if file is not None else ("", None)
        label = quantization if quantization and ":" not in named else None
        return {"model": f"{named}:{label}" if label else named}
    served = hub_id(command.served_name)
    if served is not None:
        line = command.served_name.line if command.served_name is not None else command.line
        notes.append(Note(line, f"The model is read from the name it is served as: {served}."))
        return {"model": served}
    if written is None:
        raise MissingModelError(command.line, None)
    fetched = fetched_model(container, written)
    if fetched is not None:
        _, quantization = _file_name(fetched.file or written)
        name = f"{fetched.model}:{quantization}" if quantization else str(fetched.model)
        notes.append(
            Note(fetched.model.line, f"The model is read from what is downloaded: {name}.")
        )
        return {"model": name}
    name, quantization = _file_name(written)
    if name.lower() in ("models", "model", "") or _PLACEHOLDER.search(name):
        raise MissingModelError(written.line, written)
    return {"model": name, "quantization": quantization}


def _file_name(path: str) -> tuple[str, str | None]:
    """Return the name of a model's folder or file, and the quantization at its end."""
    name = path.rstrip("/").rpartition("/")[2].split("@")[0]
    if path.startswith(_IMAGE):
        repository, _, tag = name.partition(":")
        name = tag if _SIZE.search(tag) else repository
    if not name.endswith(".gguf"):
        return name.replace("--", "/", 1).removeprefix("models/"), None
    name = _PART.sub("", name.removesuffix(".gguf"))
    match = _GGUF.search(name.upper())
    if match is None:
        return name, None
    return name[: match.start()], name[match.start("quantization") :].removeprefix("UD-")


def _gpu(gpus: Gpus, catalog: Catalog, notes: list[Note]) -> GpuMatch | None:
    """Return the GPUs that a pod asks for, all those of a machine where it names one: of
    alternatives, the one with the least memory; None where none is named."""
    texts = [f"{gpus.mig_slice} {name}" for name in gpus.names] if gpus.mig_slice else gpus.names
    candidates = []
    for text in texts:
        try:
            candidates.append(catalog.find(text))
        except FitgaugeError:
            continue
    if candidates:
        first = candidates[0] if gpus.mig_slice else min(candidates, key=_memory)
        if len({one.id for one in candidates}) > 1 and not gpus.mig_slice:
            line = gpus.names[0].line
            notes.append(Note(line, f"Of the GPUs that it may run on, {first.name} is checked."))
        return first
    if gpus.mig_slice is None:
        return None
    return _slice(gpus.mig_slice, catalog, notes)


def _memory(match: GpuMatch) -> int:
    return match.accelerator.usable.expected


def _slice(mig_slice: Text, catalog: Catalog, notes: list[Note]) -> GpuMatch | None:
    """Return the MIG slice of that profile with the least memory."""
    name = f"mig-{mig_slice.replace('.', '-')}-"
    slices = [GpuMatch(one, 1) for one in catalog.all() if one.id.startswith(name)]
    if not slices:
        return None
    least = min(slices, key=_memory)
    if len(slices) > 1:
        message = f"The GPU of the slice is not named: {least.name} is checked."
        notes.append(Note(mig_slice.line, message))
    return least


def _limit(container: Container) -> Text | None:
    """Return the memory limit of a container."""
    return text_at(container.resources, "limits", "memory")


def shared_memory_note(container: Container, command: ServerCommand, ranks: int) -> Note | None:
    """Return a note where processes of several GPUs exchange data through too small a /dev/shm; an
    engine whose GPUs hold whole layers is one process."""
    size = container.shared_memory
    if ranks < 2 or command.engine.splits_layers or size in ("host", "unlimited", "unknown"):
        return None
    available = bytes_of(size) if size is not None else _DEFAULT_SHARED_MEMORY
    if available is None or available > _DEFAULT_SHARED_MEMORY:
        return None
    return Note(
        size.line if size is not None else container.line,
        f"/dev/shm holds {available // 1024**2} MiB, through which the ranks of {ranks} GPUs"
        " exchange data: mount a volume of medium Memory there.",
    )
