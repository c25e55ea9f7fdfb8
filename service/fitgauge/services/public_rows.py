"""Rows of truth that may leave the house: no name of a person, a channel, a machine, a path or a
model that is not public."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.services.explain_log.schemas import LogAnswer, LogCase

_BILLION = 1e9
_WORDS = frozenset({
    "activation_checkpointing", "attention", "base_precision", "engine", "engine_version",
    "framework", "kv_cache_dtype", "loss", "method", "optimizer", "optimizer_implementation",
    "precision", "quantization", "settings", "trainer",
})  # fmt: skip
"""Fields whose text is a word of the contract. Any other text may hold a name and is left out."""

_SETTING = re.compile(r"[A-Za-z0-9][\w.+-]{0,31}")
"""A flag's value that is a word, such as bfloat16: no path and no sentence."""

_SIZE = re.compile(r"\d{1,5}(?:\.\d{1,2})? ?Gi?B", re.IGNORECASE)
"""A GPU of which no more than its memory is known."""


def public_question(
    question: Mapping[str, Any],
    model: tuple[str, int] | None,
    gpu: str | None,
    snapshot: Snapshot,
    catalog: Catalog,
) -> dict[str, Any]:
    """Return the fields of a question: a model that is not bundled as its size, a GPU that is not
    of the catalog and no size left out.

    model: id and parameters of the one that was taken; gpu: id of the one that was."""
    fields = {
        name: value
        for name, value in question.items()
        if isinstance(value, int | float) or (name in _WORDS and isinstance(value, str))
    }
    if model is not None:
        fields |= {"model": public_model(*model, snapshot)} if model[1] else {}
    sent = str(question.get("gpu", ""))
    if gpu in {accelerator.id for accelerator in catalog.all()}:
        fields["gpu"] = gpu
    elif _SIZE.fullmatch(sent):
        fields["gpu"] = sent
    return fields


def public_model(name: str, parameters: int, snapshot: Snapshot) -> str:
    """Return the name of a bundled model, the size of any other."""
    return name if snapshot.get(name) is not None else f"{parameters / _BILLION:.3g}b"


def public_case(answer: LogAnswer, snapshot: Snapshot, catalog: Catalog) -> LogCase:
    """Return the run of an answer about a log without what may be a name. What a model that is not
    bundled measured is scored for nothing but the outcome."""
    case, model = answer.case, answer.model
    bundled = model is not None and snapshot.get(model.id) is not None
    return structs.replace(
        case,
        question=public_question(
            case.question,
            (model.id, model.parameters) if model else None,
            answer.gpu.id if answer.gpu else None,
            snapshot,
            catalog,
        ),
        scores=[name for name in case.scores if bundled or name == "outcome"],
        build=case.build if case.build and _SETTING.fullmatch(case.build) else None,
        settings={
            name: value
            for name, value in case.settings.items()
            if not isinstance(value, str) or _SETTING.fullmatch(value)
        },
    )
