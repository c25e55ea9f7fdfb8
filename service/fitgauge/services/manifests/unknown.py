"""Containers that ask for GPUs and start no model server that is known here."""

import re

from fitgauge.catalog.other_engines import other_engine
from fitgauge.services.manifests.containers import Container
from fitgauge.services.manifests.gpus import gpus_of
from fitgauge.services.manifests.reading import Manifest
from fitgauge.services.manifests.schemas import Remark

_NAME = re.compile(r"(?P<name>[^/:@]{1,128})(?::[^/@]*)?(?:@.*)?$")


def unknown_server(container: Container, manifest: Manifest) -> Remark | None:
    """Return a remark on a container that starts no known server; None where it asks for no
    GPU."""
    gpus = gpus_of(container, manifest.claims)
    if not gpus.count:
        return None
    image = container.image
    match = _NAME.search(image or "")
    engine = other_engine(match["name"]) if match else None
    what = f" ({image})" if image else ""
    message = (
        f"{container.name} asks for {gpus.count} GPU{'s' if gpus.count > 1 else ''} and starts no"
        f" model server that is known here{what}."
    )
    if engine is not None:
        nearest = f" The nearest that is: {engine.instead}." if engine.instead else ""
        message += f" {engine.described()}{nearest}"
    return Remark("not-read", image.line if image else container.line, message)
