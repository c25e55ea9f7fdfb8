"""A dense family is added in one entry of READERS: its parameters are counted and it is served."""

import asyncio

import pytest

from bundled_models import offline_questions
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.model import families
from fitgauge.engine.model.families.dense.dense import Dialect, read_dense
from fitgauge.engine.model.model import Model
from fitgauge.services.common.schemas import FitRequest

CONFIG = {
    "model_type": "toy_family",
    "architectures": ["LlamaForCausalLM"],
    "torch_dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
ATTENTION = 256 * 256 * 2 + 256 * 128 * 2 + 256 + 128 * 2  # q and k, v and o; biases of q, k and v
LAYER = ATTENTION + 3 * 256 * 704 + 2 * 256
PARAMETERS = 2 * LAYER + 2 * 1000 * 256 + 256


@pytest.fixture
def family(monkeypatch):
    """Register a family that adds biases to Llama's q, k and v projections."""
    dialect = Dialect(qkv_bias=True, out_bias=False)
    reader = lambda config: read_dense(config, dialect)  # noqa: E731
    monkeypatch.setitem(families.READERS, "toy_family", reader)


def test_without_its_reader_it_is_assumed():
    assert families.read_config(CONFIG).basis == "assumed"


def test_its_parameters_are_counted_exactly(family):
    spec = families.read_config(CONFIG)
    assert (spec.basis, spec.parameters) == ("exact", PARAMETERS)


def test_it_is_served(family, monkeypatch):
    services = offline_questions()
    model = Model(id="toy/family", source="config", spec=families.read_config(CONFIG))

    async def find(_):
        return model

    monkeypatch.setattr(services._models, "find", find)
    _, answer = asyncio.run(services.check_fit(FitRequest(model="toy/family", gpu="L4")))
    assert answer.verdict == "fits"
    assert answer.model.parameters == PARAMETERS
    assert services.catalog is bundled()
