"""Values of the Helm chart of vLLM's production stack. Source: vllm-project/production-stack,
helm/values.yaml and helm/templates/deployment-vllm-multi.yaml."""

import shlex

from fitgauge.engine.serving.container import Container
from fitgauge.engine.serving.vllm.releases import HYBRID_PREFIX_CACHING

NAME = "vllm-stack (https://vllm-project.github.io/production-stack)"

_TENSOR_PARALLEL = "--tensor-parallel-size"
_CPUS = 6
"""What the examples of the chart request."""


def values(container: Container) -> dict[str, object]:
    """Return the values of a deployment.

    The chart writes `vllm serve`, the model, host and port itself; it mounts /dev/shm where
    tensorParallelSize is set, and turns prefix caching off where enablePrefixCaching is not."""
    _, _, model, *flags = shlex.split(container.launch)
    is_hybrid = container.spec.keeps_states
    caches = not is_hybrid or container.workload.engine_version >= HYBRID_PREFIX_CACHING
    config: dict[str, object] = {"enablePrefixCaching": caches}
    if _TENSOR_PARALLEL in flags:
        place = flags.index(_TENSOR_PARALLEL)
        config["tensorParallelSize"] = int(flags[place + 1])
        del flags[place : place + 2]
    resource, count = container.gpus
    spec: dict[str, object] = {
        "name": container.name,
        "repository": container.image.repository,
        "tag": container.tag,
        "modelURL": model,
        "replicaCount": 1,
        "requestCPU": _CPUS,
        "requestMemory": container.memory,
        "requestGPU": count,
        "requestGPUType": resource,
        "vllmConfig": {**config, "extraArgs": flags},
    }
    if container.shared_memory is not None:
        spec["shmSize"] = container.shared_memory
    if container.node_selector:
        labels = container.node_selector.items()
        spec["nodeSelectorTerms"] = [
            {
                "matchExpressions": [
                    {"key": key, "operator": "In", "values": [value]} for key, value in labels
                ]
            }
        ]
    return {"servingEngineSpec": {"runtimeClassName": "", "modelSpec": [spec]}}
