"""How an engine runs in a container: the image that its project publishes, the values of its
project's Helm chart, and what starts it in other people's manifests."""

import re
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

    address_variable: str | None = None
    """The variable of the address at which half of disaggregated serving reaches the other."""

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


class PositionFlags(NamedTuple):
    """How a command scales the rotary positions of a model."""

    overrides: tuple[str, ...] = ()
    """Flags whose JSON replaces settings of config.json, or its rotary ones alone."""

    factor: str | None = None
    """The flag of a factor alone."""

    by_positions_alone: tuple[int, ...] | None = None
    """The first release that takes a longer context for `max_position_embeddings` alone, whatever
    the factor; None: the factor is enough."""

    any_length: str | None = None
    """The environment variable with which it takes one all the same."""


class ContainerStart(NamedTuple):
    """How containers start an engine: what finds its command in a manifest, in the spelling that
    its `log_parser` reads."""

    images: tuple[str, ...]
    """Parts of the names of images that start it."""

    programs: tuple[tuple[str, ...], ...]
    """Words of a command line that start it, paths left out; the first is what its images run."""

    model_flags: tuple[str, ...] = ("--model",)
    """Flags that name the model."""

    settings_flags: tuple[str, ...] = ()
    """Flags that name a file of further settings, in YAML."""

    dotted_settings: bool = False
    """Whether what such a file nests is no flag in JSON, but one of each key, with a dot."""

    names_model_first: bool = False
    """Whether the model may also be the first word after the program."""

    spellings: Mapping[str, str] = {}
    """Flags in other spellings than that of `log_parser`, underscores written as hyphens."""

    variables: Mapping[str, str] = {}
    """Environment variables, and what they stand for on the command line, `{}` for the value."""

    quantizations: Mapping[str, str] = {}
    """Methods that its flag names otherwise than requests do."""

    host_weights: str = ""
    """The flag that keeps tensors in host memory by their names; what no request says of them is
    `override_tensor` in the log's flags. Empty without one."""

    unrelated_flags: frozenset[str] = frozenset()
    """Flags that change no memory of the GPU."""

    default_values: Mapping[str, frozenset[str]] = {}
    """Values of other flags that change none, as they are what is estimated."""

    harmless_values: Mapping[str, re.Pattern[str]] = {}
    """What is found in values of other flags that change none."""

    fitted_context: Mapping[str, frozenset[str]] = {}
    """Values of its context's flag with which it takes the longest context that fits."""

    positions: PositionFlags = PositionFlags()
    """How its command scales rotary positions."""

    takes_all_gpus: bool = False
    """Whether it divides a model over all GPUs where its command says nothing."""
