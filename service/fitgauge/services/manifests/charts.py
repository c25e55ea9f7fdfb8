"""Servers that a chart or a custom resource starts: what it fills in stands here.

Source: vllm-project/production-stack helm/templates/deployment-vllm-multi.yaml;
llm-d-incubation/llm-d-modelservice examples/ (modelCommand, parallelism); ray-project/kuberay
ray-operator/config/samples/ray-service.llm-serve.yaml; ray-project/ray
doc/source/serve/llm/pd-dissagregation.md (prefill_config, decode_config); otwld/ollama-helm
values.yaml (ollama.gpu, ollama.models.pull and run; a list of models in older charts)."""

import math
from collections.abc import Callable, Iterator, Mapping

from msgspec import structs

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.manifests.containers import Container, hub_address
from fitgauge.services.manifests.dynamo import dynamo_graph
from fitgauge.services.manifests.kserve import inference_service, llm_inference_service
from fitgauge.services.manifests.nim import nim_pipeline, nim_service
from fitgauge.services.manifests.operators import (
    kaito_inference_set,
    kaito_workspace,
    kubeai_model,
    runai_workload,
    vllm_runtime,
)
from fitgauge.services.manifests.parallelism import (
    PARALLELISM,
    SERVER_IMAGE,
    STACK_FLAGS,
    flags_of,
    pods_of_a_group,
)
from fitgauge.services.manifests.quantities import count_of
from fitgauge.services.manifests.references import References
from fitgauge.services.manifests.settings_file import setting_words
from fitgauge.services.manifests.workloads import container_of, containers, environment_of
from fitgauge.services.manifests.yaml_text import (
    Block,
    Items,
    Node,
    Text,
    block_at,
    blocks_at,
    documents,
    items_at,
    text_at,
    text_of,
    texts_at,
)

_STACK_SHARED_MEMORY = "20Gi"
"""What the production stack's chart gives /dev/shm with tensor parallelism (helm/values.yaml,
shmSize)."""


_KINDS: Mapping[str, Callable[[Block, References], Iterator[Container]]] = {
    "InferenceService": inference_service,
    "LLMInferenceService": llm_inference_service,
    "DynamoGraphDeployment": dynamo_graph,
    "NIMService": nim_service,
    "NIMPipeline": nim_pipeline,
    "Model": kubeai_model,
    "Workspace": kaito_workspace,
    "InferenceSet": kaito_inference_set,
    "VLLMRuntime": vllm_runtime,
    "InferenceWorkload": runai_workload,
}
"""Custom resources that start servers."""

_VALUES = {
    "HelmRelease": ("spec", "values"),
    "Application": ("spec", "source", "helm", "valuesObject"),
}
"""Where a resource that installs a chart has its values: Flux, Argo CD."""


def chart_containers(document: Block, named: References) -> Iterator[Container] | None:
    """Return the containers of a chart's values or a custom resource; None where it is neither.
    named: the objects that it may name."""
    kind = text_at(document, "kind") or ""
    if kind in _KINDS:
        return _KINDS[kind](document, named)
    if kind in _VALUES:
        return chart_containers(block_at(document, *_VALUES[kind]), named)
    if kind == "RayService" or "serveConfigV2" in document or _is_ray_config(document):
        return _ray_serve(document)
    if kind:
        return None
    if "servingEngineSpec" in document:
        return _production_stack(document)
    if "modelArtifacts" in document:
        return _model_service(document)
    named_after = next((name for name in ENGINES if "models" in block_at(document, name)), None)
    if named_after:
        return _pulled_models(document, named_after)
    repository = text_at(document, "image", "repository")
    return _plain_chart(document, repository) if repository is not None else None


def _plain_chart(document: Block, repository: Text) -> Iterator[Container]:
    """Yield the container of the values that a chart without a shape of its own fills in, as that
    of vLLM's examples/online_serving/chart-helm does."""
    image = block_at(document, "image")
    name = ":".join(filter(None, (repository, text_at(image, "tag"))))
    own = Block({**document, "image": text_of(name, repository.line)})
    if command := items_at(image, "command"):
        own["command"] = Items(command)
    own.line = repository.line
    yield container_of(own, document, "values")


def _production_stack(document: Block) -> Iterator[Container]:
    spec = block_at(document, "servingEngineSpec")
    for model in blocks_at(spec, "modelSpec"):
        config = block_at(model, "vllmConfig")
        arguments = [*flags_of(config, STACK_FLAGS), *texts_at(config, "extraArgs")]
        if text_at(model, "enableLoRA") == "true":
            arguments.append(text_of("--enable-lora", model.line))
        count = text_at(model, "requestGPU")
        named = text_at(model, "requestGPUType")
        limits = Block({named or "nvidia.com/gpu": count}) if count is not None else Block()
        image = ":".join(filter(None, (text_at(model, "repository"), text_at(model, "tag"))))
        workers = count_of(text_at(model, "replicaCount") or "1")
        spreads = text_at(model, "raySpec", "enabled") == "true" and workers is not None
        yield Container(
            name=f"modelSpec/{text_at(model, 'name') or ''}",
            line=model.line,
            image=text_of(image, model.line) if image else None,
            arguments=arguments,
            environment={},
            resources=block_at(model, "resources") or Block({"limits": limits}),
            pod=Block({**spec, **model}),
            group_size=1 + (workers if spreads and workers else 0),
            model=text_at(model, "modelURL"),
            memory=text_at(model, "limitMemory"),
            shared_memory=text_at(model, "shmSize") or Text(_STACK_SHARED_MEMORY),
        )


