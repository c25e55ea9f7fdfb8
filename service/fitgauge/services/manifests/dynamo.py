"""Servers of NVIDIA Dynamo: the workers of a DynamoGraphDeployment.

Source: ai-dynamo/dynamo components/backends/vllm/deploy/README.md and disagg.yaml (services,
resources.limits.gpu, extraPodSpec.mainContainer, subComponentType), its workers' flags
(`--is-prefill-worker`, `--disaggregation-mode`), and its operator's DefaultSharedMemorySize,
8 GiB."""

from collections.abc import Iterator

from msgspec import structs

from fitgauge.services.manifests.containers import Container
from fitgauge.services.manifests.quantities import count_of
from fitgauge.services.manifests.references import References
from fitgauge.services.manifests.workloads import container_of, owner_of
from fitgauge.services.manifests.yaml_text import Block, Text, block_at, items_at, text_at

_POOLS = ("prefill", "decode")
_SERVE_NO_MODEL = frozenset({"frontend", "planner", "epp"})
"""Components that the image of an engine runs without a model."""


def dynamo_graph(document: Block, _: References) -> Iterator[Container]:
    """Yield the containers of the services of a graph."""
    services = block_at(document, "spec", "services")
    pools = [_pool(name, block_at(services, name)) for name in services]
    disaggregated = "prefill" in pools
    for (name, service), pool in zip(services.items(), pools, strict=True):
        pod = block_at(service, "extraPodSpec")
        main = block_at(pod, "mainContainer")
        if not main or text_at(service, "componentType") in _SERVE_NO_MODEL:
            continue
        nodes = count_of(text_at(service, "multinode", "nodeCount"))
        limits = block_at(service, "resources", "limits")
        gpus = text_at(limits, "gpu")
        container = container_of(
            main, pod, f"{owner_of(document)}/{name}", 1 if nodes is None else nodes
        )
        yield structs.replace(
            container,
            resources=Block({"limits": _limits(limits, gpus)}),
            pool=pool if disaggregated else None,
            shared_memory=container.shared_memory or Text("unlimited"),
        )


def _limits(limits: Block, gpus: Text | None) -> Block:
    """Return limits as a pod has them: `gpu` is NVIDIA's."""
    return Block({**limits, "nvidia.com/gpu": gpus}) if gpus is not None else limits


def _pool(name: str, service: Block) -> str | None:
    """Return whether a service prefills or decodes."""
    kind = text_at(service, "subComponentType")
    if kind in _POOLS:
        return str(kind)
    arguments = " ".join(map(str, items_at(service, "extraPodSpec", "mainContainer", "args")))
    if "--is-prefill-worker" in arguments:
        return "prefill"
    return next((pool for pool in _POOLS if pool in name.lower()), None)
