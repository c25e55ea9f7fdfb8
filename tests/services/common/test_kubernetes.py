"""What a pod asks for: the resource that each maker's device plugin offers, a node that has the
card, memory that processes share."""

import pytest
from msgspec import structs

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.accelerator import custom
from fitgauge.engine.quantity import GB
from fitgauge.services.common.kubernetes import kubernetes, nodes, pods_for
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.workload import serving_workload


def pods(name, count=1, asked=None, *, together=False, offloaded=0):
    return pods_for(
        bundled().find(name).accelerator, count, asked, together=together, offloaded=offloaded
    )


@pytest.mark.parametrize(
    "name,limits",
    [
        ("H100 SXM", {"nvidia.com/gpu": 1}),
        ("mig-3g-40gb-h100-80gb", {"nvidia.com/mig-3g.40gb": 1}),
        ("MI300X", {"amd.com/gpu": 1}),
        ("Gaudi 3", {"habana.ai/gaudi": 1}),
        ("Arc B580", {"gpu.intel.com/xe": 1}),
        ("TPU v5e", {"google.com/tpu": 1}),
        ("Trainium 2", {"aws.amazon.com/neuron": 1}),
        ("Ascend 910B 64GB", {"huawei.com/Ascend910": 1}),
    ],
)
def test_each_maker_has_a_resource(name, limits):
    assert pods(name).limits == limits


def test_what_no_plugin_offers_gets_no_pod():
    assert pods("M3 Max 64GB") is None
    assert pods_for(custom(24 * GB, "24 GB"), 1, None, together=False) is None


def test_processes_that_share_a_layer_get_shared_memory():
    assert pods("L40S", 2).shared_memory is None
    assert pods("L40S", 2, together=True).shared_memory.size_limit == "2Gi"
    assert pods("MI300X", 2, together=True).shared_memory.size_limit == "8Gi"


def test_host_memory_is_that_of_every_process_with_what_is_offloaded():
    assert pods("L40S", 2).requests == {"memory": "12G"}
    assert pods("L40S", 2, together=True, offloaded=10**10).requests == {"memory": "35G"}


def test_more_gpus_than_a_node_holds_are_several_pods():
    h100 = bundled().find("H100 SXM").accelerator
    assert nodes(h100, 16, None) == 2
    assert (pods("H100 SXM", 16).kind, pods("H100 SXM", 16).limits) == (
        "LeaderWorkerSet",
        {"nvidia.com/gpu": 8},
    )
    assert pods("H100 SXM", 6, asked=4).limits == {"nvidia.com/gpu": 3}
    assert (pods("H100 SXM", 20).pods, pods("H100 SXM", 20).limits) == (4, {"nvidia.com/gpu": 5})


def test_a_node_is_named_where_its_label_was_seen():
    assert pods("H100 SXM").node_selector == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert pods("MI300X").node_selector == {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    assert pods("MI210").node_selector == {}


def test_gke_is_asked_for_the_topology_of_a_slice_that_one_host_holds():
    assert pods("TPU v6e", 8).node_selector == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "2x4",
    }
    assert "cloud.google.com/gke-tpu-topology" not in pods("TPU v6e", 16).node_selector


def test_serving_shares_memory_where_tensors_are_split():
    card = bundled().find("L40S").accelerator
    request, profile = FitRequest(model="x", gpu="x"), load_engines().profile("vllm", None)
    workload = serving_workload(request, spec_of("Qwen/Qwen3-32B"), card, 4, profile)
    assert kubernetes(card, 4, workload, None).shared_memory
    assert (
        kubernetes(card, 4, structs.replace(workload, tensor_parallel=1), None).shared_memory
        is None
    )
