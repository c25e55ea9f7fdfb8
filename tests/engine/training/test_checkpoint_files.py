"""What a checkpoint holds as the tools write it."""

import pytest

from bundled_models import spec_of
from fitgauge.engine.training.states.checkpoint_files import checkpoint_files
from fitgauge.engine.training.states.offload import checkpoint_bytes
from fitgauge.engine.training.workload import TrainingWorkload

SPEC = spec_of("meta-llama/Llama-3.1-8B")
PARAMETERS = 8_030_261_248


def files(writer="trainer", **fields):
    workload = TrainingWorkload(sequence_length=2048, **fields)
    return {file.name: file.bytes for file in checkpoint_files(SPEC, workload, writer)}


def resumed(**fields):
    return checkpoint_bytes(SPEC, TrainingWorkload(sequence_length=2048, **fields))


def test_the_trainer_saves_fp32_weights_and_adams_two_states():
    assert files() == {"model.safetensors": 4 * PARAMETERS, "optimizer.pt": 8 * PARAMETERS}


@pytest.mark.parametrize("method", ["lora", "qlora", "dora"])
def test_adapters_are_saved_alone(method):
    saved = files(method=method)
    assert set(saved) == {"adapter_model.safetensors", "optimizer.pt"}
    assert saved["optimizer.pt"] == 2 * saved["adapter_model.safetensors"]
    assert sum(saved.values()) == resumed(method=method)


@pytest.mark.parametrize(
    ("fields", "weights_more"),
    [
        ({"framework": "fsdp", "fsdp_version": 2, "zero_stage": 3}, 0),
        ({"framework": "fsdp", "fsdp_version": 1, "zero_stage": 3}, 4),
        ({"framework": "deepspeed", "zero_stage": 3}, 0),
        ({"framework": "deepspeed", "zero_stage": 2}, 2),
        ({"framework": "megatron", "zero_stage": 1}, 0),
    ],
    ids=str,
)
def test_some_frameworks_save_weights_twice(fields, weights_more):
    assert sum(files(**fields).values()) == resumed(**fields) + weights_more * PARAMETERS


def test_deepspeed_saves_masters_with_the_states():
    saved = files(framework="deepspeed", zero_stage=3)
    assert saved["global_step*/*_optim_states.pt"] == 12 * PARAMETERS
    assert saved["model.safetensors"] == 2 * PARAMETERS


def test_torchtune_merges_adapters_into_a_whole_model():
    saved = files("torchtune", method="lora", precision="bf16")
    assert saved["model-*.safetensors"] == 2 * PARAMETERS
    assert saved["adapter_model.safetensors"] < saved["model-*.safetensors"] / 100


def test_litgpt_saves_adapters_without_states_and_a_model_with_them():
    assert set(files("litgpt", method="lora")) == {"lit_model.pth.lora"}
    assert files("litgpt", precision="bf16") == {"lit_model.pth": 6 * PARAMETERS}
