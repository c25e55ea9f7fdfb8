"""A check of manifests as SARIF 2.1.0, which code hosts show on the lines of a change.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, sections 3.13
(sarifLog), 3.14 (run), 3.27 (result), 3.49 (reportingDescriptor)."""

from typing import Any

from fitgauge import __version__
from fitgauge.services.manifests.schemas import ManifestsAnswer, Rule, ServerAnswer
from fitgauge.services.manifests.service import remarks

_RULES: dict[Rule, tuple[str, str]] = {
    "does-not-fit": ("error", "The model server does not fit on its GPUs."),
    "too-few-gpus": ("error", "The command takes more GPUs than the manifest asks for."),
    "unsupported": ("error", "The engine does not run this model, format or GPU."),
    "tight": ("warning", "The model server may run out of memory of the GPU."),
    "no-answer": ("warning", "The manifest does not say enough for an answer."),
    "shared-memory": ("warning", "/dev/shm is too small for ranks of several GPUs."),
    "disk": ("warning", "The weights are larger than what they are downloaded to."),
    "kv-transfer": ("note", "KV cache that goes from servers that prefill to those that decode."),
    "unreadable": ("warning", "The file is no YAML, or is out of bounds."),
    "not-read": ("note", "The estimate leaves this line out."),
}
"""Level and description by rule."""


def sarif(answer: ManifestsAnswer) -> dict[str, Any]:
    """Return the log of one run."""
    names = list(_RULES)
    results = [
        {
            "ruleId": remark.rule,
            "ruleIndex": names.index(remark.rule),
            "level": _RULES[remark.rule][0],
            "message": {"text": _message(remark.message, remark.rule, server)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": file},
                        "region": {"startLine": remark.line},
                    }
                }
            ],
        }
        for file, remark, server in remarks(answer)
    ]
    rules = [
        {"id": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}
        for name, (level, text) in _RULES.items()
    ]
    driver = {"name": "fitgauge", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _message(message: str, rule: Rule, server: ServerAnswer | None) -> str:
    """Return what is wrong, and for a verdict what to change."""
    if server is None or rule not in ("does-not-fit", "too-few-gpus", "tight"):
        return message
    changes = "; or ".join(change.change for change in server.changes)
    return f"{message} What fits: {changes}." if changes else message
