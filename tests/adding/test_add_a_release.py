"""A release of an engine is added in one row: what it changes holds from it on, and not before."""

import json
from importlib.resources import files

import msgspec

from bundled_models import shared_questions
from fitgauge.catalog.engines import Engines, whole
from fitgauge.engine.serving.profile import EngineProfile

ROWS = json.loads(files("fitgauge.catalog").joinpath("data/engines.json").read_bytes())
RELEASE = {"engine": "vllm", "since": [99, 0], "gpu_memory_utilization": 0.5, "source": "made up"}


def test_what_a_release_changes_holds_from_it_on():
    rows = whole([*ROWS, RELEASE])
    engines = Engines(msgspec.convert(rows, tuple[EngineProfile, ...]))
    assert engines.profile("vllm", (99, 1)).gpu_memory_utilization == 0.5
    before = engines.profile("vllm", (98, 0))
    assert before.gpu_memory_utilization != 0.5
    assert before == shared_questions()._engines.profile("vllm", None)
    after = engines.profile("vllm", None)
    changed = [
        name
        for name in EngineProfile.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    ]
    assert sorted(changed) == ["gpu_memory_utilization", "since", "source"]
