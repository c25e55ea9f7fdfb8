"""Each channel's own GPUs, in one JSON file: what a question is about that names no GPU."""

import json
import os
from pathlib import Path

LONGEST = 100
"""Characters of a pool."""

_MOST = 10_000
"""Channels of a file."""


class Pools:
    """The pools of one file, which one process writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pools = _read(path)

    def of(self, channel: str) -> str:
        """Return a channel's pool; empty where it has none."""
        return self._pools.get(channel, "")

    def set(self, channel: str, pool: str) -> None:
        """Set a channel's pool, or remove it where it is empty. Raises OSError where the file
        cannot be written."""
        pools = {name: one for name, one in self._pools.items() if name != channel}
        if pool:
            pools = dict(list(pools.items())[1 - _MOST :]) | {channel: pool[:LONGEST]}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".tmp")
        fresh.write_text(json.dumps(pools, ensure_ascii=False, indent=1), "utf-8")
        os.replace(fresh, self._path)  # a reader sees the old file or the new one
        self._pools = pools


def _read(path: Path) -> dict[str, str]:
    """Return the pools of a file; none where there is no file. Raises ValueError for another
    file."""
    if not path.exists():
        return {}
    pools = json.loads(path.read_text("utf-8"))
    if not isinstance(pools, dict):
        raise ValueError(f"{path} holds no pools.")
    return {str(name): str(pool) for name, pool in pools.items()}
