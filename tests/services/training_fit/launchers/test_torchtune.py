"""torchtune's configuration as a file: whole, of a model that torchtune has a builder for."""

import shlex

import pytest
import yaml

from fitgauge.services.training_fit.launchers.config_files import config_files
from fitgauge.services.training_fit.launchers.torchtune_file import settings_of, tuned_model
from notes import codes

ASKED = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200", "trainer": "torchtune"}
READ = {
    "model", "tokenizer", "checkpointer", "dataset", "optimizer", "loss", "metric_logger",
    "output_dir", "batch_size", "epochs", "max_steps_per_epoch", "gradient_accumulation_steps",
    "device", "dtype", "compile", "seed", "shuffle", "log_level", "resume_from_checkpoint",
}  # fmt: skip
"""Keys that every recipe reads without a default: recipes/*.py of torchtune 0.7."""


@pytest.fixture(scope="module")
def file(train):
    """Return the file of a command, and what reads it."""

    def of(**fields):
        read = config_files(train(**fields).launch.command)
        return yaml.safe_load(read.files["torchtune.yaml"]), read.command

    return of


@pytest.mark.parametrize(
    ("fields", "recipe", "builder"),
    [
        ({"method": "full"}, "full_finetune_single_device", "llama3_1_8b"),
        ({"method": "lora"}, "lora_finetune_single_device", "lora_llama3_1_8b"),
        ({"method": "qlora"}, "lora_finetune_single_device", "lora_llama3_1_8b"),
        ({"method": "full", "gpu_count": 4}, "full_finetune_distributed", "llama3_1_8b"),
        ({"method": "lora", "algorithm": "dpo"}, "lora_dpo_single_device", "lora_llama3_1_8b"),
    ],
    ids=str,
)
def test_a_recipe_has_every_key_it_reads(file, fields, recipe, builder):
    settings, command = file(**fields)
    assert settings.keys() >= READ
    assert settings["model"]["_component_"] == f"torchtune.models.llama3_1.{builder}"
    assert settings["model"].get("quantize_base", False) is (fields["method"] == "qlora")
    assert ("lr_scheduler" in settings) is (fields["method"] != "full")
    *_, last = command.split("\n")
    assert f"{recipe} --config torchtune.yaml" in last


def test_the_file_holds_the_settings_of_the_estimate(file):
    settings, _ = file(
        method="lora", lora_rank=24, sequence_length=3072, micro_batch_size=3, micro_batches=5
    )
    assert settings["model"]["lora_rank"] == 24
    assert settings["model"]["lora_attn_modules"] == ["q_proj", "v_proj", "output_proj"]
    assert settings["tokenizer"]["max_seq_len"] == 3072
    assert (settings["batch_size"], settings["gradient_accumulation_steps"]) == (3, 5)
    assert settings["optimizer"]["_component_"] == "torch.optim.AdamW"
    assert settings["dataset"]["packed"] is False


def test_what_it_reads_is_downloaded_first(file):
    settings, command = file(method="lora")
    download = shlex.split(command.split("\n")[0])
    assert download[:3] == ["tune", "download", "meta-llama/Meta-Llama-3.1-8B-Instruct"]
    folder = download[download.index("--output-dir") + 1]
    assert settings["checkpointer"]["checkpoint_dir"] == folder
    assert settings["tokenizer"]["path"] == f"{folder}/original/tokenizer.model"


def test_a_preference_dataset_is_not_packed(file):
    settings, _ = file(method="lora", algorithm="dpo")
    assert settings["dataset"] == {
        "_component_": "torchtune.datasets.stack_exchange_paired_dataset"
    }
    assert settings["loss"] == {"_component_": "torchtune.rlhf.loss.DPOLoss"}


def test_a_model_without_a_builder_needs_the_name_of_a_configuration(train):
    other = train(model="google/gemma-3-4b-it", method="lora")
    assert config_files(other.launch.command) is None
    assert other.launch.placeholder == "CONFIG"
    assert ("command-placeholders", "trainer") in codes(other.warnings)
    own = train(method="lora")
    assert own.launch.placeholder is None
    assert ("command-placeholders", "trainer") not in codes(own.warnings)


def test_files_of_a_checkpoint_and_of_a_tokenizer_are_named_as_the_model_has_them():
    small = tuned_model("Qwen/Qwen3-0.6B")
    settings = settings_of(small, "full", {})
    assert settings["checkpointer"]["checkpoint_files"] == ["model.safetensors"]
    assert settings["tokenizer"]["merges_file"] == "/tmp/Qwen3-0.6B/merges.txt"
    phi = settings_of(tuned_model("microsoft/phi-4"), "lora", {})
    assert phi["tokenizer"]["vocab_path"] == "/tmp/phi-4/vocab.json"
    assert tuned_model("meta-llama/Llama-2-70b-hf").rate("full") is None
