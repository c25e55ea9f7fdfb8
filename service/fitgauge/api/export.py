"""Writes the committed artefacts: openapi.json and the tool manifests of the usual hosts.
`python -m fitgauge.api.export DIRECTORY`."""

import json
import sys
from pathlib import Path
from typing import Any

from fitgauge.api.manifests import manifests
from fitgauge.api.openapi import document
from fitgauge.api.tools_document import VERSION_30, tools_document


def artefacts() -> dict[str, Any]:
    """Return every artefact by its path under openapi/."""
    return {
        "openapi.json": document(),
        "tools/openapi.json": tools_document(),
        "tools/openapi-3.0.json": tools_document(version=VERSION_30),
        **{f"tools/{host}.json": manifest for host, manifest in manifests().items()},
    }


def main(directory: str) -> None:
    """Write every artefact under `directory`."""
    for name, content in artefacts().items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
