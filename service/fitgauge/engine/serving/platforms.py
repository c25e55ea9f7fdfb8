"""Which makers' accelerators an engine has kernels for, which of their cards it is built for, and
which weights it reads there.

NVIDIA's cards differ by compute capability (support.py); those of the others by maker, target
and the list of quantizations that the engine keeps for it."""

from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantization.formats import Format
from fitgauge.engine.serving.workload import EngineName


class Platform(NamedTuple):
    """What one engine offers on one maker's accelerators.

    `targets`: the gfx targets it is built for, empty for all. `methods`: the weights it reads
    (support.family), None where no list is known. `plugin`: a package beside the engine without
    which it does not run there."""

    targets: frozenset[str] = frozenset()
    methods: frozenset[str] | None = None
    plugin: str | None = None


_AS_NVIDIA = Platform()

PLATFORMS: dict[EngineName, dict[str, Platform]] = {
    "vllm": {
        "nvidia": _AS_NVIDIA,
        "amd": Platform(
            targets=frozenset({"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1150",
                "gfx1151", "gfx1200", "gfx1201"}),
            methods=frozenset({
                "awq", "gptq", "fp8", "fbgemm_fp8", "compressed-tensors", "quark", "mxfp4", "mxfp8",
                "nvfp4", "torchao", "modelopt", "int8",
                "int4", "gguf",
            }),
        ),
        "intel": Platform(methods=frozenset({"awq", "gptq", "fp8", "mxfp4", "mxfp8", "modelopt",
            "compressed-tensors", "int8", "int4"})),
        "gaudi": Platform(plugin="vllm-gaudi"),
        "google": Platform(methods=frozenset({"awq", "fp8", "mxfp4", "compressed-tensors", "int8",
            "int4"}), plugin="tpu-inference"),
        "huawei": Platform(plugin="vllm-ascend"),
        "aws": Platform(plugin="vllm-neuron"),
    },
    "sglang": {
        "nvidia": _AS_NVIDIA,
        "amd": Platform(
            targets=frozenset({"gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"}),
            methods=frozenset({
                "awq", "gptq", "fp8", "compressed-tensors", "quark", "mxfp4", "nvfp4", "torchao",
                "int8", "int4", "bitsandbytes",
            }),
        ),
        "intel": _AS_NVIDIA,
        "huawei": Platform(methods=frozenset({"awq", "gptq", "compressed-tensors", "gguf", "int8",
            "int4"})),
        "google": Platform(plugin="sglang-jax"),
    },
    "tensorrt-llm": {"nvidia": _AS_NVIDIA},
    "tgi": {
        "nvidia": _AS_NVIDIA, "amd": Platform(targets=frozenset({"gfx90a", "gfx942"})),
        "intel": _AS_NVIDIA, "gaudi": _AS_NVIDIA,
        "aws": Platform(plugin="optimum-neuron"),
    },
    "transformers": {
        "nvidia": _AS_NVIDIA, "amd": _AS_NVIDIA, "intel": _AS_NVIDIA, "apple": _AS_NVIDIA,
        "gaudi": Platform(plugin="optimum-habana"),
        "google": Platform(plugin="torch_xla"), "aws": Platform(plugin="optimum-neuron"),
        "huawei": Platform(plugin="torch_npu"),
    },
    "llama.cpp": {"nvidia": _AS_NVIDIA, "amd": _AS_NVIDIA, "intel": _AS_NVIDIA, "apple": _AS_NVIDIA,
        "huawei": _AS_NVIDIA},
    "ollama": {"nvidia": _AS_NVIDIA, "amd": _AS_NVIDIA, "intel": _AS_NVIDIA, "apple": _AS_NVIDIA},
    "mlx": {"apple": _AS_NVIDIA},
}  # fmt: skip
"""By engine and maker; what is not named has no kernels.

Sources: vLLM 0.33 platforms/rocm.py, platforms/xpu.py (supported_quantization; GGUF until 0.32),
docs/getting_started/installation/ gpu.rocm.inc.md (targets); tpu-inference
platforms/tpu_platform.py (supported_quantization); SGLang docs, advanced_features/ quantization
(Platform Compatibility) and sgl-kernel/setup_rocm.py (targets); text-generation-inference docs,
installation_amd; llama.cpp docs/build.md (Metal, CUDA, HIP, SYCL, Vulkan, CANN);
docs.ollama.com, gpu (CUDA, ROCm, Metal, Vulkan)."""

