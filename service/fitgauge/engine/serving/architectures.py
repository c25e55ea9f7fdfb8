"""Whether an engine has a class for a model's architecture, what it does without, and which
engine has one. The lists are in the rows of the engines (`engine.ArchitectureList`)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Recurrent
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.serving import platforms
from fitgauge.engine.serving.engine_facts import ArchitectureList, Release
from fitgauge.engine.serving.registry import ENGINES, preferred
from fitgauge.engine.serving.vllm.architectures import NEVER_BORROWED, SETTLED
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.unsupported import UnsupportedError


def supports(engine: EngineName, spec: ModelSpec) -> bool:
    """Return whether the engine's list names the model; always for transformers."""
    listed = ENGINES[engine].architectures
    return (
        listed is None or (spec.model_type if listed.by_type else spec.architecture) in listed.names
    )


def refusal(
    workload: Workload, spec: ModelSpec, method: str | None, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why the engine has nothing that runs this model, with what has; None where it has,
    takes transformers' class, or may have.

    method: support.family of the weights. An engine that takes no other's classes lacks a model
    that its list does not name, unless the model is too young for the list or the engine's
    release is newer than it. A model read from a GGUF file has no class to look for."""
    engine, listed = workload.engine, ENGINES[workload.engine].architectures
    if listed is not None and (later := _later(workload, listed, spec)):
        return (
            None if _takes_transformers(workload, listed, spec) else _too_old(engine, later, spec)
        )
    if (
        listed is None
        or _borrows(listed, spec)
        or (listed.release and workload.engine_version[: len(listed.release)] > listed.release)
    ):
        return None
    if supports(engine, spec):
        if spec.model_type not in listed.without_awq or method not in ("awq", "gptq"):
            return None
        lacking = f"{engine} reads no {method} weights of {spec.architecture}"
        return _without(lacking, engine, spec, accelerator)
    if not _lacks(listed, spec):
        return None
    return _without(f"{engine} has no {spec.architecture}", engine, spec, accelerator)


def note(workload: Workload, spec: ModelSpec) -> Note | None:
    """Return what a reader must know where the list does not name the model's class and nothing
    is refused; None where no class is known."""
    engine, listed = workload.engine, ENGINES[workload.engine].architectures
    if listed is not None and (later := _later(workload, listed, spec)):
        if not _takes_transformers(workload, listed, spec):
            return None
        return Note(
            "architecture-unlisted",
            "engine_version",
            f"{engine} has a class for {spec.architecture} since {later.name}: what is older takes"
            " transformers', where that fits.",
        )
    if listed is None or not spec.architecture[:1].isupper() or supports(engine, spec):
        return None
    if listed.removed(spec, listed.release):
        return None
    if listed.borrows:
        return Note(
            "architecture-unlisted",
            "engine",
            f"{engine} {listed.read} has no class of its own for {spec.architecture}: it takes"
            " transformers', where that fits.",
        )
    return Note(
        "architecture-unlisted",
        "engine",
        f"The list read here of what {engine} runs ({listed.read}) does not name"
        f" {spec.architecture}: see whether your release does.",
    )


def _later(workload: Workload, listed: ArchitectureList, spec: ModelSpec) -> Release | None:
    """Return the first release with a class for the model where the workload's is older; None
    for a build between releases, which may have it already."""
    first = listed.first.get(spec.architecture)
    if first is None or workload.between_releases or workload.engine_version >= first.numbers:
        return None
    return first


def _takes_transformers(workload: Workload, listed: ArchitectureList, spec: ModelSpec) -> bool:
    """Return whether a release without a class for the model may run transformers': never one
    with recurrent states, for which no engine's cache has room there; encoders are not judged."""
    if spec.task != "generate":
        return True
    if listed.borrows is None or any(
        isinstance(mixer, Recurrent) for block in spec.blocks for mixer in block.mixers
    ):
        return False
    since = listed.borrows.text if spec.reads_text_alone else listed.borrows.towers
    return workload.engine_version >= since


def _borrows(listed: ArchitectureList, spec: ModelSpec) -> bool:
    """Return whether the engine takes transformers' class for the model: for none with recurrent
    states, for which its cache has no room there, unless no reader knows them."""
    never = NEVER_BORROWED if listed.lacking is None else listed.lacking
    known_states = spec.keeps_states and spec.basis != "assumed"
    return bool(listed.borrows) and spec.model_type not in never and not known_states


def _too_old(engine: EngineName, first: Release, spec: ModelSpec) -> UnsupportedError:
    return UnsupportedError(
        "engine_version",
        f"{engine} has no {spec.architecture} before {first.name}.",
        ({"engine_version": (first.name,)},),
    )


def _lacks(listed: ArchitectureList, spec: ModelSpec) -> bool:
    """Return whether the engine certainly lacks a model that its list does not name: the model was
    around long before the list was read, and no other package of the project runs it.

    TensorRT-LLM's examples and MLX's other packages run towers, encoders and Whisper.
    """
    if listed.borrows:
        return True
    if listed.lacking is not None:
        return spec.model_type in listed.lacking
    elsewhere = listed.generates_only and (not spec.reads_text_alone or spec.task != "generate")
    old = spec.architecture in SETTLED or spec.model_type in NEVER_BORROWED
    return old and not elsewhere


def _without(
    lacking: str, engine: EngineName, spec: ModelSpec, accelerator: Accelerator
) -> UnsupportedError:
    """Return the refusal, with up to two engines that have the model and kernels for the GPU."""
    others = tuple(
        name
        for name in preferred()
        if name != engine and supports(name, spec) and platforms.built(name, accelerator)
    )
    if not others:
        return UnsupportedError("gpu", f"{lacking}; no engine known here runs it on this GPU.")
    return UnsupportedError("engine", f"{lacking}.", ({"engine": others[:2]},))
