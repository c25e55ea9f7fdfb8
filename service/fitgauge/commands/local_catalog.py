"""The catalog in the process of a command."""

from fitgauge.catalog.catalog import Catalog, bundled
from fitgauge.mounted_catalog import create_mounted
from fitgauge.settings import from_environment


def local_catalog() -> Catalog:
    """Return the catalog of this process: ours, or a company's own over it."""
    mounted = create_mounted(from_environment())
    return mounted.current.catalog if mounted else bundled()
