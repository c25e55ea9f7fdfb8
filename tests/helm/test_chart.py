"""The chart, rendered by Helm's own library."""

from pathlib import Path

import helm_python
import pytest
import yaml

from fitgauge import __version__
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.overlay import overlay
from fitgauge.catalog.overlay_file import parse

CHART = Path(__file__).parents[2] / "helm" / "fitgauge"

EVERYTHING = {
    "autoscaling": {"enabled": True},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "tls": [{"secretName": "cert", "hosts": ["fitgauge.local"]}],
    },
    "networkPolicy": {"enabled": True},
    "hub": {"endpoint": "http://hub.internal", "existingSecret": "hub-token", "offline": True},
    "imagePullSecrets": [{"name": "registry"}],
    "podLabels": {"team": "platform"},
    "podAnnotations": {"note": "yes"},
    "extraEnv": [{"name": "FITGAUGE_MAX_BODY_BYTES", "value": "65536"}],
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "serviceAccount": {"annotations": {"owner": "platform"}},
    "catalog": {
        "contents": {"as_of": "2026-11-01", "prices": {"L40S": 0.8}, "quotas": {"L40S": 16}}
    },
}


def rendered(values=None):
    """Return every object by (kind, name)."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values or {}, name="try", namespace="tools")
    objects = [
        one
        for name, text in files.items()
        if name.endswith(".yaml")
        for one in yaml.safe_load_all(text)
        if one
    ]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def container(objects):
    return objects["Deployment", "try-fitgauge"]["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_helm_finds_nothing_to_complain_about(values):
    result = helm_python.lint(CHART, values, strict=True)
    assert not [message for message in result["messages"] if "icon" not in str(message)], result


def test_defaults_render_what_a_release_needs_and_no_more():
    kinds = {kind for kind, _ in rendered()}
    assert kinds == {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "Pod"}


def test_everything_enabled_renders_every_kind():
    kinds = {kind for kind, _ in rendered(EVERYTHING)}
    assert {"HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "ConfigMap"} <= kinds


def test_the_image_is_the_services_version():
    assert container(rendered())["image"] == f"fitgauge:{__version__}"


def test_the_token_comes_from_a_secret_only():
    environment = {entry["name"]: entry for entry in container(rendered(EVERYTHING))["env"]}
    assert environment["HF_TOKEN"]["valueFrom"] == {
        "secretKeyRef": {"name": "hub-token", "key": "token"}
    }
    assert environment["HF_ENDPOINT"]["value"] == "http://hub.internal"
    assert "HF_TOKEN" not in {entry["name"] for entry in container(rendered())["env"]}


def test_probes_ask_what_the_contract_offers():
    pod = container(rendered())
    assert pod["livenessProbe"]["httpGet"]["path"] == "/health/live"
    assert pod["readinessProbe"]["httpGet"]["path"] == "/health/ready"


def test_a_pod_runs_without_rights():
    pod = container(rendered())["securityContext"]
    assert pod["readOnlyRootFilesystem"] is True
    assert pod["capabilities"] == {"drop": ["ALL"]}


def test_a_service_of_the_same_name_sets_no_variable_of_the_pod():
    assert (
        rendered()["Deployment", "try-fitgauge"]["spec"]["template"]["spec"]["enableServiceLinks"]
        is False
    )


def test_the_memory_limit_is_above_what_attacks_reach():
    memory = container(rendered())["resources"]["limits"]["memory"]
    assert int(memory.removesuffix("Mi")) >= 200


def test_replicas_are_left_to_the_autoscaler():
    assert "replicas" not in rendered(EVERYTHING)["Deployment", "try-fitgauge"]["spec"]


def test_one_replica_has_no_disruption_budget():
    assert not any(kind == "PodDisruptionBudget" for kind, _ in rendered({"replicaCount": 1}))


def test_a_catalog_in_the_values_becomes_a_file_that_the_service_takes_and_a_mount_of_its_folder():
    row = {"id": "h100-sxm-80gb", "usable": 84_700_000_000}
    objects = rendered(
        {"catalog": {"contents": {**EVERYTHING["catalog"]["contents"], "accelerators": [row]}}}
    )
    file = objects["ConfigMap", "try-fitgauge-catalog"]["data"]["own-catalog.json"]
    made = overlay(bundled(), [("own-catalog.json", parse("own-catalog.json", file.encode()))])
    assert made.find("L40S").quota == 16
    assert made.find("h100").accelerator.usable.expected == 84_700_000_000
    environment = {entry["name"]: entry["value"] for entry in container(objects)["env"]}
    mount = next(
        mount for mount in container(objects)["volumeMounts"] if mount["name"] == "catalog"
    )
    assert environment["FITGAUGE_CATALOG"] == mount["mountPath"]
    assert "subPath" not in mount
    volumes = objects["Deployment", "try-fitgauge"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "catalog", "configMap": {"name": "try-fitgauge-catalog"}} in volumes


def test_a_catalog_may_be_a_config_map_that_is_there():
    objects = rendered({"catalog": {"existingConfigMap": "gpu-catalog"}})
    assert not any(kind == "ConfigMap" for kind, _ in objects)
    volumes = objects["Deployment", "try-fitgauge"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "catalog", "configMap": {"name": "gpu-catalog"}} in volumes
