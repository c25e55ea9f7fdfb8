"""How Kubernetes labels the nodes that hold a GPU: data/node_labels.tsv, with a source a row."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from fitgauge.catalog import tables


@cache
def load() -> Mapping[str, tuple[str, str]]:
    """Return (Key, value) of the label by accelerator id, read once. GPUs whose label was not
    seen are missing."""
    labels = {gpu: (key, value) for gpu, key, value, _ in tables.rows("node_labels")}
    return MappingProxyType(labels)