_FP8_UNITS = frozenset({"gfx942", "gfx950", "gfx1200", "gfx1201"})
"""AMD targets whose matrix units multiply fp8, which torch._scaled_mm asks for; block-scaled fp8
has Triton kernels on all.

Source: vLLM 0.33 kernels/linear/scaled_mm/pytorch.py (_rocm_torch_fp8_scaled_mm_supported),
triton.py."""

_INSTEAD: dict[str, tuple[EngineName, ...]] = {"apple": ("mlx", "llama.cpp")}
_FIRST: tuple[EngineName, ...] = ("vllm", "llama.cpp", "transformers")


def maker(accelerator: Accelerator) -> str:
    """Return whose platform it is, in small letters: the vendor, but Gaudi beside Intel's GPUs."""
    return "gaudi" if accelerator.id.startswith("gaudi") else accelerator.vendor.lower()


def engines_for(accelerator: Accelerator) -> tuple[EngineName, ...]:
    """Return the engines to take on this card, best first; empty where none of those known here
    has kernels for it."""
    whose = maker(accelerator)
    asked = _INSTEAD.get(whose, _FIRST)
    return tuple(name for name in asked if _built(PLATFORMS[name].get(whose), accelerator))


def built(engine: EngineName, accelerator: Accelerator) -> bool:
    """Return whether the engine is built for this card; so for one of a maker that nobody knows."""
    whose = maker(accelerator)
    return _built(PLATFORMS[engine].get(whose), accelerator) or not any(
        whose in platforms for platforms in PLATFORMS.values()
    )


def refusal(
    engine: EngineName, method: str | None, form: Format | None, accelerator: Accelerator
) -> str | None:
    """Return why the engine does not run weights of this method on a card of its maker, with what
    does; None where it may.

    method: support.family, None for 16-bit weights. form: how most weights are stored. Makers
    that nobody knows pass."""
    whose = maker(accelerator)
    if not any(whose in platforms for platforms in PLATFORMS.values()):
        return None
    platform = PLATFORMS[engine].get(whose)
    if platform is None or not _built(platform, accelerator):
        return _no_kernels(engine, accelerator, platform)
    if method is None or platform.methods is None:
        return None
    if method not in platform.methods:
        others = [name for name in ("awq", "fp8", "gptq") if name in platform.methods]
        return (
            f"{engine} reads no {method} weights on {accelerator.vendor} {accelerator.name}. Send"
            f" quantization {' or '.join(others[:2])}."
        )
    scaled = form is not None and form.name in ("fp8", "fp8_channel")
    if (
        whose == "amd"
        and engine == "vllm"
        and scaled
        and accelerator.gfx is not None
        and accelerator.gfx not in _FP8_UNITS
    ):
        units = f"{accelerator.name} ({accelerator.gfx}) has no fp8 matrix units"
        return (
            f"{units}, which vllm needs for {method} weights. Send quantization awq, gptq or w8a8."
        )
    return None


def note(engine: EngineName, accelerator: Accelerator) -> str | None:
    """Return what a reader must know of an estimate for this maker: the plugin it takes, and
    that its terms were measured on other cards."""
    whose = maker(accelerator)
    platform = PLATFORMS[engine].get(whose)
    if platform is None or platform.plugin is None:
        return None
    return (
        f"{engine} runs on {accelerator.vendor} {accelerator.name} with {platform.plugin}: weights"
        " and cache are computed, what the process and its graphs hold is assumed from NVIDIA's"
        " cards."
    )


def _built(platform: Platform | None, accelerator: Accelerator) -> bool:
    if platform is None:
        return False
    return not platform.targets or accelerator.gfx is None or accelerator.gfx in platform.targets


def _no_kernels(engine: EngineName, accelerator: Accelerator, platform: Platform | None) -> str:
    others = [name for name in engines_for(accelerator) if name != engine]
    instead = (
        f"Send engine {' or '.join(others[:2])}."
        if others
        else "Send another GPU: no engine known here runs on it."
    )
    if engine == "mlx":
        return (
            f"mlx is for the unified memory of Apple silicon; {accelerator.name} is"
            f" {accelerator.vendor}'s. {instead}"
        )
    if maker(accelerator) == "apple":
        return f"{engine} has no kernels for Apple silicon. {instead}"
    target = f" ({accelerator.gfx})" if platform is not None and accelerator.gfx else ""
    return f"{engine} has no kernels for {accelerator.vendor} {accelerator.name}{target}. {instead}"
