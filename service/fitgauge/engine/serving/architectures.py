"""Whether an engine has a class for a model's architecture, what it does without, and which
engine has one."""

from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.serving import platforms
from fitgauge.engine.serving.llamacpp import architectures as llamacpp
from fitgauge.engine.serving.mlx import architectures as mlx
from fitgauge.engine.serving.sglang import architectures as sglang
from fitgauge.engine.serving.tensorrt_llm import architectures as tensorrt_llm
from fitgauge.engine.serving.tgi import architectures as tgi
from fitgauge.engine.serving.vllm import architectures as vllm
from fitgauge.engine.serving.vllm.defaults import removed
from fitgauge.engine.serving.workload import EngineName, Workload


class ArchitectureList(NamedTuple):
    """What one engine has classes for: architectures, or model types where it goes by these; the
    release read, () for one without numbers. `borrows`: takes transformers' own class for
    others."""

    names: frozenset[str]
    release: tuple[int, ...]
    read: str
    by_type: bool = False
    borrows: bool = False


LISTS: dict[EngineName, ArchitectureList] = {
    "vllm": ArchitectureList(vllm.SETTLED | vllm.LATER, (0, 33), "0.33.0", borrows=True),
    "sglang": ArchitectureList(sglang.ARCHITECTURES, (0, 5), "0.5.23", borrows=True),
    "tensorrt-llm": ArchitectureList(
        tensorrt_llm.ARCHITECTURES | tensorrt_llm.BUILT, (1, 2), "1.2"
    ),
    "tgi": ArchitectureList(tgi.MODEL_TYPES | tgi.AUTOMATIC, (3, 3), "3.3.7", by_type=True),
    "llama.cpp": ArchitectureList(llamacpp.ARCHITECTURES, (), "at commit 00bdaa1"),
    "ollama": ArchitectureList(llamacpp.ARCHITECTURES | llamacpp.OLLAMA, (), "at commit 00bdaa1"),
    "mlx": ArchitectureList(
        mlx.MODEL_TYPES | mlx.VISION, (0, 32), "0.32.0 and mlx-vlm 0.6.15", by_type=True
    ),
}
"""By engine; transformers itself is not among them: it runs what it or the repository has code
for."""

_INSTEAD: tuple[EngineName, ...] = ("vllm", "sglang", "mlx", "llama.cpp", "transformers")


def supports(engine: EngineName, spec: ModelSpec) -> bool:
    """Return whether the engine's list names the model; always for transformers."""
    listed = LISTS.get(engine)
    return (
        listed is None or (spec.model_type if listed.by_type else spec.architecture) in listed.names
    )


def refusal(
    workload: Workload, spec: ModelSpec, method: str | None, accelerator: Accelerator
) -> str | None:
    """Return why the engine has nothing that runs this model, with what has; None where it has,
    takes transformers' class, or may have.

    method: support.family of the weights. An engine that takes no other's classes lacks a model
    that its list does not name, unless the model is too young for the list or the engine's
    release is newer than it. A model read from a GGUF file has no class to look for."""
    engine, listed = workload.engine, LISTS.get(workload.engine)
    if (
        listed is None
        or listed.borrows
        or (listed.release and workload.version[: len(listed.release)] > listed.release)
    ):
        return None
    if supports(engine, spec):
        return _automatic(spec, method, accelerator) if engine == "tgi" else None
    if not _known(engine, spec):
        return None
    return f"{engine} has no {spec.architecture}. {_others(engine, spec, accelerator)}"


def note(workload: Workload, spec: ModelSpec) -> str | None:
    """Return what a reader must know where the list does not name the model's class and nothing
    is refused; None where no class is known."""
    engine, listed = workload.engine, LISTS.get(workload.engine)
    if listed is None or not spec.architecture[:1].isupper() or supports(engine, spec):
        return None
    if engine == "vllm" and removed(spec, listed.release):
        return None
    if listed.borrows:
        return (
            f"{engine} {listed.read} has no class of its own for {spec.architecture}: it takes"
            " transformers', where that fits."
        )
    return (
        f"The list read here of what {engine} runs ({listed.read}) does not name"
        f" {spec.architecture}: see whether your release does."
    )


def _known(engine: EngineName, spec: ModelSpec) -> bool:
    """Return whether the model was around long before the engine's list was read, and nothing
    beside the engine runs it.

    TensorRT-LLM's examples and MLX's other packages run towers, encoders and Whisper.
    """
    if engine == "tgi":
        return spec.model_type in tgi.LATER
    towers = any(block.part in (Part.VISION, Part.AUDIO) for block in spec.blocks)
    beside = engine in ("tensorrt-llm", "mlx") and (towers or spec.task != "generate")
    return spec.architecture in vllm.SETTLED and not beside


def _automatic(spec: ModelSpec, method: str | None, accelerator: Accelerator) -> str | None:
    """Return why text-generation-inference does not give this to transformers' class. Source:
    its models/__init__.py, get_model."""
    if spec.model_type in tgi.MODEL_TYPES or method not in ("awq", "gptq"):
        return None
    return (
        f"tgi reads no {method} weights of {spec.architecture}. {_others('tgi', spec, accelerator)}"
    )


def _others(engine: EngineName, spec: ModelSpec, accelerator: Accelerator) -> str:
    """Up to two engines that have the model and kernels for the card."""
    others = [
        name
        for name in _INSTEAD
        if name != engine and supports(name, spec) and platforms.built(name, accelerator)
    ]
    return (
        f"Send engine {' or '.join(others[:2])}."
        if others
        else "Send another GPU: no engine known here runs this model on it."
    )
