"""How Kubernetes labels the nodes that hold a GPU: data/node_labels.tsv, with a source a row."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType


@cache
def load() -> Mapping[str, tuple[str, str]]:
    """Return (Key, value) of the label by accelerator id, read once. GPUs whose label is not
    was seen to print are missing."""
    lines = (
        files("fitgauge.catalog").joinpath("data/node_labels.tsv").read_text("utf-8").splitlines()
    )
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return MappingProxyType(
        {accelerator_id: (key, value) for accelerator_id, key, value, _ in rows}
    )
