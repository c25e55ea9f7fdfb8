"""A model whose architecture no reader knows is judged by what is counted of it, or not surely."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.quantity import GIB

UNREAD = "inclusionAI/Ling-3.0-Flash"


def test_a_snapshot_row_rests_on_its_own_count(check_fit):
    row = Snapshot().get(UNREAD)
    answer = check_fit(model=UNREAD, gpu="8xH200", detail="full")
    weights = next(term for term in answer.terms if term.name == "weights")
    assert row is not None
    assert row.parameters is not None
    assert weights.bytes * 8 == pytest.approx(2 * row.parameters, rel=0.01)
    assert answer.model.parameters == row.parameters


@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers", "llama.cpp", "mlx"])
def test_what_nobody_counted_may_be_much_larger(check_fit, engine):
    """In a format it is not stored in, no count says what the weights are."""
    gpu = "M3 Ultra 512GB" if engine == "mlx" else "8xH200"
    form = {"llama.cpp": "q8_0", "mlx": "8bit"}.get(engine, "fp8")
    answer = check_fit(model=UNREAD, gpu=gpu, engine=engine, quantization=form, detail="full")
    weights = next(term for term in answer.terms if term.name == "weights")
    assert weights.high - weights.bytes > 0.4 * weights.bytes > 4 * GIB
    assert weights.bytes - weights.low > 0.05 * weights.bytes


def test_a_known_architecture_weighs_what_is_counted(check_fit):
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="H100", detail="full")
    weights = next(term for term in answer.terms if term.name == "weights")
    assert weights.low == weights.bytes == weights.high
