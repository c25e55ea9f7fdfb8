"""Which vendors' accelerators an engine has kernels for, which of their GPUs it is built for, and
which weights it reads there.

NVIDIA's GPUs differ by compute capability (support.py); those of the others by vendor, target and
the list of quantization methods that the engine keeps for it (`engine.Platform`)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.serving.engine import Engine
from fitgauge.engine.serving.engine_facts import Platform
from fitgauge.engine.serving.registry import ENGINES, preferred
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError


def maker(accelerator: Accelerator) -> str:
    """Return the vendor in small letters; Gaudi is one of its own, apart from Intel's GPUs."""
    return "gaudi" if accelerator.id.startswith("gaudi") else accelerator.vendor.lower()


def engines_for(accelerator: Accelerator) -> tuple[EngineName, ...]:
    """Return the engines to take on this GPU, best first; empty where none of those known here
    has kernels for it."""
    vendor = maker(accelerator)
    rows = (ENGINES[name] for name in preferred())
    return tuple(
        row.name
        for row in rows
        if vendor in row.suggested_vendors and _built(row.platforms.get(vendor), accelerator)
    )


def built(engine: EngineName, accelerator: Accelerator) -> bool:
    """Return whether the engine is built for this GPU; also for one of an unknown vendor, which is
    no Mac."""
    vendor, row = maker(accelerator), ENGINES[engine]
    if not _is_listed(vendor):
        return not _is_apples(row)
    return _built(row.platforms.get(vendor), accelerator)


def refusal(
    engine: EngineName, method: str | None, form: Format | None, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why the engine does not run weights of this method on a GPU of its maker, with what
    does; None where it may.

    method: support.family, None for 16-bit weights. form: how most weights are stored. Makers
    that are unknown pass."""
    vendor = maker(accelerator)
    if not _is_listed(vendor):
        return None
    platform = ENGINES[engine].platforms.get(vendor)
    elsewhere = platform is not None and accelerator.gfx in platform.community
    if platform is None or not (_built(platform, accelerator) or elsewhere):
        return _no_kernels(engine, accelerator, platform)
    if method is None or platform.methods is None:
        return None
    if method not in platform.methods:
        others = tuple(name for name in ("awq", "fp8", "gptq") if name in platform.methods)
        return UnsupportedError(
            "quantization",
            f"{engine} reads no {method} weights on {accelerator.vendor} {accelerator.name}.",
            ({"quantization": (*others[:2], "bf16")},),
        )
    if (
        platform.fp8_targets is not None
        and form is not None
        and form.name in ("fp8", "fp8_channel")
        and accelerator.gfx is not None
        and accelerator.gfx not in platform.fp8_targets
    ):
        return UnsupportedError(
            "quantization",
            f"{accelerator.name} ({accelerator.gfx}) has no fp8 matrix units, which {engine} needs"
            f" for {method} weights.",
            ({"quantization": ("awq", "gptq", "w8a8")},),
        )
    return None


def note(engine: EngineName, accelerator: Accelerator) -> Note | None:
    """Return what a reader must know of an estimate for this maker: the plugin it takes, and
    that its terms were measured on other GPUs."""
    vendor = maker(accelerator)
    platform = ENGINES[engine].platforms.get(vendor)
    if platform is None:
        return None
    package = platform.plugin or platform.community.get(accelerator.gfx or "")
    if package is None:
        return None
    return Note(
        "engine-plugin",
        "engine",
        f"{engine} runs on {accelerator.vendor} {accelerator.name} with {package}: weights"
        " and cache are computed, what the process and its graphs hold is assumed from NVIDIA's"
        " GPUs.",
    )


def _is_listed(vendor: str) -> bool:
    """Return whether any engine has kernels for a vendor's accelerators."""
    return any(vendor in row.platforms for row in ENGINES.values())


def _is_apples(row: Engine) -> bool:
    """Return whether an engine is for Apple silicon alone."""
    return row.platforms.keys() == {"apple"}


def _built(platform: Platform | None, accelerator: Accelerator) -> bool:
    if platform is None:
        return False
    return not platform.targets or accelerator.gfx is None or accelerator.gfx in platform.targets


def _no_kernels(
    engine: EngineName, accelerator: Accelerator, platform: Platform | None
) -> UnsupportedError:
    if _is_apples(ENGINES[engine]):
        reason = (
            f"{engine} is for the unified memory of Apple silicon; {accelerator.name} is"
            f" {accelerator.vendor}'s"
        )
    elif maker(accelerator) == "apple":
        reason = f"{engine} has no kernels for Apple silicon"
    else:
        target = f" ({accelerator.gfx})" if platform is not None and accelerator.gfx else ""
        reason = f"{engine} has no kernels for {accelerator.vendor} {accelerator.name}{target}"
    others = tuple(name for name in engines_for(accelerator) if name != engine)
    if not others:
        return UnsupportedError("gpu", f"{reason}, nor has any other engine.")
    return UnsupportedError("engine", f"{reason}.", ({"engine": others[:2]},))
