"""A container as every kind of manifest describes one."""

from typing import Literal

from msgspec import Struct

from fitgauge.services.manifests.yaml_text import Block, Text, text_of


class Note(Struct, frozen=True):
    """Something of a manifest that the answer leaves out or takes for granted."""

    line: int
    """Its line in the file."""
    message: str
    """In words."""


class Container(Struct, kw_only=True):
    """What a manifest starts."""

    name: str
    """Kind and name of the object, with the container's name where there are several."""
    line: int
    """The line of the container in the file."""
    own_name: Text | None = None
    """Its name in its pod."""
    image: Text | None = None
    """Its image."""
    command: list[Text] | None = None
    """What replaces the image's own command; None: the image's."""
    arguments: list[Text] = []
    """What is added to the command."""
    hooks: list[Text] = []
    """Commands that run after the start."""
    environment: dict[str, Text] = {}
    """Its variables; those from secrets are missing."""
    resources: Block
    """Its resources: limits, requests, claims."""
    pod: Block
    """The pod that holds it: selectors, volumes, claims."""
    followers: Block = Block()
    """The pod of those that follow it, on the same GPUs."""
    group_size: int = 1
    """Pods that start one server together."""
    model: Text | None = None
    """The model, where it stands outside the command."""
    gpu_count: int | None = None
    """GPUs of the container, where they stand outside its resources."""
    gpu: Text | None = None
    """The GPU's name, where it stands outside the selectors."""
    memory: Text | None = None
    """Its memory, where that stands outside its resources."""
    mounts: list[Block] = []
    """Volumes of the pod and where they are mounted."""
    shared_memory: Text | None = None
    """The size of /dev/shm, where it is no volume; `host` for the machine's own, `unlimited` where
    a volume has no limit, `unknown` where the manifest cannot say."""
    files: dict[str, Text] = {}
    """Files that it mounts from ConfigMaps, by their paths."""
    pool: Literal["prefill", "decode"] | None = None
    """The half of disaggregated serving that it is of; None where one server does both."""
    takes_all_gpus: bool = False
    """Whether it divides the model over all its GPUs where the command says nothing."""
    notes: tuple[Note, ...] = ()
    """What is taken for granted of it."""


def hub_address(uri: Text | None) -> Text | None:
    """Return what an address of a model names, the Hub's ID where it is one; None without."""
    if uri is None:
        return None
    return text_of(uri.removeprefix("hf://").strip('"'), uri.line)


def words(text: Text | None) -> list[Text]:
    """Return the words of a text as a shell splits them, each with its line."""
    result: list[Text] = []
    for number, line in enumerate((text or "").splitlines()):
        at = (text.line if text is not None else 1) + number
        result += [text_of(word, at) for word in _split(line)]
    return result


def _split(line: str) -> list[str]:
    """Return the words of one line; those with an unpaired quote as they stand."""
    import shlex  # only manifests need it

    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()
