"""Writes tests/helm/crds/: the schemas of the custom kinds that the chart makes, from the CRDs of
their own projects.

    python tools/crds.py GATEWAY_API PROMETHEUS_CHARTS

The arguments are clones of kubernetes-sigs/gateway-api and prometheus-community/helm-charts.
Descriptions are left out, and rules in CEL (`x-kubernetes-validations`), which JSON Schema cannot
hold. A field that a schema does not name is refused, as an API server with `--validate=strict`
does.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).parents[1] / "tests" / "helm" / "crds"
_GATEWAY = "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"
_OPERATOR = "charts/kube-prometheus-stack/charts/crds/crds/crd-{}.yaml"
_RELEASE = "operator.prometheus.io/version"


def strict(schema: object) -> Any:  # noqa: ANN401 - JSON
    """Return a schema as JSON Schema, without texts, that refuses fields it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    reduced = {
        key: {name: strict(one) for name, one in value.items()}
        if key == "properties"
        else strict(value)
        for key, value in schema.items()
        if key not in ("description", "format") and not key.startswith("x-kubernetes-")
    }
    if schema.get("x-kubernetes-int-or-string"):
        reduced.pop("type", None)
        reduced["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if "type" in reduced and "properties" in reduced and "additionalProperties" not in reduced:
        reduced["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    return reduced


def schema_of(definition: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the schema of the stored version of a CRD, with where it comes from."""
    spec = definition["spec"]
    version = next(one for one in spec["versions"] if one["storage"])
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    schema["required"] = [
        *(name for name in schema.get("required", ()) if name not in ("kind", "metadata")),
        *("apiVersion", "kind", "metadata"),
    ]
    title = f"{spec['names']['kind']} of {spec['group']}/{version['name']}"
    return {"title": title, "$comment": f"{source}, Apache-2.0", **schema}


def main(gateway_api: str, charts: str) -> None:
    """Write the schemas."""
    paths = [Path(gateway_api) / _GATEWAY]
    paths += [
        Path(charts) / _OPERATOR.format(name) for name in ("servicemonitors", "prometheusrules")
    ]
    TARGET.mkdir(exist_ok=True)
    for path in paths:
        definition = yaml.safe_load(path.read_text())
        schema = schema_of(definition, _source(path, definition))
        name = definition["spec"]["names"]["kind"].lower()
        TARGET.joinpath(f"{name}.json").write_text(json.dumps(schema, separators=(",", ":")) + "\n")


def _source(path: Path, definition: dict[str, Any]) -> str:
    """Return the release of an operator's CRD; the commit and date of the other project's."""
    release = definition["metadata"]["annotations"].get(_RELEASE)
    if release:
        return f"prometheus-operator/prometheus-operator {release}"
    commit = ["git", "-C", str(path.parent), "log", "-1", "--format=%h of %cs"]
    commit_line = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    return f"kubernetes-sigs/gateway-api {commit_line}"


if __name__ == "__main__":
    main(*sys.argv[1:])
