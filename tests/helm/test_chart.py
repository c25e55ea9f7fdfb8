"""The chart, rendered by Helm's own library."""

from pathlib import Path

import helm_python
import pytest
import yaml

from fitgauge import __version__

CHART = Path(__file__).parents[2] / "helm" / "fitgauge"

EVERYTHING = {
    "autoscaling": {"enabled": True},
    "ingress": {"enabled": True, "className": "nginx", "tls": [{"secretName": "cert", "hosts": ["fitgauge.local"]}]},
    "networkPolicy": {"enabled": True},
    "hub": {"endpoint": "http://hub.internal", "existingSecret": "hub-token", "offline": True},
    "imagePullSecrets": [{"name": "registry"}],
    "podLabels": {"team": "platform"},
    "podAnnotations": {"note": "yes"},
    "extraEnv": [{"name": "FITGAUGE_MAX_BODY_BYTES", "value": "65536"}],
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "serviceAccount": {"annotations": {"owner": "platform"}},
}


def rendered(values=None):
    """Every object by (kind, name)."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values or {}, name="try", namespace="tools")
    objects = [one for name, text in files.items() if name.endswith(".yaml") for one in yaml.safe_load_all(text) if one]
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
    assert {"HorizontalPodAutoscaler", "Ingress", "NetworkPolicy"} <= kinds


def test_the_image_is_the_services_version():
    assert container(rendered())["image"] == f"fitgauge:{__version__}"


def test_the_token_comes_from_a_secret_only():
    environment = {entry["name"]: entry for entry in container(rendered(EVERYTHING))["env"]}
    assert environment["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "hub-token", "key": "token"}}
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


def test_replicas_are_left_to_the_autoscaler():
    assert "replicas" not in rendered(EVERYTHING)["Deployment", "try-fitgauge"]["spec"]


def test_one_replica_has_no_disruption_budget():
    assert not any(kind == "PodDisruptionBudget" for kind, _ in rendered({"replicaCount": 1}))
