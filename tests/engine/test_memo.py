"""What is remembered changes nothing but how often it is worked out."""

import pytest
from msgspec import structs

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.memo import MOST_REMEMBERED, Memo
from fitgauge.engine.serving.vllm.memory import stage_memory
from fitgauge.engine.serving.workload import Workload


def test_what_was_derived_is_not_derived_again():
    known, derived = Memo(), []
    for _ in range(3):
        assert known.of("key", lambda: derived.append(1) or len(derived)) == 1


def test_a_memory_stays_bounded():
    known = Memo()
    for number in range(3 * MOST_REMEMBERED):
        known.of(number, lambda: 1)
    assert 0 < len(known) <= MOST_REMEMBERED


@pytest.mark.parametrize("name", ["google/gemma-2-9b-it", "Qwen/Qwen3.5-27B"])
def test_stages_hold_the_same_whatever_was_asked_before(name):
    spec, profile, known = spec_of(name), load_engines().profile("vllm", None), Memo()
    one = Workload(
        engine="vllm",
        engine_version=(0, 33),
        context_length=8192,
        concurrency=1,
        kv_cache_dtype="auto",
        max_batched_tokens=2048,
        max_num_seqs=256,
    )
    for gpu in ("H100", "MI300X", "RTX 4090", "M3 Max 64GB"):
        accelerator = bundled().find(gpu).accelerator
        for tensor, pipeline in ((1, 1), (2, 1), (2, 2), (2, 3), (1, 5), (2, 2)):
            asked = structs.replace(one, tensor_parallel=tensor, pipeline_parallel=pipeline)
            after, afresh = (
                stage_memory(spec, asked, accelerator, profile, memory)
                for memory in (known, Memo())
            )
            assert after == afresh
