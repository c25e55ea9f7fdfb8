"""What the chart renders."""

import re

import helm_python
import pytest

import manifests
from fitgauge import __version__
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.overlay import overlay
from fitgauge.catalog.overlay_file import parse
from helm.releases import CHART, SETS, container, deployment, environment, rendered

RELEASES = {name: rendered(values) for name, values in SETS.items()}


@pytest.mark.parametrize("name", SETS)
def test_helm_finds_nothing_to_complain_about(name):
    result = helm_python.lint(CHART, SETS[name], strict=True)
    assert not [message for message in result["messages"] if "icon" not in str(message)], result


def test_defaults_render_what_a_release_needs_and_no_more():
    kinds = [kind for kind, _ in RELEASES["defaults"]]
    assert sorted(kinds) == [
        "Deployment", "NetworkPolicy", "Pod", "PodDisruptionBudget", "Service", "ServiceAccount",
    ]  # fmt: skip


def test_the_value_sets_render_every_template():
    kinds = {kind for release in RELEASES.values() for kind, _ in release}
    templates = [path.read_text() for path in CHART.glob("templates/**/*.yaml")]
    assert kinds == {kind for text in templates for kind in re.findall(r"^kind: (\w+)", text, re.M)}


@pytest.mark.parametrize("name", SETS)
def test_custom_kinds_are_as_their_own_definitions_want_them(name):
    for one in RELEASES[name].values():
        assert manifests.errors(one, None) == []


@pytest.mark.parametrize(
    "kind, path, value",
    [
        ("HTTPRoute", ("spec", "parentRef"), []),
        ("ServiceMonitor", ("spec", "endpoints"), {}),
        ("PrometheusRule", ("spec", "groups"), [{"name": "x", "rules": [{"alert": 1}]}]),
    ],
)
def test_a_wrong_field_of_a_custom_kind_is_seen(kind, path, value):
    objects = [one for r in RELEASES.values() for (k, _), one in r.items() if k == kind]
    wrong = {**objects[0], path[0]: {**objects[0][path[0]], path[1]: value}}
    assert manifests.errors(wrong, None)


@pytest.mark.parametrize("name", SETS)
def test_pods_are_restricted(name):
    specs = [
        one["spec"]["template"]["spec"] if kind == "Deployment" else one["spec"]
        for (kind, _), one in RELEASES[name].items()
        if kind in ("Deployment", "Pod")
    ]
    for spec in specs:
        assert manifests.restricted(spec) == []
        assert spec["automountServiceAccountToken"] is False
        assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in spec["containers"])


def test_a_pod_with_rights_is_seen():
    spec = deployment(RELEASES["defaults"])["spec"]["template"]["spec"]
    root = {**spec, "securityContext": {**spec["securityContext"], "runAsUser": 0}}
    host = {**spec, "volumes": [{"name": "all", "hostPath": {"path": "/"}}]}
    assert manifests.restricted(root) == ["fitgauge: runAsNonRoot"]
    assert manifests.restricted(host) == ["volume all"]


@pytest.mark.parametrize("name", SETS)
def test_a_selector_takes_the_pods_of_one_component_alone(name):
    pods = [
        one["spec"]["template"]["metadata"]["labels"]
        if kind == "Deployment"
        else one["metadata"]["labels"]
        for (kind, _), one in RELEASES[name].items()
        if kind in ("Deployment", "Pod")
    ]
    for (kind, _), one in RELEASES[name].items():
        if kind == "Service":
            selected = [
                labels for labels in pods if one["spec"]["selector"].items() <= labels.items()
            ]
            assert len(selected) == 1


def test_the_image_is_the_services_version():
    assert container(RELEASES["defaults"])["image"] == f"fitgauge:{__version__}"


