"""NVIDIA NIM: a model that its image names, under an engine that it chooses by itself.

Source: NVIDIA's docs of NIM for LLMs, Environment Variables (2.x images run vLLM or SGLang:
NIM_MODEL_PATH, NIM_TENSOR_PARALLEL_SIZE, NIM_MAX_MODEL_LEN, NIM_PASSTHROUGH_ARGS), Configure Your
NIM (1.12: profiles of TensorRT-LLM, vLLM and SGLang; NIM_MODEL_NAME, NIM_KVCACHE_PERCENT);
NVIDIA/k8s-nim-operator NIMService (spec.image.repository, spec.resources,
spec.storage.nimCache), NIMPipeline (spec.services), NIMCache (spec.source.hf)."""

import re
from collections.abc import Iterator

from msgspec import structs

from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.services.manifests.containers import Container, Note, words
from fitgauge.services.manifests.references import References
from fitgauge.services.manifests.workloads import environment_of, owner_of
from fitgauge.services.manifests.yaml_text import Block, block_at, blocks_at, text_at, text_of

_IMAGE = re.compile(r"(?:^|/)nim/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:[:@]|$)")
_ANY_MODEL = ("llm-nim", "model-free-nim", *ENGINES)
"""Images of no one model: a variable names it."""
_MODEL_VARIABLES = ("NIM_MODEL_PATH", "NIM_MODEL_NAME")
_FLAGS = {
    "NIM_MAX_MODEL_LEN": "--max-model-len",
    "NIM_TENSOR_PARALLEL_SIZE": "--tensor-parallel-size",
    "NIM_PIPELINE_PARALLEL_SIZE": "--pipeline-parallel-size",
    "NIM_KVCACHE_PERCENT": "--gpu-memory-utilization",
    "NIM_GPU_MEMORY_UTILIZATION": "--gpu-memory-utilization",
    "NIM_MAX_NUM_SEQS": "--max-num-seqs",
}
_ENGINE = ENGINES[DEFAULT_ENGINES[0]]
"""What is checked, with its own flags: the first that NIM's images run too."""


def nim_service(document: Block, named: References) -> Iterator[Container]:
    """Yield the container of a NIMService. named: the caches that may hold its model."""
    spec = block_at(document, "spec")
    image = block_at(spec, "image")
    repository = text_at(image, "repository")
    if repository is None:
        return
    tag = text_at(image, "tag")
    cache = text_at(spec, "storage", "nimCache", "name")
    cached = block_at(named.nim_caches.get(cache or ""), "spec", "source", "hf")
    owner, model = text_at(cached, "namespace"), text_at(cached, "modelName")
    names = {_MODEL_VARIABLES[-1]: text_of(f"{owner}/{model}", model.line)} if model else {}
    yield Container(
        name=owner_of(document),
        line=spec.line,
        image=text_of(f"{repository}:{tag}" if tag else repository, repository.line),
        environment={**names, **environment_of(spec)},
        resources=block_at(spec, "resources"),
        pod=spec,
    )


def nim_pipeline(document: Block, named: References) -> Iterator[Container]:
    """Yield the containers of the services of a NIMPipeline that it starts."""
    for service in blocks_at(document, "spec", "services"):
        owner = Block({"kind": text_at(document, "kind"), "metadata": service})
        if text_at(service, "enabled") != "false":
            yield from nim_service(Block({**owner, "spec": block_at(service, "spec")}), named)


def as_engine(container: Container) -> Container | None:
    """Return the container of a NIM as one that starts vLLM; None of any other image, and of one
    whose model is named nowhere."""
    match = _IMAGE.search(container.image or "")
    if match is None or container.image is None:
        return None
    named = (container.environment.get(name) for name in _MODEL_VARIABLES)
    model = next(filter(None, named), None)
    if model is None and match["name"] in _ANY_MODEL:
        return None
    line = container.image.line
    name = text_of((model or match["name"]).removeprefix("hf://"), model.line if model else line)
    flags = [
        text_of(word, value.line)
        for variable, flag in _FLAGS.items()
        if (value := container.environment.get(variable)) is not None
        for word in (flag, value)
    ]
    return structs.replace(
        container,
        image=text_of(_ENGINE.name, line),
        command=[text_of(word, line) for word in (_ENGINE.name, "serve")],
        arguments=[name, *flags, *words(container.environment.get("NIM_PASSTHROUGH_ARGS"))],
        takes_all_gpus="--tensor-parallel-size" not in flags,
        notes=(
            Note(
                line,
                f"NIM chooses engine and number format by the GPU: {_ENGINE.title} is checked, in"
                " the model's own format.",
            ),
        ),
    )
