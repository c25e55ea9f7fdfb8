"""How to run an answer's launch command on a Kubernetes cluster: manifests to apply, and values of
the engine's own Helm chart."""

import re
from collections.abc import Mapping, Sequence

from msgspec import json, structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.serving.container import Container
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.kubernetes import Kubernetes, kubernetes
from fitgauge.services.common.schemas import Launch
from fitgauge.services.fit.query import FitEstimate, FitQuery
from fitgauge.services.fit.speed import half_of

_LONGEST_NAME = 40
"""Characters of a name: a label has at most 63, and a chart puts words before and after."""
_SERVICE_PORT = 80
_PROBE_SECONDS = 10
_STARTING_PROBES = 180
"""Half an hour for weights to be downloaded and loaded: assumed, as no start-up time is known."""
_TOKEN = {"name": "hf-token", "key": "token", "optional": True}
"""The secret of a token for gated models."""
_PLAIN = re.compile(r"[A-Za-z/][\w./-]*")
_RESERVED = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def with_manifests(launch: Launch, checked: FitEstimate) -> Launch:
    """Return a launch with its manifests; null where the engine's project publishes no image for
    the GPU, several machines are needed, or GPUs are of several kinds."""
    container = container_of(launch, checked)
    if container is None:
        return structs.replace(launch, kubernetes=None, helm_values=None)
    half = half_of(checked.workload)
    chart = ENGINES[checked.workload.engine].chart if half is None else None
    return structs.replace(
        launch,
        kubernetes="---\n".join(yaml(one) for one in _resources(container)),
        helm_values=None if chart is None else f"# {chart.name}\n{yaml(chart.values(container))}",
    )


def container_of(launch: Launch, checked: FitEstimate) -> Container | None:
    """Return the container that runs a launch, None where there is none."""
    query, workload = checked.query, checked.workload
    image = ENGINES[workload.engine].image
    tables = max(checked.host_tables)
    if query.gpus:
        pods = None
    else:
        pods = kubernetes(query.accelerator, query.count, workload, None, tables=tables)
    if image is None or pods is None or not _on_one_node(query.accelerator, pods):
        return None
    (gpus,) = pods.limits.items()
    return Container(
        name="-".join(filter(None, (resource_name(query.loaded.id), half_of(workload)))),
        launch=launch.command,
        spec=query.spec,
        workload=workload,
        image=image,
        tag=image.tag.format(release=_release(query)),
        gpus=gpus,
        memory=pods.requests["memory"],
        shared_memory=pods.shared_memory.size_limit if pods.shared_memory else None,
        node_selector=pods.node_selector,
    )


def _on_one_node(accelerator: Accelerator, pods: Kubernetes) -> bool:
    return accelerator.vendor == "NVIDIA" and pods.pods == 1


def _release(query: FitQuery) -> str:
    """Return the engine's release in full: the one requested, or the newest that was judged."""
    requested = query.request.engine_version
    newest = query.profile.newest
    if requested is None or newest.startswith(f"{requested}."):
        return newest
    return requested if requested.count(".") > 1 else f"{requested}.0"


def resource_name(model_id: str) -> str:
    """Return a model's name as one that a Service takes (RFC 1035)."""
    words = re.sub(r"[^a-z0-9]+", "-", model_id.rpartition("/")[2].lower())
    name = words[:_LONGEST_NAME].strip("-")
    return name if name[:1].isalpha() else f"model-{name}".rstrip("-")


def _resources(container: Container) -> tuple[Mapping[str, object], ...]:
    """Return the Deployment and the Service."""
    labels = {"app": container.name}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": container.name},
        "spec": {
            "selector": labels,
            "ports": [{"port": _SERVICE_PORT, "targetPort": container.image.port}],
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": container.name, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(container)},
        },
    }
    return deployment, service


def _pod(container: Container) -> dict[str, object]:
    """Return what a pod runs and asks for. Without links: variables of a Service like VLLM_PORT
    would be read as the engine's own."""
    resource, count = container.gpus
    image = container.image
    probe = {"httpGet": {"path": "/health", "port": image.port}, "periodSeconds": _PROBE_SECONDS}
    server: dict[str, object] = {
        "name": "server",
        "image": f"{image.repository}:{container.tag}",
        "command": ["/bin/sh", "-c"],
        "args": [image.command(container.launch)],
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": _TOKEN}}, *_address(container)],
        "ports": [{"containerPort": image.port}],
        "resources": {"limits": {resource: count}, "requests": {"memory": container.memory}},
        "startupProbe": {**probe, "failureThreshold": _STARTING_PROBES},
        "readinessProbe": probe,
        "livenessProbe": probe,
    }
    pod: dict[str, object] = {"enableServiceLinks": False}
    if container.node_selector:
        pod["nodeSelector"] = container.node_selector
    if container.shared_memory is not None:
        memory = {"medium": "Memory", "sizeLimit": container.shared_memory}
        server["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
        pod["volumes"] = [{"name": "shm", "emptyDir": memory}]
    return {"containers": [server], **pod}


def _address(container: Container) -> list[dict[str, object]]:
    """Return the variable with the pod's address, where the other half has to reach it."""
    name = container.image.address_variable
    if container.workload.disaggregation is None or name is None:
        return []
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def yaml(value: object, indent: str = "") -> str:
    """Return a value of mappings, lists, texts and numbers as lines of YAML."""
    if isinstance(value, Mapping):
        return "".join(
            f"{indent}{_scalar(key)}:{_below(one, indent)}" for key, one in value.items()
        )
    assert isinstance(value, Sequence)
    lines = ((yaml(one, f"{indent}  ") if _nests(one) else f"  {_scalar(one)}\n") for one in value)
    return "".join(f"{indent}- {line.lstrip()}" for line in lines)


def _below(value: object, indent: str) -> str:
    """Return what follows a key."""
    if not _nests(value):
        return f" {_scalar(value)}\n"
    deeper = f"{indent}  " if isinstance(value, Mapping) else indent
    return f"\n{yaml(value, deeper)}"


def _nests(value: object) -> bool:
    return isinstance(value, Mapping | list) and bool(value)


def _scalar(value: object) -> str:
    """Return a text without quotes where YAML reads it as the same text, all else as JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return json.encode(value).decode()
