"""Servers that an operator starts from a resource of its own: KubeAI's Model, KAITO's Workspace and
InferenceSet, the production stack's VLLMRuntime, Run:ai's InferenceWorkload.

Source: substratusai/kubeai internal/modelcontroller/engine_vllm.go and engine_ollama.go (url,
args), charts/kubeai/values.yaml (resourceProfiles, named by GPU); kaito-project/kaito
pkg/model/interface.go (its share and the context's `auto`, tensor parallel over a node's GPUs and
stages over nodes), presets/workspace/inference/vllm/inference_api.py (the config's `vllm` goes over
them), presets/workspace/models/supported_models.yaml (presets); vllm-project/production-stack
operator/config/samples/; Run:ai's documentation of workloads in YAML (v2alpha1)."""

import re
from collections.abc import Iterator

from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.services.manifests.containers import Container, Note, words
from fitgauge.services.manifests.parallelism import STACK_FLAGS, flags_of
from fitgauge.services.manifests.quantities import count_of
from fitgauge.services.manifests.references import References
from fitgauge.services.manifests.workloads import containers, environment_of, owner_of
from fitgauge.services.manifests.yaml_text import (
    Block,
    Text,
    block_at,
    documents,
    text_at,
    text_of,
    texts_at,
)

_IMAGE = "vllm/vllm-openai"
_KUBEAI_IMAGES = {"VLLM": _IMAGE, "OLlama": "ollama/ollama"}
_PROFILE = re.compile(r"(?:nvidia-gpu-|amd-gpu-|google-)?(?P<gpu>.*?)(?:-\d+x\d+)?")
"""A resource profile by the names of KubeAI's chart; a TPU's ends with its topology."""
_KAITO_FLAGS = {"--gpu-memory-utilization": "0.84", "--max-model-len": "auto"}
_KAITO_CONFIG = "inference_config.yaml"
_KAITO_PRESETS = {
    "mistral-7b": "mistralai/Mistral-7B-v0.3",
    "mistral-7b-instruct": "mistralai/Mistral-7B-Instruct-v0.3",
    "ministral-3-3b-instruct": "mistralai/Ministral-3-3B-Instruct-2512",
    "ministral-3-8b-instruct": "mistralai/Ministral-3-8B-Instruct-2512",
    "ministral-3-14b-instruct": "mistralai/Ministral-3-14B-Instruct-2512",
    "mistral-large-3-675b-instruct": "mistralai/Mistral-Large-3-675B-Instruct-2512",
    "gemma-3-4b-instruct": "google/gemma-3-4b-it",
    "gemma-3-27b-instruct": "google/gemma-3-27b-it",
}
"""Presets that are called otherwise than their repository."""
_SHARED_MEMORY = "unlimited"
"""KubeAI and KAITO mount a volume of memory without a limit at /dev/shm."""
_INSTANCE_LABEL = "node.kubernetes.io/instance-type"


def kubeai_model(document: Block, _: References) -> Iterator[Container]:
    """Yield the container of a KubeAI Model that runs on GPUs under an engine that is known."""
    spec = block_at(document, "spec")
    url, profile = text_at(spec, "url"), text_at(spec, "resourceProfile")
    image = _KUBEAI_IMAGES.get(text_at(spec, "engine") or "")
    if image is None or url is None or profile is None or profile.startswith("cpu:"):
        return
    scheme, _separator, address = url.partition("://")
    gpu, _separator, count = profile.partition(":")
    named = _PROFILE.fullmatch(gpu)
    name = text_of(address.partition("?")[0], url.line)
    is_pulled = scheme in ENGINES
    yield Container(
        name=owner_of(document),
        line=spec.line,
        image=text_of(image, spec.line),
        arguments=texts_at(spec, "args"),
        hooks=[text_of(f"{scheme} pull {name}", url.line)] if is_pulled else [],
        environment=_variables(block_at(spec, "env")),
        resources=Block(),
        pod=spec,
        model=None if is_pulled else name,
        gpu_count=1 if (whole := count_of(count)) is None else whole,
        shared_memory=Text(_SHARED_MEMORY),
        gpu=text_of(named["gpu"] if named else gpu, profile.line),
    )


