"""Releases of the chart: the defaults and six value sets, rendered by Helm's own library."""

from pathlib import Path

import helm_python
import yaml

CHART = Path(__file__).parents[2] / "helm" / "fitgauge"
SETS = {
    "defaults": {},
    **{
        path.stem: yaml.safe_load(path.read_text())
        for path in sorted(Path(__file__).with_name("values").glob("*.yaml"))
    },
}


def rendered(values=None, name="try"):
    """Return every object by (kind, name)."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values or {})
        files = chart.render(values or {}, name=name, namespace="tools")
    objects = [
        one
        for path, text in files.items()
        if path.endswith(".yaml")
        for one in yaml.safe_load_all(text)
        if one
    ]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def deployment(objects):
    """Return the Deployment of the service."""
    return next(
        one
        for (kind, name), one in objects.items()
        if kind == "Deployment" and not name.endswith("-valkey")
    )


def container(objects):
    return deployment(objects)["spec"]["template"]["spec"]["containers"][0]


def environment(objects):
    """Return the plain variables of the service's container."""
    return {one["name"]: one["value"] for one in container(objects)["env"] if "value" in one}
