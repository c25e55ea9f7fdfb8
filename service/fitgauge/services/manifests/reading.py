"""The containers of a manifest, whatever its kind."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.manifests.charts import chart_containers
from fitgauge.services.manifests.compose import compose_containers, is_compose
from fitgauge.services.manifests.containers import Container, Note
from fitgauge.services.manifests.disk import storage_claims
from fitgauge.services.manifests.workloads import containers, resource_claims, serving_runtimes
from fitgauge.services.manifests.yaml_text import (
    Block,
    Node,
    Text,
    UnreadableYamlError,
    documents,
)

_TEMPLATE = "{{"
_MARKS = frozenset(
    word
    for row in ENGINES.values()
    if row.container_start
    for word in (
        *row.container_start.images,
        *(program[0] for program in row.container_start.programs),
    )
) | {"servingEngineSpec", "modelArtifacts", "llm_configs", "InferenceService"}
"""What a manifest that starts a server holds, so that most files need not be read."""


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


def read_manifest(text: str) -> Manifest:
    """Return the containers of a manifest. Reads any text, and raises nothing."""
    if not any(mark in text for mark in _MARKS):
        return Manifest()
    try:
        nodes = documents(text)
        runtimes = serving_runtimes(nodes)
        every = tuple(one for node in nodes for one in _containers(node, runtimes))
    except UnreadableYamlError as error:
        if _TEMPLATE in text:
            message = "A template: render it first (`helm template CHART | fitgauge check -f -`)."
            return Manifest(unreadable=Note(error.line, message), is_template=True)
        return Manifest(unreadable=Note(error.line, f"Unreadable: {error}."))
    return Manifest(every, resource_claims(nodes), storage_claims(nodes))


def _containers(node: Node, runtimes: Mapping[str, Block]) -> Iterator[Container]:
    if not isinstance(node, Block):
        return
    charted = chart_containers(node, runtimes)
    if charted is not None:
        yield from charted
    elif is_compose(node):
        yield from compose_containers(node)
    else:
        yield from containers(node)
