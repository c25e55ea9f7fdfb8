"""What manifests name elsewhere: ConfigMaps with variables and files, claims, serving runtimes.

An object is looked for in the manifest's own file, then in the files that are checked with it,
where just one of that name is."""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from fitgauge.services.manifests.disk import storage_claims
from fitgauge.services.manifests.workloads import CLAIMS, RUNTIMES, named_objects, objects
from fitgauge.services.manifests.yaml_text import (
    Block,
    Items,
    Node,
    Text,
    at_line,
    block_at,
    blocks_at,
    text_at,
)

MARKS = ("ConfigMap", "ResourceClaim", "ServingRuntime", "PersistentVolumeClaim", "NIMCache")
"""What a file that holds only such objects has in it."""


class References(Struct, frozen=True):
    """Objects of manifests by name."""

    claims: Mapping[str, Block] = {}
    """Resource claims and their templates."""
    storage: Mapping[str, Text] = {}
    """What volume claims ask for."""
    runtimes: Mapping[str, Block] = {}
    """Serving runtimes."""
    config_maps: Mapping[str, Block] = {}
    """Data of ConfigMaps."""
    nim_caches: Mapping[str, Block] = {}
    """NVIDIA's caches of models."""

    def over(self, others: "References") -> "References":
        """Return these, and of others what these do not name."""
        return References(
            ChainMap(dict(self.claims), others.claims),  # type: ignore[arg-type]
            ChainMap(dict(self.storage), others.storage),  # type: ignore[arg-type]
            ChainMap(dict(self.runtimes), others.runtimes),  # type: ignore[arg-type]
            ChainMap(dict(self.config_maps), others.config_maps),  # type: ignore[arg-type]
            ChainMap(dict(self.nim_caches), others.nim_caches),  # type: ignore[arg-type]
        )


def references(nodes: Sequence[Node]) -> References:
    """Return the objects of one file."""
    config_maps = {
        text_at(one, "metadata", "name") or "": _texts(block_at(one, "data"))
        for one in objects(nodes)
        if text_at(one, "kind") == "ConfigMap"
    }
    return References(
        named_objects(nodes, CLAIMS),
        storage_claims(nodes),
        named_objects(nodes, RUNTIMES),
        config_maps,
        named_objects(nodes, ("NIMCache",)),
    )


def _texts(data: Block) -> Block:
    """Return the data that is text: what else stands there could hold itself once filled in."""
    return Block({key: text for key, text in data.items() if isinstance(text, Text)})


def of_other_files(files: Iterable[References]) -> References:
    """Return the objects whose name one file alone has, on line 1: their own lines are of another
    file."""
    names = References.__struct_fields__
    merged: dict[str, dict[str, Block]] = {name: {} for name in names}
    repeated: dict[str, set[str]] = {name: set() for name in names}
    for one in files:
        for field in names:
            for name, node in getattr(one, field).items():
                if name in merged[field]:
                    repeated[field].add(name)
                else:
                    merged[field][name] = at_line(node, 1)
    for field in names:
        for name in repeated[field]:
            del merged[field][name]
    return References(**merged)  # type: ignore[arg-type]


def fill_in(nodes: Sequence[Node], config_maps: Mapping[str, Block]) -> None:
    """Write what containers take from ConfigMaps into them: variables as their values, files into
    the volumes that mount them."""
    for block in _blocks(nodes):
        if "env" in block or "envFrom" in block:
            _fill_variables(block, config_maps)
        for volume in blocks_at(block, "volumes"):
            named = block_at(volume, "configMap")
            data = config_maps.get(text_at(named, "name") or "")
            if data is not None:
                named["data"] = data


def _blocks(nodes: Iterable[Node]) -> Iterator[Block]:
    for node in nodes:
        if isinstance(node, Block):
            yield node
            yield from _blocks(list(node.values()))
        elif isinstance(node, Items):
            yield from _blocks(node)


def _fill_variables(container: Block, config_maps: Mapping[str, Block]) -> None:
    variables = blocks_at(container, "env")
    for one in variables:
        reference = block_at(one, "valueFrom", "configMapKeyRef")
        data = config_maps.get(text_at(reference, "name") or "", Block())
        value = text_at(data, text_at(reference, "key") or "")
        if value is not None:
            one["value"] = value if value.in_file else at_line(value, reference.line)
    named = {text_at(one, "name") for one in variables}
    added = Items()
    for source in blocks_at(container, "envFrom"):
        reference = block_at(source, "configMapRef")
        prefix = text_at(source, "prefix") or ""
        for key, text in config_maps.get(text_at(reference, "name") or "", Block()).items():
            if f"{prefix}{key}" not in named and isinstance(text, Text):
                placed = text if text.in_file else at_line(text, reference.line)
                added.append(Block({"name": Text(f"{prefix}{key}"), "value": placed}))
    if added:
        container["env"] = Items([*added, *variables])
