"""torchtune's configuration of a run as one YAML file, for the models that it has builders for.
Source: torchtune 0.7, recipes/configs and the keys that recipes/*.py read."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from fitgauge.catalog import tables
from fitgauge.services.common.shell import joined

Settings = dict[str, Any]

_COMPONENTS = ("optimizer", "loss")
"""Settings whose value is the name of a component: torchtune.config._utils,
_merge_yaml_and_cli_args."""


class TunedModel(NamedTuple):
    """A model that torchtune has a builder for."""

    repository: str
    """Its Hub ID as torchtune's own configurations download it."""
    builder: str
    """Builder, under torchtune.models."""
    tokenizer: str
    """Tokenizer, under torchtune.models."""
    tokenizer_files: tuple[str, ...]
    """Files of the tokenizer, in the checkpoint's folder."""
    first_file: str
    """The first file of the checkpoint: model-00001-of-00004.safetensors."""
    model_type: str
    """Layout of the checkpoint."""
    ignored: str
    """Files that are not downloaded; empty for none."""
    rates: Mapping[str, str]
    """Learning rates by recipe: lora_single_device."""

    @property
    def folder(self) -> str:
        """Where the checkpoint is downloaded to."""
        return f"/tmp/{self.repository.partition('/')[2]}"

    def download(self) -> str:
        """Return the command that downloads the checkpoint."""
        ignored = ["--ignore-patterns", self.ignored] if self.ignored else []
        return joined(["tune", "download", self.repository, "--output-dir", self.folder, *ignored])

    def rate(self, kind: str) -> str | None:
        """Return the learning rate of a recipe: that of its configuration, else of the one on
        another number of GPUs; None where it has neither."""
        kinds = (kind, kind.removesuffix("_single_device"), f"{kind}_single_device")
        return next((self.rates[name] for name in kinds if name in self.rates), None)


def tuned_model(model_id: str) -> TunedModel | None:
    """Return the model of a Hub ID, which Meta renamed some of; None for any other."""
    return _models().get(_key(model_id))


def settings_of(model: TunedModel, kind: str, overrides: Mapping[str, Any]) -> Settings:
    """Return a whole configuration.

    kind: the recipe, such as lora_single_device; overrides: settings by their dotted names."""
    adapts, prefers = "lora" in kind, "dpo" in kind
    name, _, builder = model.builder.rpartition(".")
    data = "stack_exchange_paired_dataset" if prefers else "alpaca_cleaned_dataset"
    built = f"torchtune.models.{name}.{'lora_' * adapts}{builder}"
    settings: Settings = {
        "output_dir": f"/tmp/torchtune/{builder}/{kind}",
        "model": {"_component_": built},
        "tokenizer": _tokenizer(model),
        "checkpointer": {
            "_component_": "torchtune.training.FullModelHFCheckpointer",
            "checkpoint_dir": model.folder,
            "checkpoint_files": _checkpoint_files(model.first_file),
            "recipe_checkpoint": None,
            "output_dir": "${output_dir}",
            "model_type": model.model_type,
        },
        "resume_from_checkpoint": False,
        **({"save_adapter_weights_only": False} if adapts else {}),
        "dataset": {"_component_": f"torchtune.datasets.{data}"},
        "seed": None,
        "shuffle": True,
        "optimizer": {"_component_": "torch.optim.AdamW", "lr": float(model.rate(kind) or 0)},
        "loss": {"_component_": "torchtune.rlhf.loss.DPOLoss"} if prefers else {},
        "epochs": 1,
        "max_steps_per_epoch": None,
        "clip_grad_norm": None,
        "device": "cuda",
        "metric_logger": {
            "_component_": "torchtune.training.metric_logging.DiskLogger",
            "log_dir": "${output_dir}/logs",
        },
        "log_every_n_steps": 1,
        "log_peak_memory_stats": True,
        "log_level": "INFO",
    }
    if adapts:
        settings["lr_scheduler"] = {
            "_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",
            "num_warmup_steps": 100,
        }
    for dotted, value in overrides.items():
        *path, last = (
            f"{dotted}._component_".split(".") if dotted in _COMPONENTS else (dotted.split("."))
        )
        inner = settings
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return settings


def _tokenizer(model: TunedModel) -> Settings:
    """Return the tokenizer with its files, whose names differ."""
    first, *merges = [f"{model.folder}/{name}" for name in model.tokenizer_files]
    phi = model.model_type == "PHI4"
    return {
        "_component_": f"torchtune.models.{model.tokenizer}",
        ("vocab_path" if phi else "path"): first,
        **{("merges_path" if phi else "merges_file"): name for name in merges},
    }


def _checkpoint_files(first: str) -> Settings | list[str]:
    """Return the files of a checkpoint by their first one."""
    if "-00001-of-" not in first:
        return [first]
    stem, _, rest = first.partition("-00001-of-")
    count, _, ending = rest.partition(".")
    return {"filename_format": f"{stem}-{{}}-of-{{}}.{ending}", "max_filename": count}


@cache
def _models() -> Mapping[str, TunedModel]:
    return {_key(row[0]): _model(*row) for row in tables.rows("torchtune")}


def _model(
    repository: str,
    builder: str,
    tokenizer: str,
    tokenizer_files: str,
    first_file: str,
    model_type: str,
    ignored: str,
    rates: str,
) -> TunedModel:
    """Return a row of the table."""
    return TunedModel(
        repository,
        builder,
        tokenizer,
        tuple(tokenizer_files.split(",")),
        first_file,
        model_type,
        ignored,
        dict(rate.split("=") for rate in rates.split(",")),
    )


def _key(model_id: str) -> str:
    return model_id.lower().replace("/meta-llama-3.1-", "/llama-3.1-")