def _model_service(document: Block) -> Iterator[Container]:
    artifacts = block_at(document, "modelArtifacts")
    name = text_at(artifacts, "name") or hub_address(text_at(artifacts, "uri"))
    multinode = text_at(document, "multinode") == "true"
    for role in ("decode", "prefill"):
        pod = block_at(document, role)
        if text_at(pod, "create") == "false":
            continue
        parallelism = block_at(pod, "parallelism")
        for block in blocks_at(pod, "containers"):
            container = container_of(block, pod, f"{role}/{text_at(block, 'name') or ''}")
            starts = text_at(block, "modelCommand") == "vllmServe"
            image = container.image
            if starts:
                tag = (image or "").rpartition(":")[2]
                image = text_of(f"{SERVER_IMAGE}:{tag}", block.line)
            tensor = text_at(parallelism, "tensor") or text_of("1", block.line)
            local = [text_at(parallelism, key) or "1" for key in ("tensor", "dataLocal")]
            counts = [count for value in local if (count := count_of(value)) is not None]
            yield structs.replace(
                container,
                image=image,
                arguments=[
                    *container.arguments,
                    *(flags_of(parallelism, PARALLELISM) if starts else ()),
                ],
                environment={"TP_SIZE": tensor, **container.environment},
                group_size=pods_of_a_group(parallelism) if multinode else 1,
                model=name,
                pool=role,
                gpu_count=counts[0] * counts[1] if len(counts) == 2 else None,
            )


def _pulled_models(document: Block, engine: str) -> Iterator[Container]:
    """Yield a container for each model that the chart of an engine pulls: each is checked alone."""
    settings = block_at(document, engine)
    gpu = block_at(settings, "gpu")
    models = settings.get("models")
    names = models if isinstance(models, Items) else items_at(models, "run")
    names = names or items_at(models, "pull")
    if text_at(gpu, "enabled") != "true":
        return
    count = text_at(gpu, "number") or ""
    for name in names:
        if isinstance(name, Text):
            yield Container(
                name=f"{engine}/{name}",
                line=name.line,
                image=text_of(f"{engine}/{engine}", name.line),
                hooks=[text_of(f"{engine} pull {name}", name.line)],
                environment=environment_of(Block({"env": document.get("extraEnv")})),
                resources=block_at(document, "resources"),
                pod=document,
                gpu_count=1 if (whole := count_of(count)) is None else whole,
            )


def _is_ray_config(document: Block) -> bool:
    return any("import_path" in one for one in blocks_at(document, "applications"))


def _ray_serve(document: Block) -> Iterator[Container]:
    config: Node = document
    written = text_at(document, "serveConfigV2") or text_at(document, "spec", "serveConfigV2")
    if written is not None:
        parsed = documents(written, written.line + 1)
        config = parsed[0] if parsed else None
    workers = [
        container
        for container in containers(document)
        if any("/gpu" in name for name in block_at(container.resources, "limits"))
    ]
    for application in blocks_at(config, "applications"):
        worker = workers[0] if workers else None
        arguments = block_at(application, "args")
        for model in blocks_at(arguments, "llm_configs"):
            yield _ray_model(model, worker)
        for pool in ("prefill", "decode"):  # build_pd_openai_app
            half = block_at(arguments, f"{pool}_config")
            if half:
                yield structs.replace(_ray_model(half, worker), name=f"{pool}_config", pool=pool)


def _ray_model(model: Block, worker: Container | None) -> Container:
    """Return a model of Ray Serve as the container of an engine. worker: a GPU worker."""
    options = block_at(model, "engine_kwargs")
    loading = block_at(model, "model_loading_config")
    degrees = [
        count
        for key in ("tensor_parallel_size", "pipeline_parallel_size")
        if (count := count_of(text_at(options, key))) is not None
    ]
    environment = block_at(model, "runtime_env", "env_vars")
    return Container(
        name=f"llm_configs/{text_at(loading, 'model_id') or ''}",
        line=model.line,
        image=text_of(SERVER_IMAGE, model.line),
        arguments=list(setting_words(options)),
        environment={name: value for name, value in environment.items() if isinstance(value, Text)},
        resources=Block(),
        pod=worker.pod if worker is not None else Block(),
        model=text_at(loading, "model_source") or text_at(loading, "model_id"),
        gpu_count=math.prod(degrees),
        gpu=text_at(model, "accelerator_type"),
        shared_memory=worker.shared_memory if worker is not None else Text("unknown"),
    )
