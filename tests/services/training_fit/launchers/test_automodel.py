"""NeMo Automodel's recipe has the names that its source reads, and what was judged."""

import asyncio

import pytest
import yaml

from fitgauge.services.training_fit.launchers.config_files import config_files
from fitgauge.services.training_fit.schemas import TrainingRequest

NAMES = {
    # nemo_automodel/components/distributed/mesh.py, ParallelismSizes; config.py, FSDP2Config;
    # recipes/_dist_setup.py, strategy
    "distributed": {
        "strategy", "dp_size", "dp_replicate_size", "tp_size", "pp_size", "cp_size", "ep_size",
        "sequence_parallel", "tp_plan", "mp_policy", "offload_policy", "autocast_dtype",
        "activation_checkpointing", "activation_checkpointing_scope", "reshard_after_forward",
    },
    # components/_peft/lora.py, PeftConfig
    "peft": {
        "_target_", "target_modules", "exclude_modules", "match_all_linear", "dim", "alpha",
        "use_dora", "dropout", "dropout_position", "lora_A_init", "lora_dtype", "use_triton",
    },
    # components/quantization/qlora.py, create_bnb_config
    "quantization": {
        "load_in_4bit", "load_in_8bit", "bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant",
        "bnb_4bit_quant_type", "bnb_4bit_quant_storage",
    },
    # _transformers/auto_model.py, from_pretrained
    "model": {
        "_target_", "pretrained_model_name_or_path", "torch_dtype", "attn_implementation",
        "use_liger_kernel",
    },
    # components/training/step_scheduler.py, StepScheduler
    "step_scheduler": {
        "global_batch_size", "local_batch_size", "ckpt_every_steps", "num_epochs", "max_steps",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def recipe(questions):
    def of(**fields):
        request = TrainingRequest(
            **{"model": "meta-llama/Llama-3.1-8B", "trainer": "nemo-automodel"} | fields
        )
        command = asyncio.run(questions.check_training_fit(request))[1].launch.command
        files = config_files(command)
        return yaml.safe_load(files.files["automodel.yaml"]), files.command

    return of


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        (
            {"gpu": "H100", "method": "qlora"},
            {"peft.dim": 8, "quantization.bnb_4bit_quant_type": "nf4", "model.torch_dtype": "bf16"},
        ),
        (
            {"gpu": "8x H100", "method": "full", "precision": "mixed_bf16"},
            {"model.torch_dtype": "float32", "distributed.reshard_after_forward": True},
        ),
        (
            {"gpu": "8x H100", "method": "full", "zero_stage": 2, "tensor_parallel": 2},
            {"distributed.tp_size": 2, "distributed.reshard_after_forward": False},
        ),
        (
            {"gpu": "2x H100", "method": "dora", "lora_targets": "attention", "lora_rank": 4},
            {"peft.use_dora": True, "peft.dim": 4},
        ),
        (
            {"gpu": "H100", "method": "lora", "loss": "fused", "kernels": "none"},
            {"model.use_liger_kernel": False},
        ),
        (
            {"gpu": "4x H100", "method": "lora", "activation_checkpointing": "selective"},
            {"distributed.activation_checkpointing": "selective"},
        ),
    ],
    ids=str,
)
def test_a_recipe_says_what_was_judged_in_the_tools_own_names(recipe, fields, settings):
    read, _ = recipe(**fields)
    for section, names in NAMES.items():
        assert read.get(section, {}).keys() <= names
    for place, value in settings.items():
        section, name = place.split(".")
        assert read[section][name] == value


def test_a_step_has_the_sequences_of_every_rank(recipe):
    read, command = recipe(gpu="8x H100", method="full", micro_batch_size=2, micro_batches=3)
    assert read["step_scheduler"]["local_batch_size"] == 2
    assert read["step_scheduler"]["global_batch_size"] == 2 * 3 * 8
    assert command == "automodel automodel.yaml --nproc-per-node 8"


def test_its_length_stands_on_the_command_line(recipe):
    _, command = recipe(gpu="H100", method="lora", samples=1000, epochs=3, save_steps=50)
    assert "--step_scheduler.num_epochs 3" in command
    assert "--step_scheduler.ckpt_every_steps 50" in command


@pytest.mark.parametrize(
    "fields", [{"offload": "cpu"}, {"optimizer": "lion"}, {"precision": "fp32"}]
)
def test_what_no_recipe_has_is_not_put_into_one(questions, fields):
    request = TrainingRequest(
        model="meta-llama/Llama-3.1-8B", trainer="nemo-automodel", gpu="8x H100", **fields
    )
    command = asyncio.run(questions.check_training_fit(request))[1].launch.command
    assert "automodel" not in command
