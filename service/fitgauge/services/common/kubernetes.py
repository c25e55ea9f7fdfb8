"""What a pod must ask for to be given the accelerators of a deployment: resources, node
selector, shared memory."""

import re
from typing import Annotated, Literal

from msgspec import Struct

from fitgauge.catalog import node_labels
from fitgauge.engine.accelerator import USUAL_NODE, Accelerator
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import Workload
from fitgauge.field_docs import doc

_RESOURCES = (
    ("NVIDIA", "", "nvidia.com/gpu"),
    ("AMD", "", "amd.com/gpu"),
    ("Intel", "gaudi", "habana.ai/gaudi"),
    ("Intel", "", "gpu.intel.com/xe"),
    ("Google", "", "google.com/tpu"),
    ("AWS", "", "aws.amazon.com/neuron"),
    ("Huawei", "ascend-910", "huawei.com/Ascend910"),
)
"""Vendor, beginning of the id, resource. Sources: the device plugins NVIDIA/k8s-device-plugin,
ROCm/k8s-device-plugin, HabanaAI (docs.habana.ai, Intel Gaudi Device Plugin for Kubernetes),
intel/intel-device-plugins-for-kubernetes (xe driver), GKE (TPUs in GKE), AWS Neuron
(k8s-neuron-device-plugin: one for every device), Ascend/ascend-device-plugin."""

_FLAT_SLICES = {1: "1x1", 4: "2x2", 8: "2x4"}
_TPU_TOPOLOGIES: dict[str, dict[int, str]] = {
    "tpu-v5e-16gb": _FLAT_SLICES, "tpu-v6e-trillium-32gb": _FLAT_SLICES,
    "tpu-v4-32gb": {4: "2x2x1"}, "tpu-v5p-95gb": {4: "2x2x1"},
    "tpu7x-ironwood-192gb": {4: "2x2x1"},
}  # fmt: skip
"""Topologies of the slices that one host holds, by chips. Sources: public files 54702942848
(1x1), 33221075227 (2x2), 71606592411 (2x4), 60022527150 (v4), 68450608580 (v5p), 17643082555
(tpu7x)."""

_SHARED_MEMORY = {"AMD": 8}
_SHARED_MEMORY_ELSEWHERE = 2
"""Size of /dev/shm [GiB], in which the processes of tensor parallelism meet: vllm-project/vllm
docs/deployment/k8s.md, its examples."""

_HOST_GB = 6
"""10^9 bytes of host memory for one GPU's process: what the same examples request. Assumed for
other engines."""

_MIG = re.compile(r"MIG (\S+)")


class SharedMemory(Struct, kw_only=True):
    """A volume of the pod: emptyDir with this medium and limit."""

    mount_path: Annotated[str, doc("Where the volume is mounted.")]
    medium: Annotated[str, doc("emptyDir.medium.")]
    size_limit: Annotated[str, doc("emptyDir.sizeLimit.")]


class Kubernetes(Struct, kw_only=True):
    """What every pod asks for. Several pods are one deployment over several nodes: a
    LeaderWorkerSet, whose size is `pods`."""

    kind: Annotated[
        Literal["Deployment", "LeaderWorkerSet"],
        doc("The serving process; a training run is a Job of such pods."),
    ]
    pods: Annotated[int, doc("Pods of one deployment, one for each node.")]
    limits: Annotated[dict[str, int], doc("resources.limits of a pod.")]
    requests: Annotated[
        dict[str, str], doc("Other resources.requests of a pod: assumed, not measured.")
    ]
    node_selector: Annotated[dict[str, str], doc("Empty if no label of such nodes is known.")]
    shared_memory: Annotated[
        SharedMemory | None, doc("Null if no processes share a layer or offloaded KV cache.")
    ]


def node_size(accelerator: Accelerator, gpus_per_node: int | None) -> int:
    """Return the GPUs in one node: as asked, else what is usual for the GPU."""
    return gpus_per_node or accelerator.node_size or USUAL_NODE


def nodes(accelerator: Accelerator, count: int, gpus_per_node: int | None) -> int:
    """Nodes that hold `count` GPUs."""
    return -(-count // node_size(accelerator, gpus_per_node))


def kubernetes(
    accelerator: Accelerator,
    count: int,
    workload: Workload,
    gpus_per_node: int | None,
    *,
    tables: int = 0,
) -> Kubernetes | None:
    """Return what to ask a cluster for to serve; see `pods_for`. tables: what a GPU keeps of the
    model's tables in host memory [bytes]."""
    offload = ENGINES[workload.engine].kv_offload
    cache = workload.kv_offload_bytes
    return pods_for(
        accelerator,
        count,
        gpus_per_node,
        together=workload.tensor_parallel > 1,
        offloaded=workload.cpu_offload_bytes + cache + tables,
        in_shared_memory=cache if offload is not None and offload.in_shared_memory else 0,
    )


def pods_for(
    accelerator: Accelerator,
    count: int,
    gpus_per_node: int | None,
    *,
    together: bool,
    offloaded: int = 0,
    in_shared_memory: int = 0,
) -> Kubernetes | None:
    """Return what to ask a cluster for, None for what no device plugin offers (Apple, a GPU that
    is only a size).

    `asked`: GPUs of a node; `together`: processes share a layer or its gradients, and meet in
    shared memory; `offloaded`: bytes of one GPU kept on the host, `in_shared_memory` of them in
    /dev/shm. Several nodes: kubernetes-sigs/lws, the API that vLLM's documentation names for
    deployments over nodes."""
    resource = _resource(accelerator)
    if resource is None:
        return None
    least = nodes(accelerator, count, gpus_per_node)
    pods = next(pods for pods in range(least, count + 1) if count % pods == 0)
    each = count // pods
    meeting = _SHARED_MEMORY.get(accelerator.vendor, _SHARED_MEMORY_ELSEWHERE) if together else 0
    shared = meeting + -(-in_shared_memory * each // GIB)
    host = _HOST_GB * each + -(-offloaded * each // 10**9) + (meeting + 1 if meeting else 0)
    return Kubernetes(
        kind="Deployment" if pods == 1 else "LeaderWorkerSet",
        pods=pods,
        limits={resource: each},
        requests={"memory": f"{host}G"},
        node_selector=_node_selector(accelerator, each if pods == 1 else None),
        shared_memory=(
            SharedMemory(mount_path="/dev/shm", medium="Memory", size_limit=f"{shared}Gi")
            if shared
            else None
        ),
    )


def _node_selector(accelerator: Accelerator, slice_of: int | None) -> dict[str, str]:
    """Return the label of nodes with such a GPU; GKE asks for the topology of a TPU slice
    besides. slice_of: chips of one host, None for more."""
    label = node_labels.load().get(accelerator.id)
    topology = _TPU_TOPOLOGIES.get(accelerator.id, {}).get(slice_of or 0)
    return ({label[0]: label[1]} if label else {}) | (
        {"cloud.google.com/gke-tpu-topology": topology} if topology else {}
    )


def _resource(accelerator: Accelerator) -> str | None:
    """Return the name under which a cluster offers it; a MIG slice under the `mixed` strategy.

    Source: NVIDIA/k8s-device-plugin docs/gpu-feature-discovery/README.md, MIG 'mixed' strategy.
    """
    if profile := _MIG.match(accelerator.name):
        return f"nvidia.com/mig-{profile[1]}"
    resources = (
        name
        for vendor, start, name in _RESOURCES
        if accelerator.vendor == vendor and accelerator.id.startswith(start)
    )
    return next(resources, None)
