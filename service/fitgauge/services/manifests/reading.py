"""The containers of a manifest, whatever its kind."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.manifests import references
from fitgauge.services.manifests.charts import chart_containers
from fitgauge.services.manifests.compose import compose_containers, is_compose
from fitgauge.services.manifests.containers import Container, Note, words
from fitgauge.services.manifests.jobs import (
    command_container,
    is_task,
    job_containers,
    task_container,
)
from fitgauge.services.manifests.nim import as_engine
from fitgauge.services.manifests.references import References
from fitgauge.services.manifests.workloads import containers
from fitgauge.services.manifests.yaml_text import (
    Block,
    Node,
    Text,
    UnreadableYamlError,
    documents,
    text_of,
)

_TEMPLATE = "{{"
_PYTHON = re.compile(r"^(?:import|from) [\w.]+(?: import .+)?$", re.MULTILINE)
_MARKS = frozenset(
    word
    for row in ENGINES.values()
    if row.container_start
    for word in (
        *row.container_start.images,
        *(program[0] for program in row.container_start.programs),
    )
) | {
    "servingEngineSpec", "modelArtifacts", "llm_configs", "prefill_config", "InferenceService",
    "kubeai.org", "kaito.sh", "VLLMRuntime", "/gpu", "nvidia.com/", "/gaudi", "resourceClaims",
    "#SBATCH", "PARAMETER num_ctx", "capabilities", *references.MARKS,
}  # fmt: skip
"""What a manifest that starts a server, asks for GPUs or is named by one holds, so that most files
need not be read."""


class Manifest(Struct, frozen=True):
    """A file that was read."""

    containers: tuple[Container, ...] = ()
    """Every container in it."""
    claims: Mapping[str, Block] = {}
    """Its resource claims and their templates by name."""
    storage: Mapping[str, Text] = {}
    """What its volume claims ask for, by name."""
    unreadable: Note | None = None
    """Why nothing of it was read."""
    is_template: bool = False
    """Whether it is the template of a chart, which is no YAML before it is rendered."""


class _Parsed(Struct, frozen=True):
    """A file as YAML."""

    nodes: Sequence[Node] = ()
    """Its documents."""
    named: References = References()
    """The objects in it that others name."""
    unread: Manifest | None = None
    """What there is to say where it is no YAML."""


def read_manifests(texts: Sequence[str]) -> list[Manifest]:
    """Return the containers of manifests, each of which may name objects of the others. Reads any
    text, and raises nothing."""
    parsed = [_parsed(text) for text in texts]
    others = references.of_other_files(one.named for one in parsed) if len(parsed) > 1 else None
    return [one.unread or _manifest(one, others) for one in parsed]


def _parsed(text: str) -> _Parsed:
    if not any(mark in text for mark in _MARKS):
        return _Parsed()
    started = job_containers(text)
    if started is not None:
        return _Parsed(unread=Manifest(tuple(started)))
    try:
        nodes = documents(text)
        return _Parsed(nodes, references.references(nodes))
    except UnreadableYamlError as error:
        return _Parsed(unread=_unread(text, error))


def _unread(text: str, error: UnreadableYamlError) -> Manifest:
    if _TEMPLATE in text:
        message = "A template: render it first (`helm template CHART | fitgauge check -f -`)."
        return Manifest(unreadable=Note(error.line, message), is_template=True)
    if _PYTHON.search(text):
        message = "Python is not read: check the command that it starts, `fitgauge ask 'COMMAND'`."
        return Manifest(unreadable=Note(1, message))
    return Manifest(unreadable=Note(error.line, f"Unreadable: {error}."))


def _manifest(parsed: _Parsed, others: References | None) -> Manifest:
    named = parsed.named.over(others) if others is not None else parsed.named
    try:
        if named.config_maps:
            references.fill_in(parsed.nodes, named.config_maps)
        read = [one for node in parsed.nodes for one in _containers(node, named)]
    except UnreadableYamlError as error:  # of YAML within a text
        return Manifest(unreadable=Note(error.line, f"Unreadable: {error}."))
    every = tuple(as_engine(one) or one for one in read)
    return Manifest(every, named.claims, named.storage)


def _containers(node: Node, named: References) -> Iterator[Container]:
    if isinstance(node, Text):  # the command line alone, as `ps -o args=` shows a pod's
        yield command_container(words(text_of(node.replace("\\ ", " "), node.line)), node.line)
    if not isinstance(node, Block):
        return
    charted = chart_containers(node, named)
    if charted is not None:
        yield from charted
    elif is_task(node):
        yield task_container(node)
    elif is_compose(node):
        yield from compose_containers(node)
    else:
        yield from containers(node)
