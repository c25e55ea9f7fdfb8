"""Services of a Compose file.

Source: the Compose specification, services, deploy (devices) and byte values."""

import re
from collections.abc import Iterator

from fitgauge.services.manifests.containers import Container, words
from fitgauge.services.manifests.quantities import count_of
from fitgauge.services.manifests.yaml_text import (
    Block,
    Items,
    Node,
    Text,
    block_at,
    blocks_at,
    items_at,
    text_at,
    text_of,
)

_SIZE = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,3})?)(?P<unit>[kmg])b?", re.IGNORECASE)


def is_compose(document: Node) -> bool:
    """Return whether a document is a Compose file."""
    return (
        isinstance(document, Block)
        and "kind" not in document
        and any(
            isinstance(service, Block) and ("image" in service or "build" in service)
            for service in block_at(document, "services").values()
        )
    )


def compose_containers(document: Block) -> Iterator[Container]:
    """Yield the containers of a Compose file."""
    for name, service in block_at(document, "services").items():
        if not isinstance(service, Block):
            continue
        shares = text_at(service, "ipc") == "host"
        yield Container(
            name=f"services/{name}",
            line=service.line,
            image=text_at(service, "image"),
            command=_words(service.get("entrypoint")) or None,
            arguments=_words(service.get("command")),
            hooks=[
                word
                for hook in blocks_at(service, "post_start")
                for word in _words(hook.get("command"))
            ],
            environment=_environment(service.get("environment")),
            resources=Block(),
            pod=Block(),
            gpu_count=_gpu_count(service),
            memory=_size(text_at(service, "mem_limit"))
            or _size(text_at(service, "deploy", "resources", "limits", "memory")),
            shared_memory=Text("host") if shares else _size(text_at(service, "shm_size")),
        )


def _size(text: Text | None) -> Text | None:
    """Return a size as Kubernetes writes it: units of Compose are of 1024."""
    match = _SIZE.fullmatch(text) if text is not None else None
    if text is None or match is None:
        return text
    return text_of(f"{match['number']}{match['unit'].upper()}i", text.line)


def _words(node: Node) -> list[Text]:
    """Return the words of a command, a list or one text."""
    if isinstance(node, Text):
        return words(node)
    return [item for item in node if isinstance(item, Text)] if isinstance(node, Items) else []


def _environment(node: Node) -> dict[str, Text]:
    """Return variables, of a mapping or of a list of NAME=value."""
    if isinstance(node, Block):
        return {name: value for name, value in node.items() if isinstance(value, Text)}
    pairs = [
        (item, *item.partition("=")[::2])
        for item in (node if isinstance(node, Items) else ())
        if isinstance(item, Text) and "=" in item
    ]
    return {name: text_of(value, item.line) for item, name, value in pairs}


def _gpu_count(service: Block) -> int | None:
    """Return the GPUs that a service reserves; None where it names no number."""
    devices = blocks_at(service, "deploy", "resources", "reservations", "devices")
    for device in [*devices, *blocks_at(service, "gpus")]:
        count, ids = count_of(text_at(device, "count")), items_at(device, "device_ids")
        if ids:
            return len(ids)
        if count is not None:
            return count
    return None
