"""How an engine runs in a container: the image that its project publishes, and the values of its
project's Helm chart."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.workload import Workload


class ContainerImage(NamedTuple):
    """The image that a project publishes for NVIDIA GPUs, and how its server is reached. All
    answer GET /health once they serve."""

    repository: str
    """The image without its tag."""

    tag: str
    """Its tag; {release} is the engine's."""

    port: int
    """The port that the server listens on in the container."""

    flags: tuple[str, ...] = ()
    """Flags without which only the container itself reaches the server."""

    program: tuple[str, str] | None = None
    """The first word of the command, and what the image calls it."""

    def command(self, launch: str) -> str:
        """Return a launch command as the image runs it."""
        if self.program is not None:
            name, within = self.program
            launch = within + launch.removeprefix(name)
        return " ".join((launch, *self.flags))


class Container(NamedTuple):
    """One server to deploy on one node."""

    name: str
    """A name for Kubernetes: small letters, digits and hyphens."""

    launch: str
    """The launch command."""

    spec: ModelSpec
    """The model it serves."""

    workload: Workload
    """The deployment, every default filled in."""

    image: ContainerImage
    """What it runs in."""

    tag: str
    """The image's tag, with the release."""

    gpus: tuple[str, int]
    """The resource that a cluster offers the GPUs as, and their number."""

    memory: str
    """Host memory to request."""

    shared_memory: str | None
    """The size of /dev/shm; None where no processes share a layer."""

    node_selector: Mapping[str, str]
    """Labels of nodes with such GPUs."""


class HelmChart(NamedTuple):
    """A Helm chart of the engine's project."""

    name: str
    """The chart, and the repository that has it."""

    values: Callable[[Container], dict[str, object]]
    """Return its values for a server."""
