"""Servers of KServe: InferenceService with its ServingRuntime, LLMInferenceService.

Source: kserve/kserve python/huggingfaceserver/README.md, its vllm/vllm_model.py (start_engine:
tensor parallel over every GPU) and config/llmisvcconfig/ (config-llm-template.yaml, which mounts
1 GiB at /dev/shm; config-llm-prefill-template.yaml: prefill has pods and parallelism of its own;
config-llm-worker-data-parallel.yaml: `worker` pods follow the leader of `template`)."""

from collections.abc import Iterator

from msgspec import structs

from fitgauge.engine.serving.start_log.names import hub_id
from fitgauge.services.manifests.containers import Container, hub_address
from fitgauge.services.manifests.parallelism import (
    PARALLELISM,
    SERVER_IMAGE,
    flags_of,
    pods_of_a_group,
)
from fitgauge.services.manifests.references import References
from fitgauge.services.manifests.workloads import container_of, containers, owner_of
from fitgauge.services.manifests.yaml_text import (
    Block,
    Text,
    at_line,
    block_at,
    blocks_at,
    text_at,
    text_of,
)

_KSERVE_IMAGE = "kserve/huggingfaceserver"
"""The runtime of KServe's model format huggingface, which mounts a volume of medium Memory at
/dev/shm (config/runtimes/kserve-huggingfaceserver.yaml)."""


def inference_service(document: Block, named: References) -> Iterator[Container]:
    """Yield the container of an InferenceService. named: serving runtimes among others."""
    predictor = block_at(document, "spec", "predictor")
    model = block_at(predictor, "model")
    if not model:
        yield from containers(document)
        return
    name = text_at(model, "runtime")
    pod = block_at(named.runtimes.get(name or "", Block()), "spec")
    if name is not None and any(
        image is not None and not image.in_file
        for image in (text_at(one, "image") for one in blocks_at(pod, "containers"))
    ):
        pod = at_line(pod, name.line)  # what another file holds is shown where it is named
    base = next(iter(blocks_at(pod, "containers")), Block())
    container = container_of(base, Block({**pod, **predictor}), owner_of(document))
    own = container_of(model, predictor, owner_of(document))
    uri = text_at(model, "storageUri") or text_at(model, "storage", "path")
    kserves_own = not pod and text_at(model, "modelFormat", "name") == "huggingface"
    image = own.image or container.image
    if image is None and kserves_own:
        image = text_of(_KSERVE_IMAGE, model.line)
    yield structs.replace(
        container,
        line=model.line,
        image=image,
        takes_all_gpus=_KSERVE_IMAGE in (image or ""),
        command=own.command or container.command,
        arguments=[*container.arguments, *own.arguments],
        environment=container.environment | own.environment,
        resources=own.resources or container.resources,
        model=hub_address(uri),
        shared_memory=Text("unlimited") if kserves_own else container.shared_memory,
    )


def llm_inference_service(document: Block, _: References) -> Iterator[Container]:
    """Yield the containers of an LLMInferenceService: those that decode, then those of `prefill`
    where that is a pool of its own."""
    spec = block_at(document, "spec")
    uri, name = text_at(spec, "model", "uri"), text_at(spec, "model", "name")
    model = hub_address(uri)
    if hub_id(model) is None and hub_id(name) is not None:
        model = name  # of a volume, which holds what this names
    prefill = block_at(spec, "prefill")
    pools = {"decode": spec, "prefill": prefill} if prefill else {None: spec}
    for pool, part in pools.items():
        parallelism = block_at(part, "parallelism")
        for container in containers(block_at(part, "template")):
            yield structs.replace(
                container,
                name="/".join(filter(None, (owner_of(document), pool))),
                image=container.image or text_of(SERVER_IMAGE, container.line),
                arguments=[*container.arguments, *flags_of(parallelism, PARALLELISM)],
                group_size=pods_of_a_group(parallelism) if "worker" in part else 1,
                model=model,
                pool=pool,
                shared_memory=container.shared_memory or Text("unlimited"),
            )