def runai_workload(document: Block, _: References) -> Iterator[Container]:
    """Yield the container of an inference workload of Run:ai, whose settings each have a value."""
    spec = block_at(document, "spec")
    image, count = text_at(spec, "image", "value"), text_at(spec, "gpu", "value")
    if image is None or count is None:
        return
    items = block_at(spec, "environment", "items")
    variables = {name: text_at(block_at(items, name), "value") for name in items}
    command = words(text_at(spec, "command", "value"))
    part = "A part of a GPU is checked as the whole: its share is not read."
    yield Container(
        name=owner_of(document),
        line=image.line,
        image=image,
        command=command or None,
        arguments=words(text_at(spec, "arguments", "value")),
        environment={name: value for name, value in variables.items() if value is not None},
        resources=Block(),
        pod=Block(),
        gpu_count=1 if (whole := count_of(count)) is None else whole,
        gpu=text_at(spec, "nodeType", "value"),
        shared_memory=Text("unknown"),
        notes=(Note(count.line, part),) if whole is None else (),
    )


def _variables(block: Block) -> dict[str, Text]:
    """Return variables that are written as a mapping."""
    return {name: value for name, value in block.items() if isinstance(value, Text)}


def kaito_inference_set(document: Block, named: References) -> Iterator[Container]:
    """Yield the container of one Workspace of an InferenceSet."""
    template = block_at(document, "spec", "template")
    owner = Block({"kind": text_at(document, "kind"), "metadata": block_at(document, "metadata")})
    yield from kaito_workspace(Block({**owner, **template}), named)


def kaito_workspace(document: Block, named: References) -> Iterator[Container]:
    """Yield the container of a Workspace: of its preset, or of the pod that it holds."""
    inference, resource = block_at(document, "inference"), block_at(document, "resource")
    preset = text_at(inference, "preset", "name")
    if preset is None:
        yield from containers(document)
        return
    nodes = text_at(resource, "count")
    count = count_of(nodes) or 1
    flags = {flag: text_of(value, preset.line) for flag, value in _KAITO_FLAGS.items()}
    if count > 1:
        flags["--pipeline-parallel-size"] = text_of(str(count), preset.line)
    flags |= _configured(text_at(inference, "config"), named)
    machine = text_at(resource, "instanceType")
    profile = text_at(resource, "partition", "profile")
    limits = Block()
    if profile is not None:
        limits[f"nvidia.com/mig-{profile}"] = text_of("1", profile.line)
    model = text_of(_KAITO_PRESETS.get(preset, preset), preset.line)
    yield Container(
        name=owner_of(document),
        line=preset.line,
        image=text_of(_IMAGE, preset.line),
        arguments=[
            model,
            *(text_of(f"{flag}={value}", value.line) for flag, value in flags.items()),
        ],
        environment={},
        resources=Block({"limits": limits}),
        pod=Block({"nodeSelector": Block({_INSTANCE_LABEL: machine})}) if machine else Block(),
        group_size=count,
        takes_all_gpus=True,
        shared_memory=Text(_SHARED_MEMORY),
        notes=(
            Note(
                preset.line,
                "KAITO's own settings are checked where its config leaves them out: 0.84 of a GPU,"
                " the longest context that fits, tensor parallel over a node.",
            ),
        ),
    )


def _configured(config: Text | None, named: References) -> dict[str, Text]:
    """Return the flags of the engine that a ConfigMap sets."""
    written = text_at(named.config_maps.get(config or ""), _KAITO_CONFIG)
    if written is None:
        return {}
    parsed = documents(written, written.line + 1)
    settings = block_at(parsed[0] if parsed else None, DEFAULT_ENGINES[0])
    return {f"--{name}": value for name, value in settings.items() if isinstance(value, Text)}


def vllm_runtime(document: Block, _: References) -> Iterator[Container]:
    """Yield the container of a VLLMRuntime."""
    spec = block_at(document, "spec")
    model, config = block_at(spec, "model"), block_at(spec, "vllmConfig")
    deployment = block_at(spec, "deploymentConfig")
    resources, image = block_at(deployment, "resources"), block_at(deployment, "image")
    arguments = [*flags_of(model, STACK_FLAGS), *flags_of(config, STACK_FLAGS)]
    if text_at(model, "enableLoRA") == "true":
        arguments.append(text_of("--enable-lora", model.line))
    count = text_at(resources, "gpu")
    kind = text_at(resources, "gpuType") or "nvidia.com/gpu"
    name = text_at(image, "name")
    yield Container(
        name=owner_of(document),
        line=model.line,
        image=name or text_of(_IMAGE, spec.line),
        arguments=[*arguments, *texts_at(config, "extraArgs")],
        environment=environment_of(config),
        resources=Block({"limits": Block({kind: count})}) if count is not None else Block(),
        pod=deployment,
        model=text_at(model, "modelURL"),
        memory=text_at(resources, "memory"),
        shared_memory=text_at(deployment, "shmSize"),
    )
