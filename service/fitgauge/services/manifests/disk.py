"""What a server downloads at its start, and where that goes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from fitgauge.engine.quantity import gib
from fitgauge.engine.serving.start_log.names import hub_id
from fitgauge.services.manifests.command_line import ServerCommand
from fitgauge.services.manifests.containers import Container, Note
from fitgauge.services.manifests.fetched import fetched_model
from fitgauge.services.manifests.quantities import bytes_of
from fitgauge.services.manifests.yaml_text import Block, Items, Node, Text, blocks_at, text_at

_HOME = "/root"
"""The home of the user that runs the engines' images."""
_CLAIM = "PersistentVolumeClaim"
_TEMPLATES = "volumeClaimTemplates"


def storage_claims(nodes: Sequence[Node]) -> dict[str, Text]:
    """Return the storage that claims and templates of claims ask for, by their names."""
    return {
        name: size
        for block in _claims(nodes)
        if (name := text_at(block, "metadata", "name"))
        and (size := text_at(block, "spec", "resources", "requests", "storage"))
    }


def _claims(nodes: Sequence[Node]) -> Iterator[Block]:
    for node in nodes:
        if isinstance(node, Items):
            yield from _claims(node)
        elif isinstance(node, Block):
            if text_at(node, "kind") == _CLAIM:
                yield node
            yield from blocks_at(node, _TEMPLATES)
            yield from _claims([value for key, value in node.items() if key != _TEMPLATES])


class Download(NamedTuple):
    """Where a model is downloaded to before it is served."""

    container: Container
    """What downloads it."""
    folder: PurePosixPath
    """Where it puts it."""


def download(container: Container, command: ServerCommand) -> Download | None:
    """Return where the model is downloaded to: by the server, if it is no path, else by the pod;
    None where neither downloads it."""
    if command.model is None:
        return None
    if hub_id(command.model) == command.model:
        return Download(container, _folder(container, command))
    fetched = fetched_model(container, command.model)
    if fetched is None:
        return None
    folder = fetched.folder
    place = PurePosixPath(folder) if folder else _cache(fetched.container)
    return Download(fetched.container, place)


def disk_note(place: Download, storage: Mapping[str, Text], download_bytes: int) -> Note | None:
    """Return a note where the weights are larger than what they are downloaded to; None also where
    the manifest does not say how large that is.

    storage: `storage_claims` of the manifest."""
    size = _capacity(place, storage)
    available = bytes_of(size)
    if size is None or available is None or available >= download_bytes:
        return None
    return Note(
        size.line,
        f"The weights take {gib(download_bytes)} on disk; where they are downloaded to there are"
        f" {gib(available)}.",
    )


def _capacity(place: Download, storage: Mapping[str, Text]) -> Text | None:
    """Return the size of the volume that holds the downloads, else of the container's own disk;
    None where neither is stated."""
    container, folder = place
    mounts = {
        path: name
        for mount in container.mounts
        if (path := text_at(mount, "mountPath")) and (name := text_at(mount, "name"))
    }
    holding = [path for path in mounts if folder.is_relative_to(path)]
    if not holding:
        limit = text_at(container.resources, "limits", "ephemeral-storage")
        return None if _stored_elsewhere(container, mounts.values()) else limit
    name = mounts[max(holding, key=len)]
    volume = _volumes(container).get(name)
    if volume is None:
        return storage.get(name)
    claim = text_at(volume, "persistentVolumeClaim", "claimName")
    return (
        text_at(volume, "emptyDir", "sizeLimit")
        or storage.get(claim or "")
        or text_at(
            volume, "ephemeral", "volumeClaimTemplate", "spec", "resources", "requests", "storage"
        )
    )


def _folder(container: Container, command: ServerCommand) -> PurePosixPath:
    """Return where a server keeps what it downloads."""
    for flag in command.flags:
        if flag.name.lstrip("-").replace("_", "-") == "download-dir" and flag.value:
            return PurePosixPath(flag.value)
    return _cache(container)


def _cache(container: Container) -> PurePosixPath:
    """Return where huggingface_hub keeps what it downloads (its constants.py, HF_HUB_CACHE)."""
    environment = container.environment
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if name in environment:
            return PurePosixPath(environment[name])
    cache = environment.get("XDG_CACHE_HOME", f"{_HOME}/.cache")
    return PurePosixPath(environment.get("HF_HOME", f"{cache}/huggingface"), "hub")


def _volumes(container: Container) -> dict[str, Block]:
    """Return the volumes of the pod by name."""
    return {text_at(one, "name") or "": one for one in blocks_at(container.pod, "volumes")}


def _stored_elsewhere(container: Container, mounted: Iterable[str]) -> bool:
    """Return whether a volume may hold the downloads by a setting that the manifest does not show,
    as the engine's image sets one: any but files of the cluster and memory."""
    volumes = _volumes(container)
    return any(
        name not in volumes
        or not (
            {"configMap", "secret", "projected", "downwardAPI"} & volumes[name].keys()
            or text_at(volumes[name], "emptyDir", "medium") == "Memory"
        )
        for name in mounted
    )
