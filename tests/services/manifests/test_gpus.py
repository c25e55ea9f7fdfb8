"""The GPUs of a pod: resources, slices, shares, selectors, affinity, claims."""

import re
from pathlib import Path

import pytest

from fitgauge.services.manifests.gpus import gpus_of
from fitgauge.services.manifests.reading import read_manifests

DATA = Path(__file__).parent / "data"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - image: vllm/vllm-openai
    args: [a/b]
    resources: RESOURCES
SPEC
"""


def gpus(resources="{}", spec="", others=""):
    text = POD.replace("RESOURCES", resources).replace("SPEC", spec) + others
    manifest = read_manifests([text])[0]
    assert manifest.unreadable is None
    (container,) = manifest.containers
    return gpus_of(container, manifest.claims)


@pytest.mark.parametrize(
    "resource, count",
    [("nvidia.com/gpu", 2), ("amd.com/gpu", 8), ("gpu.intel.com/xe", 1), ("google.com/tpu", 4)],
)
def test_whole_gpus_are_counted(resource, count):
    assert gpus(f'{{limits: {{{resource}: "{count}", memory: 8Gi}}}}').count == count


def test_a_slice_is_named_by_its_profile():
    found = gpus(
        '{limits: {nvidia.com/mig-3g.40gb: "1"}}', "  nodeSelector: {gpu-model: H100-80GB}"
    )
    assert (found.count, found.mig_slice, list(found.names)) == (1, "3g.40gb", ["H100-80GB"])


@pytest.mark.parametrize(
    "resources, spec",
    [
        ("{limits: {nvidia.com/gpu.shared: 1}}", ""),
        (
            "{limits: {nvidia.com/gpu: 1}}",
            "  nodeSelector: {nvidia.com/gpu.product: NVIDIA-A10G-SHARED}",
        ),
    ],
)
def test_a_gpu_in_time_slices_has_a_note(resources, spec):
    assert len(gpus(resources, spec).notes) == 1


def test_labels_that_name_a_product_go_before_machines_and_others():
    found = gpus(
        spec="  nodeSelector:\n"
        "    node.kubernetes.io/instance-type: g5.12xlarge\n"
        "    example.com/gpu-class: A100-80GB\n"
        '    nvidia.com/gpu.present: "true"\n'
        "    nvidia.com/gpu.product: NVIDIA-L40S\n"
        "    kubernetes.io/hostname: node-01\n"
    )
    assert list(found.names) == ["NVIDIA-L40S", "g5.12xlarge", "A100-80GB"]


def test_a_label_of_gke_means_its_own_gpu():
    assert list(
        gpus(spec="  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-a100}").names
    ) == ["A100 40GB"]


def test_an_affinity_names_alternatives():
    found = gpus(
        spec="  affinity:\n    nodeAffinity:\n"
        "      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n"
        "        - matchExpressions:\n"
        "          - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L4, Tesla-P4]}\n"
        "          - {key: nvidia.com/gpu.product, operator: NotIn, values: [Tesla-T4]}\n"
    )
    assert list(found.names) == ["NVIDIA-L4", "Tesla-P4"]


CLAIM = """---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: t}}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: {kind}.nvidia.com
          count: 2
          selectors:
          - cel:
              expression: {expression}
"""


@pytest.mark.parametrize(
    "expression, names, mig_slice",
    [
        (
            "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'",
            ["NVIDIA H100 80GB HBM3"],
            None,
        ),
        (
            "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')",
            ["a100"],
            None,
        ),
        (
            "device.attributes['gpu.nvidia.com'].productName.matches('(?i).*a100.*40gb')",
            ["a100 40gb"],
            None,
        ),
        ("device.attributes['gpu.nvidia.com'].profile == '1g.10gb'", [], "1g.10gb"),
        (
            "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
            ["40GiB"],
            None,
        ),
    ],
)
def test_a_claim_names_gpus(expression, names, mig_slice):
    others = CLAIM.format(kind="gpu", expression=f'"{expression}"')
    spec = "  resourceClaims: [{name: g, resourceClaimTemplateName: t}]"
    found = gpus("{claims: [{name: g}]}", spec, others)
    assert (found.count, list(found.names), found.mig_slice) == (2, names, mig_slice)
    assert gpus("{}", spec, others).count is None


def test_a_claim_of_something_else_is_no_gpu():
    others = CLAIM.format(kind="compute-domain-daemon", expression='"true"')
    spec = "  resourceClaims: [{name: g, resourceClaimTemplateName: t}]"
    assert gpus("{claims: [{name: g}]}", spec, others).count is None


@pytest.mark.parametrize(
    "service, count",
    [
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2}]}}}", 2),
        ("deploy: {resources: {reservations: {devices: [{device_ids: ['0', '3']}]}}}", 2),
        ("gpus: [{driver: nvidia, count: 4}]", 4),
        ("gpus: all", None),
    ],
)
def test_a_service_of_compose_reserves_gpus(service, count):
    text = f"services:\n  a:\n    image: vllm/vllm-openai\n    {service}\n"
    manifest = read_manifests([text])[0]
    (container,) = manifest.containers
    assert gpus_of(container, manifest.claims).count == count


@pytest.mark.parametrize("number", ["²", "9" * 4500])
@pytest.mark.parametrize("file", sorted(DATA.glob("*.y*ml")), ids=lambda file: file.name)
def test_numbers_that_count_nothing_are_no_counts(check, file, number):
    """Digits that are none, and more of them than Python reads: every count of a file at once."""
    counts = r"((?i:count|replicas|size|gpu|nodes|data|dataLocal|parallel_size): *\"?)\d{1,6}\b"
    check(re.sub(counts, rf"\g<1>{number}", file.read_text("utf-8")))


def test_a_leader_is_on_the_gpus_of_those_that_follow_it(check):
    (server,) = check(
        "kind: LeaderWorkerSet\nspec:\n  leaderWorkerTemplate:\n    size: 2\n"
        "    leaderTemplate:\n      spec:\n        containers:\n"
        "        - image: vllm/vllm-openai\n          args: [Qwen/Qwen3-8B, -tp, '8', -pp, '2']\n"
        "          resources: {limits: {nvidia.com/gpu: 8}}\n"
        "    workerTemplate:\n      spec:\n"
        "        nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}\n"
        "        containers: [{image: vllm/vllm-openai}]\n"
    ).servers
    assert (server.gpu, server.gpu_count) == ("H100 SXM", 16)
