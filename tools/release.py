"""`make release`: renders a release into dist/release.yaml and holds every object to the schemas of
the newest releases of Kubernetes, before anything is installed.

    python tools/release.py [VALUES_FILE] [NAME] [NAMESPACE]
"""

import sys
from pathlib import Path
from typing import Any

import helm_python
import yaml

import manifests

ROOT = Path(__file__).parents[1]
CHART = ROOT / "helm" / "fitgauge"
TARGET = ROOT / "dist" / "release.yaml"
RELEASES = 3
"""of Kubernetes, the newest: those that are maintained at once"""


def rendered(values: dict[str, Any], name: str, namespace: str) -> str:
    """Return the release as one file, without its tests. Raises HelmError for wrong values."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        files = chart.render(values, name=name, namespace=namespace)
    return "".join(
        f"---\n# Source: {path}\n{text.strip()}\n"
        for path, text in sorted(files.items())
        if path.endswith(".yaml") and "/tests/" not in path and text.strip()
    )


def main(values_file: str = "", name: str = "fitgauge", namespace: str = "default") -> None:
    """Write the release, and end with code 1 where an object is wrong or values are."""
    values = yaml.safe_load(Path(values_file).read_text()) if values_file else {}
    try:
        text = rendered(values or {}, name, namespace)
    except helm_python.HelmError as error:
        raise SystemExit(str(error)) from None
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text)
    objects = manifests.objects(text)
    releases = manifests.releases(RELEASES)
    wrong = [
        line for release in releases for one in objects for line in manifests.errors(one, release)
    ]
    if wrong:
        raise SystemExit("\n".join(wrong))
    kinds = ", ".join(one["kind"] for one in objects)
    sys.stdout.write(f"{TARGET.relative_to(ROOT)}: {len(objects)} objects ({kinds})")
    sys.stdout.write(f", as Kubernetes {', '.join(releases)} has them\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
