"""What a lying config.json may do: be answered, or be refused with an error of ours. Real
configs with one or two numbers replaced."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.training import load_training
from fitgauge.engine.model import bounds
from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.families.multimodal.gemma4 import own_sizes
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.published import published
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import FitgaugeError, MalformedModelError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.service import FitService
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService
from hub_stand_in import llama_config

HOSTILE = [0, -1, 1, 10**9, 2**63, 1e308, float("inf"), float("nan"), "x", None, [], {}]
Row = dict[str, Any]
Path = tuple[Any, ...]


@cache
def rows() -> list[Row]:
    """Return one bundled model for every family and quantizer."""
    alike: dict[Any, Row] = {}
    for line in (files("fitgauge.catalog") / "data" / "models.jsonl").read_text().splitlines():
        row = json.loads(line)
        method = (row["config"].get("quantization_config") or {}).get("quant_method")
        alike.setdefault((row["config"]["model_type"], method, "quantization" in row), row)
    return list(alike.values())


def numbers(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield where numbers stand in a config."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in inside:
        yield from numbers(item, (*path, key))
    if isinstance(value, int | float):
        yield path


def replaced(row: Row, changes: list[tuple[Path, Any]]) -> Row:
    changed = copy.deepcopy({"config": row["config"], "quantization": row.get("quantization")})
    for path, value in changes:
        *parents, key = path
        place = changed
        for parent in parents:
            place = place[parent] if isinstance(place, dict | list) else {}
        place[key] = value
    return changed


@st.composite
def lying_configs(draw: st.DrawFn) -> Row:
    row = draw(st.sampled_from(rows()))
    places = list(numbers({"config": row["config"], "quantization": row.get("quantization")}))
    paths = draw(st.lists(st.sampled_from(places), min_size=1, max_size=2, unique=True))
    return replaced(row, [(path, draw(st.sampled_from(HOSTILE))) for path in paths])


def tensors(spec: ModelSpec) -> int:
    return sum(len(block.tensors) * len(block.layers) for block in spec.blocks)


@pytest.mark.parametrize("ratio", [0, -1, 1e-9, 2, 1e30])
def test_a_ratio_of_merged_patches_is_bounded(ratio):
    row = next(one for one in rows() if one["config"]["model_type"] == "internvl_chat")
    path = ("config", "downsample_ratio")
    lying = replaced(row, [(path, ratio)])
    with pytest.raises(MalformedModelError, match="downsample_ratio"):
        read_config(lying["config"], lying["quantization"])


@pytest.mark.parametrize(
    ("model_type", "field"),
    [
        ("nemotron_h", "hidden_size"),  # its MLP's last matrix has one row, as an expert's gate
        ("qwen3_moe", "max_position_embeddings"),  # less than a step of the longest sequence
    ],
)
def test_a_model_one_wide_or_long_is_trained(model_type, field):
    row = next(one for one in rows() if one["config"]["model_type"] == model_type)
    lying = replaced(row, [(("config", field), 1)])
    model = Model(id="made/up", source="config", spec=read_config(lying["config"], None))
    training = TrainingFitService(load_training(), load_engines())
    request = TrainingRequest(model=model.id, gpu="8xH100", method="full")
    assert training.answer(request, model, bundled().find("8xH100")).verdict is not None


@given(
    lying=lying_configs(),
    engine=st.sampled_from(sorted(ENGINES)),
    method=st.sampled_from(["lora", "full", "qlora"]),
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_lying_config_is_answered_or_refused_and_costs_no_more_than_a_real_one(
    lying, engine, method
):
    try:
        spec = read_config(lying["config"], lying["quantization"])
    except MalformedModelError:
        return
    assert tensors(spec) <= bounds.MAX_TENSORS
    assert (
        sum(tensor.count * len(block.layers) for block in spec.blocks for tensor in block.tensors)
        <= bounds.MAX_STORED
    )
    model = Model(id="made/up", source="config", spec=spec)
    serving = FitService(load_engines())
    training = TrainingFitService(load_training(), load_engines())
    for answer in (
        lambda: serving.answer(
            FitRequest(model=model.id, gpu="H100", engine=engine), model, bundled().find("H100")
        ),
        lambda: training.answer(
            TrainingRequest(model=model.id, gpu="8xH100", method=method),
            model,
            bundled().find("8xH100"),
        ),
    ):
        try:
            answer()
        except (FitgaugeError, UnsupportedError):  # as the services say that they do
            continue


@pytest.mark.parametrize(
    "field",
    [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
    ],
)
@pytest.mark.parametrize("value", [0, -1, 10**9, 2**63, 1e308])
def test_a_size_that_no_model_has_is_refused_by_its_name(field, value):
    with pytest.raises(MalformedModelError) as refused:
        read_config(llama_config(**{field: value}))
    assert refused.value.field == field


def test_heads_that_leave_no_width_are_refused():
    with pytest.raises(MalformedModelError):
        read_config(llama_config(num_attention_heads=1000))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_experts": 2**24},
        {"num_experts": 2**16},
        {"num_experts": 2**12, "num_hidden_layers": 90},
    ],
)
def test_experts_of_all_layers_are_bounded_together(changes):
    mixture = {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 32,
        "moe_intermediate_size": 256,
        "num_experts_per_tok": 2,
        "head_dim": 32,
    }
    with pytest.raises(MalformedModelError):
        read_config(llama_config(**{**mixture, **changes}))


def test_every_expert_of_a_large_mixture_may_be_named():
    ignored = [
        f"model.layers.{layer}.mlp.experts.{expert}.{name}_proj"
        for layer in range(60)
        for expert in range(384)
        for name in ("gate", "down")
    ]
    spec = read_config(
        llama_config(
            quantization_config={
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "ignore": ignored,
            }
        )
    )
    scheme = published(spec)
    assert scheme is not None
    assert scheme.basis == "computed"


def groups(targets: list[str]) -> dict[str, Any]:
    weights = {"num_bits": 8, "type": "float"}
    listed = {
        f"group_{number}": {"targets": [target], "weights": weights}
        for number, target in enumerate(targets)
    }
    return {"quant_method": "compressed-tensors", "config_groups": listed}


@pytest.mark.parametrize(
    "quantization",
    [
        groups([f"re:.*q{number}" for number in range(2000)]),
        groups([f"re:.*x{{300}}{number}" for number in range(60)]),
        {
            "quant_method": "gptq",
            "bits": 4,
            "dynamic": {f"layers.{number}.mlp.down_proj": {"bits": 8} for number in range(2000)},
        },
        {
            "quant_method": "gptq",
            "bits": 4,
            "dynamic": {f"+:.*layers.{n}.*": {"bits": 4, "group_size": n + 1} for n in range(70)},
        },
        {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "ignore": [f"model.*.experts.{number}.*.weight" for number in range(2000)],
        },
    ],
    ids=["patterns", "states", "dynamic", "formats", "globs"],
)
def test_rules_that_cost_more_than_those_of_any_model_are_refused(quantization):
    with pytest.raises(MalformedModelError) as refused:
        read_config(llama_config(quantization_config=quantization))
    assert refused.value.field == "quantization_config"


def test_a_pattern_for_every_layer_of_a_deep_model_is_read():
    dynamic = {f"+:.*layers\\.{number}\\..*": {"bits": 8} for number in range(94)}
    deep = llama_config(
        num_hidden_layers=94,
        quantization_config={"quant_method": "gptq", "bits": 4, "dynamic": dynamic},
    )
    scheme = published(read_config(deep))
    assert scheme is not None
    assert scheme.basis == "computed"
    assert len(scheme.rules) == 95


@pytest.mark.parametrize("key", ["²", "9" * 5000, "00000001", "2", "-1", "one"])
def test_only_numbers_of_layers_name_sizes_of_their_own(key):
    config = Config({"num_hidden_layers": 2, "per_layer_config": {key: {"head_dim": 64}}}, "")
    with pytest.raises(MalformedModelError, match="unknown layer"):
        own_sizes(config, 1)


def test_the_number_of_a_layer_may_be_padded():
    config = Config({"num_hidden_layers": 2, "per_layer_config": {"01": {"head_dim": 64}}}, "")
    assert own_sizes(config, 1).values == {"head_dim": 64}
    assert own_sizes(config, 0).values == {}