@pytest.mark.parametrize("name", SETS)
def test_a_secret_is_a_reference(name):
    for one in container(RELEASES[name])["env"]:
        if re.search("TOKEN$|PASSWORD|SHARED_STATE", one["name"]):
            assert (
                "secretKeyRef" in one.get("valueFrom", {}) or "$(VALKEY_PASSWORD)" in one["value"]
            )
    assert not any(kind == "Secret" for kind, _ in RELEASES[name])


def egress(name):
    """Return what the pods may reach: (port, whether anywhere)."""
    policy = next(
        one
        for (kind, at), one in RELEASES[name].items()
        if kind == "NetworkPolicy" and not at.endswith("-valkey")
    )
    rules = policy["spec"]["egress"]
    return {(rule["ports"][0]["port"], "to" not in rule) for rule in rules}


@pytest.mark.parametrize(
    "name, expected",
    [
        ("defaults", {(53, True), (443, True)}),
        ("offline", {(53, True)}),
        ("shared", {(53, True), (8080, True), (6379, False), (443, False)}),
        ("tokens", {(53, True), (443, True), (8443, False)}),
        ("production", {(53, True), (443, True), (4318, False)}),
    ],
)
def test_pods_reach_what_the_values_need_and_nothing_else(name, expected):
    assert egress(name) == expected


def test_only_the_service_reaches_the_store():
    (peer,) = RELEASES["shared"]["NetworkPolicy", "gauge-valkey"]["spec"]["ingress"][0]["from"]
    labels = deployment(RELEASES["shared"])["spec"]["selector"]["matchLabels"]
    assert peer == {"podSelector": {"matchLabels": labels}}


def test_a_service_of_the_same_name_sets_no_variable_of_the_pod():
    spec = deployment(RELEASES["defaults"])["spec"]["template"]["spec"]
    assert spec["enableServiceLinks"] is False


def test_the_memory_limit_is_above_what_attacks_reach():
    memory = container(RELEASES["defaults"])["resources"]["limits"]["memory"]
    assert int(memory.removesuffix("Mi")) >= 200


def test_replicas_are_left_to_the_autoscaler():
    assert "replicas" not in deployment(RELEASES["production"])["spec"]


def test_one_replica_has_no_disruption_budget():
    assert not any(kind == "PodDisruptionBudget" for kind, _ in RELEASES["offline"])


def test_no_pod_goes_before_the_next_is_ready():
    strategy = deployment(RELEASES["defaults"])["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_catalog_in_the_values_becomes_a_file_that_the_service_takes_and_a_mount_of_its_folder():
    contents = SETS["offline"]["catalog"]["contents"]
    row = {"id": "h100-sxm-80gb", "usable": 84_700_000_000}
    objects = rendered({"catalog": {"contents": {**contents, "accelerators": [row]}}})
    file = objects["ConfigMap", "try-fitgauge-catalog"]["data"]["own-catalog.json"]
    made = overlay(bundled(), [("own-catalog.json", parse("own-catalog.json", file.encode()))])
    assert made.find("L40S").quota == 16
    assert made.find("h100").accelerator.usable.expected == 84_700_000_000
    mount = next(
        mount for mount in container(objects)["volumeMounts"] if mount["name"] == "catalog"
    )
    assert environment(objects)["FITGAUGE_CATALOG"] == mount["mountPath"]
    assert "subPath" not in mount
    volumes = deployment(objects)["spec"]["template"]["spec"]["volumes"]
    assert {"name": "catalog", "configMap": {"name": "try-fitgauge-catalog"}} in volumes


def test_a_catalog_may_be_a_config_map_that_is_there():
    objects = rendered({"catalog": {"existingConfigMap": "gpu-catalog"}})
    assert not any(kind == "ConfigMap" for kind, _ in objects)
    volumes = deployment(objects)["spec"]["template"]["spec"]["volumes"]
    assert {"name": "catalog", "configMap": {"name": "gpu-catalog"}} in volumes


def test_a_grace_period_that_cuts_requests_off_is_refused():
    with pytest.raises(helm_python.HelmError):
        rendered({"preStopSeconds": 25, "terminationGracePeriodSeconds": 30})
