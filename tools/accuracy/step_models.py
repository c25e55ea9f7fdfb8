"""The models whose steps are measured: built from the snapshot's configs, on fake tensors."""

import importlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
import unsloth_layers
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

MODELS = Path(__file__).parents[2] / "service/fitgauge/catalog/data/models.jsonl"


class Adapted(torch.nn.Module):
    """base(x) + B(A(dropout(x))) x 2, the base frozen: PEFT's LoRA layer."""

    def __init__(
        self, base: torch.nn.Linear, rank: int, dtype: torch.dtype | None, rate: float
    ) -> None:
        super().__init__()
        self.base, self.rate = base, rate
        self.a = torch.nn.Linear(
            base.in_features, rank, bias=False, dtype=dtype or base.weight.dtype
        )
        self.b = torch.nn.Linear(
            rank, base.out_features, bias=False, dtype=dtype or base.weight.dtype
        )
        self.weight = base.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = torch.nn.functional.dropout(x.to(self.a.weight.dtype), self.rate, self.training)
        return self.base(x) + self.b(self.a(read)) * 2.0


TOWER = ("visual", "vision_tower", "vision_model")
PROJECTOR = (
    "merger",
    "multi_modal_projector",
    "connector",
    "mm_projector",
    "embed_vision",
    "vision_adapter",
    "downsample",
)


def adapt(
    model: Any,
    rank: int,
    *,
    tower: bool = True,
    dtype: torch.dtype | None = None,
    rate: float = 0.0,
) -> None:
    """Freezes the model and puts an adapter beside every linear layer but the head; without
    `tower` not where images are read. `dtype`: of adapters, None for that of what they are
    beside."""
    head = model.get_output_embeddings()
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        seeing = any(part in name for part in (*TOWER, *PROJECTOR))
        if type(module) is torch.nn.Linear and module is not head and (tower or not seeing):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, Adapted(module, rank, dtype, rate))


def snapshot(name: str, layers: int | None, own: dict[str, Any] | None = None) -> Any:
    """Return the configuration of a bundled model, of `layers` layers where that is given; or a
    row's own."""
    if own:
        row = {"config": own}
    else:
        row = next(row for line in MODELS.open() if (row := json.loads(line))["id"] == name)
    config = {
        key: value
        for key, value in row["config"].items()
        if key not in ("auto_map", "quantization_config")
    }
    if layers:
        config |= {key: layers for key in ("num_hidden_layers", "n_layer") if key in config}
    settings = transformers.AutoConfig.for_model(**config)
    settings.own_head = config.get("tie_word_embeddings") is False
    return settings


def build(row: dict[str, Any]) -> Any:
    """Return the model of a row, in training, with its adapters and checkpoints."""
    config = snapshot(row["model"], row.get("layers"), row.get("config"))
    config._attn_implementation, config.use_cache = row["attn"], False
    config.get_text_config().use_cache = False
    if "experts" in row:
        config._experts_implementation = row["experts"]
    config.encoder_layerdrop = config.decoder_layerdrop = 0.0
    if config.is_encoder_decoder:
        config.decoder_start_token_id, config.pad_token_id = 0, config.pad_token_id or 0
    dtype = torch.float32 if row["regime"] in ("amp", "amp16", "fp32") else torch.bfloat16
    model = _maker(config)(config, dtype=dtype)
    if config.is_encoder_decoder and config.own_head:
        # of a checkpoint with a head of its own, which configurations may not say (T5 v1.1)
        head = model.get_output_embeddings()
        head.weight = torch.nn.Parameter(torch.empty_like(head.weight))
    if row["method"] == "lora":
        wide = torch.float32 if row["regime"] == "half_base" else None
        rate = row.get("lora_dropout", 0.0)
        adapt(model, row["rank"], tower=row.get("train_vision_tower", True), dtype=wide, rate=rate)
    elif not row.get("train_vision_tower", True):
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(
                any(part in name for part in PROJECTOR) or not any(part in name for part in TOWER)
            )
    if row.get("kernels") == "unsloth":
        unsloth_layers.patch(model)
    model.train()
    if row["checkpointing"] != "none":
        kwargs: dict[str, Any] = {"use_reentrant": False}
        if row["checkpointing"] == "selective":
            kwargs["context_fn"] = partial(create_selective_checkpoint_contexts, _keeps_products)
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kwargs)
        if row["method"] == "lora":
            model.enable_input_require_grads()
    if row["optimizer"].endswith("8bit"):
        keep_embeddings(model)
    if "routing" in row:
        route(model, row["routing"])
    return model


def route(model: Any, routing: str) -> None:
    """Let routers send every token to the same experts (`one`), or as it happens (`even`)."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("mlp.gate.weight"):
                weight.zero_() if routing == "one" else weight.normal_()


def keep_embeddings(model: Any) -> None:
    """Ask bitsandbytes for states of embeddings in fp32, as transformers' Trainer does
    (trainer.py, create_optimizer)."""
    manager = importlib.import_module("bitsandbytes").optim.GlobalOptimManager.get_instance()
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            manager.register_module_override(module, "weight", {"optim_bits": 32})


def _maker(config: Any) -> Any:
    """Return what makes the model: the class its config names, else the language model of its
    type, else the model without a head."""
    named = getattr(transformers, (config.architectures or ["none"])[0], None)
    if named is not None:
        return named._from_config
    causal = type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    return (transformers.AutoModelForCausalLM if causal else transformers.AutoModel).from_config


PRODUCTS = {
    torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default,
    torch.ops.aten.baddbmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
}  # fmt: skip
"""What selective checkpointing keeps. Source: torchtitan, distributed/activation_checkpoint.py,
whose list names CUDA's kernels."""


def _keeps_products(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return (
        CheckpointPolicy.MUST_SAVE if operation in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE
    )
