"""The chart in the hands of the real helm: lint, template, package, a release that is installed,
upgraded and rolled back at a stand-in for the API of Kubernetes.

Without helm or the schemas these tests are skipped, unless FITGAUGE_SYSTEM is set."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import manifests
from helm.releases import CHART, SETS

ROOT = Path(__file__).parents[2]
HELM = shutil.which(ROOT / ".helm" / "helm") or shutil.which("helm")
pytestmark = pytest.mark.skipif(
    not (HELM and importlib.util.find_spec("kubernetes_validate"))
    and not os.environ.get("FITGAUGE_SYSTEM"),
    reason="no helm or no schemas of Kubernetes: make system brings both",
)


def helm(*arguments, **environment):
    done = subprocess.run(
        [HELM, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a file for each value set."""
    folder = tmp_path_factory.mktemp("values")
    for name, values in SETS.items():
        folder.joinpath(f"{name}.yaml").write_text(yaml.safe_dump(values))
    return {name: str(folder / f"{name}.yaml") for name in SETS}


@pytest.mark.parametrize("name", SETS)
def test_every_manifest_is_as_the_last_releases_of_kubernetes_want_it(name, files):
    helm("lint", "--strict", str(CHART), "-f", files[name])
    text = helm("template", "try", str(CHART), "-n", "tools", "-f", files[name])
    objects = manifests.objects(text)
    assert len(objects) >= 5
    releases = manifests.releases(3)
    wrong = [
        line for one in objects for release in releases for line in manifests.errors(one, release)
    ]
    assert (len(releases), wrong) == (3, [])


def test_a_kind_without_a_schema_and_a_wrong_field_are_errors():
    (release,) = manifests.releases(1)
    made_up = {"apiVersion": "example.com/v1", "kind": "Made", "metadata": {"name": "x"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
    assert "no schema" in manifests.errors(made_up, release)[0]
    assert manifests.errors({**service, "spec": {"port": 1}}, release)
    assert manifests.errors({**service, "spec": {"ports": []}}, release) == []


def test_helm_refuses_an_older_kubernetes_and_wrong_values():
    for arguments in (["--kube-version", "1.26.0"], ["--set", "replicaCuont=3"]):
        done = subprocess.run([HELM, "template", "try", CHART, *arguments], capture_output=True)
        assert done.returncode != 0


def test_the_package_holds_what_a_release_needs(tmp_path, files):
    helm("package", str(CHART), "-d", str(tmp_path))
    (package,) = tmp_path.glob("fitgauge-*.tgz")
    whole = helm("template", "try", str(package), "-f", files["production"])
    assert whole == helm("template", "try", str(CHART), "-f", files["production"])
    listed = subprocess.run(["tar", "tzf", package], capture_output=True, text=True).stdout
    assert "fitgauge/values.schema.json" in listed
    assert "alerts_test" not in listed


def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(tmp_path, files):
    from system.kube_api import KubeApi

    (release,) = manifests.releases(1)
    with KubeApi(release) as api:
        where = {"KUBECONFIG": str(api.kubeconfig(tmp_path)), "HELM_CACHE_HOME": str(tmp_path)}
        options = ("-n", "tools", "--disable-openapi-validation")
        helm("install", "fit", str(CHART), *options, **where)
        before = api.kinds()
        assert before == [
            "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount",
        ]  # fmt: skip
        helm("upgrade", "fit", str(CHART), *options, "-f", files["production"], **where)
        assert {"HorizontalPodAutoscaler", "PrometheusRule", "ServiceMonitor"} <= set(api.kinds())
        helm("rollback", "fit", "1", "-n", "tools", **where)
        assert api.kinds() == before
        history = json.loads(helm("history", "fit", "-n", "tools", "-o", "json", **where))
        assert [one["status"] for one in history] == ["superseded", "superseded", "deployed"]
        helm("uninstall", "fit", "-n", "tools", **where)
        assert api.objects == {}
