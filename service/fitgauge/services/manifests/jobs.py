"""Servers that a job, a script or a unit starts: SkyPilot's tasks, batch scripts of Slurm, units of
systemd, containers of Podman's Quadlet, tasks of Nomad, Modelfiles, and a command line alone.

Source: skypilot-org/skypilot docs/source/reference/yaml-spec.rst (resources.accelerators, envs,
run), docs/source/running-jobs/environment-variables.rst (SKYPILOT_NUM_GPUS_PER_NODE), its catalogs
(A100 is the one of 40 GB); Slurm's sbatch (--gres and --gpus-per-node count the GPUs of a node);
systemd.service and podman-systemd.unit; hashicorp/nomad's job specification (constraint, device,
task); ollama/ollama docs/modelfile.mdx."""

import re
from collections.abc import Iterator

from msgspec import structs

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.manifests.command_line import commands
from fitgauge.services.manifests.containers import Container, Note, words
from fitgauge.services.manifests.yaml_text import (
    Block,
    Items,
    Node,
    Text,
    block_at,
    blocks_at,
    text_at,
    text_of,
)

_RUN_IMAGES = frozenset({"docker", "nerdctl", "podman"})
_IMAGES = tuple(
    image for row in ENGINES.values() if row.container_start for image in row.container_start.images
)
_SCRIPT = re.compile(r"#!|#SBATCH\b")
_SBATCH = re.compile(
    r"#SBATCH\s+(?:--gres|--gpus-per-node|--gpus-per-task|(?P<total>--gpus|-G))[=\s]\s*(?:gpu:)?"
    r"(?:(?P<gpu>[A-Za-z][\w.-]{0,60}):)?(?P<count>\d{1,4})"
)
_SBATCH_NODES = re.compile(r"#SBATCH\s+(?:--nodes|-N)[=\s]\s*(?P<nodes>\d{1,4})")
_SECTION = re.compile(r"^\[(?:Service|Container)\]\s*$", re.MULTILINE)
_SETTING = re.compile(r"(?P<key>ExecStart|Exec|Image|Environment)\s*=\s*(?P<value>.*)")
_TASK = re.compile(r"^[ \t]*task[ \t]+\"", re.MULTILINE)
_HCL = re.compile(
    r"(?<!\w)(?P<key>image|command|args)\s*=\s*(?P<value>\"(?:[^\"\\\n]|\\.){0,4096}\"|\[[^\[\]]{0,16384}\])"
)
_QUOTED = re.compile(r"\"((?:[^\"\\\n]|\\.){0,4096})\"")
_DEVICE = re.compile(
    r"device[ \t]+\"(?:nvidia|amd)/gpu(?:/(?P<gpu>[^\"\n]{1,60}))?\""
    r"(?:\s*\{\s*count\s*=\s*(?P<count>\d{1,4}))?"
)
"""What a task of Nomad asks for: vendor/type/model."""
_MODEL = re.compile(
    r"attribute\s*=\s*\"\$\{device\.model\}\"\s+(?:operator\s*=\s*\"=\"\s+)?"
    r"value\s*=\s*\"(?P<gpu>[^\"\n]{1,60})\""
)
"""The model that a task of Nomad holds its device to."""
_FROM = re.compile(r"^FROM[ \t]+(?P<model>[^\s#]{1,300})[ \t]*$", re.MULTILINE | re.IGNORECASE)
_PARAMETER = re.compile(
    r"^PARAMETER[ \t]+(?P<name>num_ctx|num_gpu)[ \t]+(?P<value>-?\d{1,9})[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_ACCELERATOR = re.compile(r"(?P<gpu>[\w.-]{1,60})(?:\s*:\s*(?P<count>[0-9]{1,4}))?")
_COUNT = re.compile(r"[0-9]{1,4}")
_SKYPILOT_NAMES = {"A100": "A100 40GB"}
_SLURM_GPUS = "SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE SLURM_GPUS"
_SLURM_NODES = "SLURM_NNODES SLURM_JOB_NUM_NODES"
"""Variables of a batch script (sbatch's output environment variables)."""
_SKYPILOT_COUNT = "SKYPILOT_NUM_GPUS_PER_NODE"


def job_containers(text: str) -> list[Container] | None:
    """Return the containers of a script, a unit, a job of Nomad or a Modelfile; None of any other
    text."""
    if _SCRIPT.match(text):
        return list(_script(text))
    if _SECTION.search(text):
        return [_unit(text)]
    if _PARAMETER.search(text) and (model := _at(text, _FROM.search(text), "model")) is not None:
        return [_modelfile(text, model)]
    starts = [match.start() for match in _TASK.finditer(text)]
    ends = [*starts[1:], len(text)]
    return [_task(text, at, end) for at, end in zip(starts, ends, strict=False)] or None


def _task(text: str, start: int, end: int) -> Container:
    """Return a task of Nomad, which the text holds from `start` to `end`."""
    first = text.count("\n", 0, start)
    settings: dict[str, list[Text]] = {}
    for match in _HCL.finditer(text, start, end):
        line = first + text.count("\n", start, match.start()) + 1
        values = _QUOTED.findall(match["value"])
        settings[match["key"]] = [text_of(value.replace('\\"', '"'), line) for value in values]
    device = _DEVICE.search(text, start, end)
    program = settings.get("command", [])
    image = next(iter(settings.get("image", [])), None)
    line = (image or next(iter(program), None) or text_of("", first + 1)).line
    return structs.replace(
        command_container(program, line),
        name=f"task/{_QUOTED.findall(text[start:end])[0]}",
        image=image,
        command=program or None,
        arguments=settings.get("args", []),
        gpu=_at(text, device, "gpu") or _at(text, _MODEL.search(text, start, end), "gpu"),
        gpu_count=int(device["count"] or 1) if device else None,
    )


def _modelfile(text: str, model: Text) -> Container:
    """Return what a Modelfile of Ollama runs: its base with the context that it sets."""
    line = [text_of("ollama/ollama", model.line)]
    container = command_container(line, model.line)
    container.name, container.model, container.image = "Modelfile", model, line[0]
    container.command = None
    for match in _PARAMETER.finditer(text):
        value = _at(text, match, "value") or text_of("", 1)
        if match["name"].lower() == "num_ctx":
            container.environment = {"OLLAMA_CONTEXT_LENGTH": value}
        else:
            message = "`num_gpu` is not read: all layers are taken to lie on GPUs."
            container.notes += (Note(value.line, message),)
    return container


def _script(text: str) -> Iterator[Container]:
    """Yield a script as one container, and each container that it runs."""
    gpus, nodes = _SBATCH.search(text), _SBATCH_NODES.search(text)
    counts = {_SLURM_GPUS: gpus and gpus["count"], _SLURM_NODES: nodes["nodes"] if nodes else "1"}
    whole = structs.replace(
        command_container([text_of("sh", 1), text_of("-c", 1), text_of(text, 0)], 1),
        name="script",
        environment={
            name: text_of(count, 1)
            for names, count in counts.items()
            for name in names.split()
            if count
        },
        gpu=_at(text, gpus, "gpu"),
        gpu_count=int(gpus["count"]) if gpus else None,
        group_size=int(nodes["nodes"]) if nodes and not (gpus and gpus["total"]) else 1,
    )
    yield whole
    for line in commands(whole):
        inner = command_container(line, line[0].line if line else 1)
        if inner.command is None:
            yield structs.replace(
                inner, gpu=whole.gpu, gpu_count=whole.gpu_count, group_size=whole.group_size
            )


def _at(text: str, match: re.Match[str] | None, name: str) -> Text | None:
    if match is None or match[name] is None:
        return None
    return text_of(match[name], text.count("\n", 0, match.start()) + 1)


def _unit(text: str) -> Container:
    """Return what a unit starts: its command, or the arguments of its image."""
    container, continues, key = command_container([], 1), False, ""
    settings: dict[str, list[Text]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = None if continues else _SETTING.match(line.strip())
        key = match["key"] if match else key if continues else ""
        value = (match["value"] if match else line).rstrip("\\")
        continues = line.rstrip().endswith("\\")
        if key:
            settings.setdefault(key, []).extend(words(text_of(value, number)))
    pairs = [(word.partition("="), word.line) for word in settings.get("Environment", [])]
    environment = {name: text_of(value, line) for (name, _, value), line in pairs}
    if "Image" in settings:
        container.image, container.command = settings["Image"][0], None
        container.arguments = settings.get("Exec", [])
    else:
        started = settings.get("ExecStart", [])
        container = command_container(started, started[0].line if started else 1)
    return structs.replace(container, name="unit", environment=environment)


def command_container(line: list[Text], number: int) -> Container:
    """Return a command line as a container: its program, or the image that it runs (`docker run
    OPTIONS IMAGE ARGUMENTS`)."""
    container = Container(
        name="command",
        line=number,
        command=line,
        resources=Block(),
        pod=Block(),
        shared_memory=Text("unknown"),
    )
    runs = next((at for at, word in enumerate(line) if word in ("run", "create")), None)
    if runs is None or not any(word.rpartition("/")[2] in _RUN_IMAGES for word in line[:runs]):
        return container
    for at in range(runs + 1, len(line)):
        if any(image in line[at] for image in _IMAGES) and not line[at].startswith("-"):
            return structs.replace(
                container, image=line[at], command=None, arguments=line[at + 1 :]
            )
    return container


def is_task(document: Block) -> bool:
    """Return whether a document is a task of SkyPilot."""
    return isinstance(document.get("run"), Text) and _accelerators(document) is not None


def _accelerators(document: Block) -> Node:
    """Return the GPUs that a task asks for: of the first of its alternatives."""
    resources = block_at(document, "resources")
    alternatives = (*blocks_at(resources, "any_of"), *blocks_at(resources, "ordered"))
    named = (one.get("accelerators") for one in (resources, *alternatives))
    return next((one for one in named if one is not None), None)


def task_container(document: Block) -> Container:
    """Return what a task of SkyPilot runs."""
    script = text_at(document, "run") or Text()
    accepted = _accelerators(document)
    gpu, count = _accelerator(accepted)
    others = list(accepted)[1:] if isinstance(accepted, Block | Items) else []
    names = ", ".join(str(one) for one in others if isinstance(one, str))
    message = f"The first GPU that the task accepts is checked alone, without {names}."
    nodes = text_at(document, "num_nodes") or ""
    set_by = {**block_at(document, "envs"), _SKYPILOT_COUNT: text_of(str(count), script.line)}
    container = command_container([text_of("sh", script.line), text_of("-c", script.line)], 1)
    return structs.replace(
        container,
        name="/".join(filter(None, ("task", text_at(document, "name")))),
        line=script.line,
        arguments=[script],
        environment={name: value for name, value in set_by.items() if isinstance(value, Text)},
        gpu=gpu,
        gpu_count=count,
        notes=(Note(gpu.line, message),) if gpu and names else (),
        group_size=int(nodes) if _COUNT.fullmatch(nodes) else 1,
    )


def _accelerator(node: Node) -> tuple[Text | None, int]:
    """Return the first GPU that a task accepts, and how many: `L4:2`, `{A100-80GB: 4}`, a list."""
    if isinstance(node, Items):
        node = next(iter(node), None)
    if isinstance(node, Block):
        name, count = next(iter(node.items()), ("", None))
        node = text_of(f"{name}:{count}" if isinstance(count, Text) else name, node.line)
    match = _ACCELERATOR.fullmatch(node) if isinstance(node, Text) else None
    if match is None or not isinstance(node, Text):
        return None, 1
    name = _SKYPILOT_NAMES.get(match["gpu"], match["gpu"])
    return text_of(name, node.line), int(match["count"] or 1)
