"""Containers of Kubernetes objects: whatever holds a list of containers is a pod, so that
Deployments, Jobs, LeaderWorkerSets, Ray clusters and kinds of tomorrow are read alike."""

from collections.abc import Iterator, Sequence

from fitgauge.services.manifests.containers import Container
from fitgauge.services.manifests.quantities import count_of
from fitgauge.services.manifests.yaml_text import (
    Block,
    Items,
    Node,
    Text,
    block_at,
    blocks_at,
    text_at,
    text_of,
    texts_at,
)

RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
"""Kinds whose containers start with an InferenceService."""
_TEMPLATES = (*RUNTIMES, "LLMInferenceServiceConfig")
"""Kinds that start nothing by themselves."""
CLAIMS = ("ResourceClaim", "ResourceClaimTemplate")
"""Kinds that containers claim GPUs by."""
_DEVICE_FOLDER = "/dev/shm"
_LEADER = "leaderWorkerTemplate"
_MOUNTS_SHARED_MEMORY = ("RayCluster", "RayJob", "RayService")
"""Kinds whose operator mounts a volume of medium Memory at /dev/shm. Source: ray-project/kuberay
ray-operator/controllers/ray/common/pod.go, SharedMemoryVolumeMountPath."""


def named_objects(documents: Sequence[Node], kinds: Sequence[str]) -> dict[str, Block]:
    """Return the objects of these kinds by name."""
    return {
        text_at(block, "metadata", "name") or "": block
        for block in objects(documents)
        if text_at(block, "kind") in kinds
    }


def containers(document: Node) -> Iterator[Container]:
    """Yield the containers of every pod in a document, by the line."""
    for block in objects([document]):
        kind = text_at(block, "kind")
        for container in _pods(block, owner_of(block), 1) if kind not in _TEMPLATES else ():
            if kind in _MOUNTS_SHARED_MEMORY:
                container.shared_memory = container.shared_memory or Text("unlimited")
            yield container


def objects(documents: Sequence[Node]) -> Iterator[Block]:
    """Yield the objects of documents, those in lists one by one."""
    for document in documents:
        if not isinstance(document, Block):
            continue
        kind = text_at(document, "kind")
        if kind is not None and kind.endswith("List") and isinstance(document.get("items"), Items):
            yield from objects(blocks_at(document, "items"))
        else:
            yield document


def owner_of(block: Block) -> str:
    """Return kind and name of an object."""
    kind, name = text_at(block, "kind"), text_at(block, "metadata", "name")
    return "/".join(filter(None, (kind, name))) or "manifest"


def _pods(node: Node, owner: str, group_size: int) -> Iterator[Container]:
    if isinstance(node, Items):
        for item in node:
            yield from _pods(item, owner, group_size)
        return
    if not isinstance(node, Block):
        return
    alone = block_at(node, "container")  # of a template of Argo Workflows
    pods = [*blocks_at(node, "containers"), *([alone] if "image" in alone else ())]
    for container in pods:
        several = len(pods) > 1
        name = text_at(container, "name") if several else None
        yield container_of(container, node, "/".join(filter(None, (owner, name))), group_size)
    for key, value in node.items():
        size = count_of(text_at(value, "size")) if key == _LEADER else None
        inner = group_size if size is None else size
        if key not in ("container", "containers", "initContainers") and not _follows(node, key):
            followers = (
                block_at(node, "workerTemplate", "spec") if key == "leaderTemplate" else None
            )
            for started in _pods(value, owner, max(1, inner)):
                started.followers = followers or started.followers
                yield started


def _follows(block: Block, key: str) -> bool:
    """Return whether these are the pods that follow a leader, which starts the server."""
    return key == "workerTemplate" and "leaderTemplate" in block


def container_of(block: Block, pod: Block, name: str, group_size: int = 1) -> Container:
    """Return a container of a pod."""
    command = texts_at(block, "command")
    hook = block_at(block, "lifecycle", "postStart", "exec")
    return Container(
        name=name,
        line=block.line,
        own_name=text_at(block, "name"),
        image=text_at(block, "image"),
        command=command or None,
        arguments=texts_at(block, "args"),
        hooks=texts_at(hook, "command"),
        environment=environment_of(block),
        resources=block_at(block, "resources"),
        pod=pod,
        group_size=group_size,
        mounts=blocks_at(block, "volumeMounts"),
        shared_memory=_shared_memory(block, pod),
        files=_mounted_files(block, pod),
    )


def _mounted_files(block: Block, pod: Block) -> dict[str, Text]:
    """Return the files that a container mounts from ConfigMaps, by their paths."""
    volumes = {
        text_at(one, "name"): block_at(one, "configMap")
        for one in blocks_at(pod, "volumes")
        if block_at(one, "configMap", "data")
    }
    result = {}
    for mount in blocks_at(block, "volumeMounts") if volumes else ():
        volume = volumes.get(text_at(mount, "name"), Block())
        folder = (text_at(mount, "mountPath") or "").rstrip("/")
        part = text_at(mount, "subPath")
        names = {
            text_at(item, "key"): text_at(item, "path") or "" for item in blocks_at(volume, "items")
        }
        for key, text in block_at(volume, "data").items():
            name = names.get(text_of(key, 1), key)
            if isinstance(text, Text) and part in (None, name):
                result[folder if part else f"{folder}/{name}"] = text
    return result


def environment_of(block: Block) -> dict[str, Text]:
    """Return the variables of a container that have a value in the manifest."""
    return {
        name: value
        for one in blocks_at(block, "env")
        if (name := text_at(one, "name")) and (value := text_at(one, "value"))
    }


def _shared_memory(block: Block, pod: Block) -> Text | None:
    """Return the size of the volume at /dev/shm: `unlimited` without a limit, `host` for the
    machine's own; None without a volume."""
    if text_at(pod, "hostIPC") == "true":
        return Text("host")
    mounted = {
        text_at(mount, "name")
        for mount in blocks_at(block, "volumeMounts")
        if (text_at(mount, "mountPath") or "").rstrip("/") == _DEVICE_FOLDER
    }
    for volume in blocks_at(pod, "volumes"):
        if text_at(volume, "name") in mounted:
            return text_at(volume, "emptyDir", "sizeLimit") or Text("unlimited")
    return Text("unlimited") if mounted else None
