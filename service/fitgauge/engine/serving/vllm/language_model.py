"""The releases of vLLM that serve the language model alone, and the flags of each."""

from msgspec import json

from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

_NO_ITEMS = json.encode({"image": 0, "video": 0, "audio": 0}).decode()


def flags(workload: Workload) -> list[str]:
    """Return what starts a release so."""
    if not workload.language_model_only:
        return []
    if workload.engine_version >= releases.LANGUAGE_MODEL_ONLY:
        return ["--language-model-only"]
    return ["--limit-mm-per-prompt", _NO_ITEMS]


def refusal(workload: Workload) -> UnsupportedError | None:
    """Return why a release does not serve the language model alone; None where it does."""
    if not workload.language_model_only or workload.engine_version >= releases.TOWERS_LEFT_OUT:
        return None
    return UnsupportedError(
        "language_model_only",
        "Before 0.15 vLLM is not estimated without encoders.",
        ({"engine_version": ("0.15.0",)}, {"language_model_only": (None,)}),
    )
