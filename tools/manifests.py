"""Holds Kubernetes' objects to schemas: its own kinds to those of a release, custom kinds to those
of their CRDs. A kind without a schema is an error."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

CRDS = Path(__file__).parents[1] / "tests" / "helm" / "crds"


def objects(text: str) -> list[dict[str, Any]]:
    """Return the objects of a rendered release."""
    return [one for one in yaml.safe_load_all(text) if one]


@cache
def custom_kinds() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the schemas of custom kinds by apiVersion and kind."""
    schemas = [json.loads(path.read_text()) for path in CRDS.glob("*.json")]
    named = [(schema["title"].split(" of "), schema) for schema in schemas]
    return {(version, kind): schema for (kind, version), schema in named}


def releases(count: int) -> list[str]:
    """Return the newest releases of Kubernetes whose schemas are installed, oldest first."""
    from kubernetes_validate.utils import all_versions

    newest = {re.match(r"\d+\.\d+", version)[0]: version for version in all_versions()}  # type: ignore[index]
    return list(newest.values())[-count:]


def errors(manifest: dict[str, Any], release: str | None) -> list[str]:
    """Return what is wrong with an object in a release of Kubernetes; without one, kinds of
    Kubernetes itself are not looked at."""
    name = f"{manifest['kind']}/{manifest['metadata']['name']}"
    schema = custom_kinds().get((manifest["apiVersion"], manifest["kind"]))
    if schema is not None:
        wrong = jsonschema.Draft202012Validator(schema).iter_errors(manifest)
        return [f"{name}: {error.json_path}: {error.message}" for error in wrong]
    if release is None:
        return []
    from kubernetes_validate.utils import SchemaNotFoundError, ValidationError, validate

    try:
        validate(manifest, release, strict=True)
    except SchemaNotFoundError:
        return [f"{name}: no schema of {manifest['apiVersion']} in Kubernetes {release}"]
    except ValidationError as error:
        return [f"{name}: {error.json_path}: {error.message} (Kubernetes {release})"]
    return []


def restricted(pod: dict[str, Any]) -> list[str]:
    """Return what the restricted profile of the Pod Security Standards forbids in a pod's spec."""
    broken = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    own = pod.get("securityContext", {})
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        held = {**own, **container.get("securityContext", {})}
        wanted = {
            "runAsNonRoot": held.get("runAsNonRoot") is True and held.get("runAsUser") != 0,
            "allowPrivilegeEscalation": held.get("allowPrivilegeEscalation") is False,
            "capabilities": held.get("capabilities", {}).get("drop") == ["ALL"],
            "privileged": not held.get("privileged"),
            "seccompProfile": held.get("seccompProfile", {}).get("type")
            in ("RuntimeDefault", "Localhost"),
            "hostPort": not any("hostPort" in port for port in container.get("ports", ())),
        }
        broken += [f"{container['name']}: {name}" for name, holds in wanted.items() if not holds]
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "projected", "secret"}
    allowed |= {"persistentVolumeClaim"}
    for volume in pod.get("volumes", ()):
        broken += [f"volume {volume['name']}"] if not allowed & set(volume) else []
    return broken
