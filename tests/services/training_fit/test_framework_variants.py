"""What a question leaves to a framework's version is within the interval of its answer."""

import msgspec
import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantity import Bytes
from fitgauge.services.training_fit.framework_variants import other_choices, widened
from fitgauge.services.training_fit.launchers.registry import with_tool_defaults
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.workload import training_workload

MISTRAL = "mistralai/Mistral-7B-v0.1"
SPEC = read_config(Snapshot().get(MISTRAL).config)


def choices(count=1, **asked):
    request = TrainingRequest(model=MISTRAL, gpu="A100 80GB", **asked)
    return list(other_choices(request, training_workload(request, SPEC, count)))


def test_adamw_may_be_fused_where_nothing_is_said():
    (other,) = choices(method="full")
    assert other.optimizer_implementation == "fused"
    assert choices(method="full", optimizer_implementation="foreach") == []
    assert choices(method="full", optimizer="adafactor") == []


def test_adapters_may_be_sharded_by_either_fsdp():
    versions = {
        other.fsdp_version
        for other in choices(2, method="lora", framework="fsdp", optimizer_implementation="fused")
    }
    assert versions == {2}
    assert (
        choices(
            2, method="lora", framework="fsdp", optimizer_implementation="fused", fsdp_version=1
        )
        == []
    )


def test_fsdps_gradients_may_be_reduced_as_accelerate_does():
    asked = {"framework": "fsdp", "optimizer_implementation": "fused"}
    (other,) = choices(8, precision="mixed_bf16", **asked)
    assert other.gradient_dtype == "bf16"
    assert choices(8, precision="mixed_bf16", gradient_dtype="fp32", **asked) == []
    assert choices(8, precision="bf16", **asked) == []


def test_qlora_in_bf16_may_keep_what_is_not_quantized_in_fp32():
    asked = {"method": "qlora", "optimizer_implementation": "fused"}
    (other,) = choices(precision="bf16", **asked)
    assert other.precision == "mixed_bf16"
    assert choices(**asked) == []


def test_an_interval_holds_every_choice_and_what_is_expected_stays():
    own, other = Bytes(low=8, expected=10, high=12), Bytes(low=5, expected=6, high=7)
    assert widened(own, [other]) == Bytes(low=5, expected=10, high=12)
    assert widened(own, []) == own


@pytest.mark.parametrize(("word", "apart"), [("torchtitan", True), ("fsdp", False)])
def test_torchtitan_shards_embedding_and_head_by_themselves(word, apart):
    request = with_tool_defaults(
        TrainingRequest(model=MISTRAL, gpu="A100 80GB", framework=word), "full", 8, SPEC
    )
    assert training_workload(request, SPEC, 8).shard_embeddings is apart
    assert not training_workload(
        msgspec.structs.replace(request, shard_embeddings=False), SPEC, 8
    ).shard_embeddings
