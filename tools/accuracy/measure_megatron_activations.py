"""Measures what one rank of Megatron keeps of a micro-batch: rows of kind `megatron_activations` of
training_parallel.jsonl, in and out.

    python tools/accuracy/measure_megatron_activations.py \\
        < settings.jsonl >> training_parallel.jsonl

megatron-core's own GPTModel, without a GPU: one forward and one backward pass of small real tensors
on the first rank of a fake process group, with stand-ins for Transformer Engine's kernels
(megatron_stand_ins.py). Every storage is counted from the operation that makes it until it is freed
or resized to nothing; weights and main_grad are left out. Every other rank is taken to route its
tokens as this one does.

Settings: config (transformers' words), layers, seq, batch, attn (flash | eager: core attention
of megatron-core itself), tensor, sequence_parallel, expert, expert_tensor (degrees), ranks,
recompute (granularity, then modules or method and layers), dispatcher, permute_fusion, load
(tokens that this rank's experts get, over an even share). `bytes`: of a layer in the middle
between the passes, the highest moment of both passes; `saved`: what autograd keeps of that
layer, once a storage: module, shape, format, bytes of the storage."""

import json
import logging
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from megatron_stand_ins import (
    Duplicated,
    FlashAttention,
    GroupedLinear,
    Norm,
    Tracker,
    with_kernels,
    without_gpu,
)

without_gpu()

from megatron.core import parallel_state  # noqa: E402
from megatron.core.models import backends  # noqa: E402
from megatron.core.models.gpt import GPTModel, gpt_layer_specs  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from megatron.core.transformer.mlp import MLPSubmodules  # noqa: E402
from megatron.core.transformer.moe import router  # noqa: E402
from megatron.core.transformer.moe.experts import TEGroupedMLP  # noqa: E402
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules  # noqa: E402
from megatron.core.transformer.transformer_config import MLATransformerConfig  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

with_kernels()

MEASURED = 1
"""The layer whose bytes and tensors are told."""
VOCABULARY_MULTIPLE = 128
Row = dict[str, Any]


class Kernels(backends.LocalSpecProvider):
    """megatron-core's modules, with stand-ins for Transformer Engine's norms, attention and
    grouped products."""

    flash = True

    def layer_norm(self, rms_norm: bool = False, for_qk: bool = False) -> type:
        return Norm

    def core_attention(self) -> type:
        return FlashAttention if self.flash else super().core_attention()

    def grouped_mlp_modules(self, *args: Any) -> tuple[type, MLPSubmodules]:
        return TEGroupedMLP, MLPSubmodules(linear_fc1=GroupedLinear, linear_fc2=GroupedLinear)


def recomputation(words: list[Any]) -> Row:
    """Return the row's settings for ["selective", modules...] or ["full", method, layers] in
    Megatron's words."""
    if not words:
        return {}
    granularity, *rest = words
    if granularity == "selective":
        chosen = {"recompute_modules": rest}
    else:
        chosen = {"recompute_method": rest[0], "recompute_num_layers": rest[1]}
    return {"recompute_granularity": granularity, **chosen}


def attention(config: Any) -> Row:
    """Return heads, or latents."""
    if not hasattr(config, "kv_lora_rank"):
        return {
            "num_query_groups": config.num_key_value_heads, "apply_rope_fusion": True,
            "kv_channels": getattr(config, "head_dim",
                config.hidden_size // config.num_attention_heads),
            "qk_layernorm": config.model_type.startswith("qwen3"),
            "add_qkv_bias": config.model_type == "qwen2",
        }  # fmt: skip
    return {
        "q_lora_rank": config.q_lora_rank, "kv_lora_rank": config.kv_lora_rank,
        "qk_head_dim": config.qk_nope_head_dim,
        "qk_pos_emb_head_dim": config.qk_rope_head_dim, "v_head_dim": config.v_head_dim,
        "rope_type": "rope", "apply_rope_fusion": False,
        "multi_latent_attention": True, "qk_layernorm": True,
    }  # fmt: skip


def mixture(config: Any, row: Row) -> Row:
    """Experts, and the dense layers before them."""
    names = ("num_experts", "n_routed_experts", "num_local_experts")
    experts = next((getattr(config, name) for name in names if hasattr(config, name)), None)
    if experts is None:
        return {}
    inner = getattr(config, "moe_intermediate_size", config.intermediate_size)
    dense = getattr(config, "first_k_dense_replace", 0)
    shared = getattr(config, "n_shared_experts", 0)
    return {
        "num_moe_experts": experts, "moe_ffn_hidden_size": inner,
        "moe_router_topk": config.num_experts_per_tok,
        "moe_layer_freq": [0] * dense + [1] * (row["layers"] - dense),
        "moe_shared_expert_intermediate_size": shared * inner or None,
        "moe_token_dispatcher_type": row["dispatcher"], "moe_grouped_gemm": True,
        "moe_router_dtype": "fp32",
        "moe_router_force_load_balancing": True,
    }  # fmt: skip


def transformer(config: Any, row: Row) -> TransformerConfig:
    """Return the configuration in Megatron's words."""
    config_type = MLATransformerConfig if hasattr(config, "kv_lora_rank") else TransformerConfig
    return config_type(
        num_layers=row["layers"], hidden_size=config.hidden_size,
        ffn_hidden_size=config.intermediate_size,
        num_attention_heads=config.num_attention_heads, gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        normalization="RMSNorm", add_bias_linear=False, hidden_dropout=0.0, attention_dropout=0.0,
        bias_activation_fusion=True,
        bias_dropout_fusion=True, masked_softmax_fusion=False, gradient_accumulation_fusion=True,
        tensor_model_parallel_size=row["tensor"],
        sequence_parallel=row["sequence_parallel"], expert_model_parallel_size=row["expert"],
        expert_tensor_parallel_size=row["expert_tensor"], params_dtype=torch.bfloat16, bf16=True,
        use_cpu_initialization=True,
        perform_initialization=False, **attention(config), **mixture(config, row),
        **recomputation(row["recompute"]),
    )  # fmt: skip


class Scores(torch.autograd.Function):
    """Scores in the place of the router's, as --moe-router-force-load-balancing puts random ones
    there (moe_utils.py, RandomSTE)."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, load: float, ranks: int, chosen: int
    ) -> torch.Tensor:
        scores = torch.zeros(logits.numel() // logits.shape[-1], logits.shape[-1])
        tokens, experts = scores.shape
        here, picks = experts // ranks, round(load * tokens * chosen / ranks)
        mine = others = 0
        for token in range(tokens):
            count = (token + 1) * picks // tokens - token * picks // tokens
            scores[token, [(mine + number) % here for number in range(count)]] = 1
            scores[
                token,
                [here + (others + number) % (experts - here) for number in range(chosen - count)],
            ] = 1
            mine, others = mine + count, others + chosen - count
        return scores.view(logits.shape).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, None, None, None


def model_of(source: Any, config: TransformerConfig, row: Row) -> GPTModel:
    """Return the rank's model, in training."""
    Kernels.flash = row["attn"] == "flash"
    gpt_layer_specs.LocalSpecProvider = Kernels
    if config.num_moe_experts:
        router.apply_random_logits = lambda logits: Scores.apply(
            logits, row["load"], row["expert"], config.moe_router_topk
        )
        layers = gpt_layer_specs.get_gpt_decoder_block_spec(
            config, use_transformer_engine=False, normalization="RMSNorm"
        ).layer_specs
    else:
        layers = [
            gpt_layer_specs.get_gpt_layer_local_spec(
                qk_layernorm=config.qk_layernorm, normalization="RMSNorm"
            )
        ] * row["layers"]
    for layer in layers if config.multi_latent_attention else ():
        parts = layer.submodules.self_attention.submodules
        parts.linear_q_down_proj = parts.linear_kv_down_proj = Duplicated
    multiple = VOCABULARY_MULTIPLE * row["tensor"]
    model = GPTModel(
        config, TransformerBlockSubmodules(layer_specs=layers, layer_norm=Norm),
        -(-source.vocab_size // multiple) * multiple, row["seq"],
        position_embedding_type="rope",
        share_embeddings_and_output_weights=source.tie_word_embeddings,
    )  # fmt: skip
    config.moe_permute_fusion = row.get(
        "permute_fusion", False
    )  # asks for a device when the model is built
    for parameter in model.parameters():
        parameter.main_grad = torch.empty(parameter.shape)
        parameter.register_post_accumulate_grad_hook(lambda done: setattr(done, "grad", None))
    return model.train()


class SavedStorages:
    """What autograd saves, by the module at work, each storage once."""

    def __init__(self, model: GPTModel, inputs: Iterable[torch.Tensor]) -> None:
        self.tensors: list[list[Any]] = []
        self._seen = {tensor.untyped_storage()._cdata for tensor in inputs}
        self._path = [""]
        for name, module in model.named_modules():
            module.register_forward_pre_hook(lambda *_, name=name: self._path.append(name))
            module.register_forward_hook(lambda *_: self._leave())

    def _leave(self) -> None:
        self._path.pop()

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note a tensor that is saved."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen.add(storage._cdata)
            self.tensors.append(
                [
                    self._path[-1],
                    list(tensor.shape),
                    str(tensor.dtype).removeprefix("torch."),
                    storage.nbytes(),
                ]
            )
        return tensor


def passes(model: GPTModel, row: Row) -> Row:
    """Return both passes of one micro-batch."""
    ids = torch.zeros(row["batch"], row["seq"], dtype=torch.long)
    positions = torch.arange(row["seq"]).expand(row["batch"], -1)
    if row["attn"] == "flash":
        mask = None
    else:
        mask = torch.ones(1, 1, row["seq"], row["seq"], dtype=torch.bool).triu(1)
    inputs = [
        tensor for parameter in model.parameters() for tensor in (parameter, parameter.main_grad)
    ]
    inputs += [*model.buffers(), ids, positions, *([] if mask is None else [mask])]
    tracker, hooks, ends = Tracker(inputs), SavedStorages(model, inputs), []
    for layer in model.decoder.layers:
        layer.register_forward_hook(lambda *_: ends.append(tracker.live))
    Tracker.at_work = tracker
    try:
        with tracker, torch.autograd.graph.saved_tensors_hooks(hooks.pack, lambda tensor: tensor):
            loss = model(ids, positions, mask, labels=ids)
            forward, tracker.peak = tracker.peak, 0
            between = ends[MEASURED] - ends[MEASURED - 1]
            saved = [
                one for one in hooks.tensors if one[0].startswith(f"decoder.layers.{MEASURED}.")
            ]
            loss.backward(torch.ones_like(loss))
    finally:
        Tracker.at_work = None
    sizes = {"layer": between, "forward": forward, "backward": tracker.peak}
    return {"bytes": sizes, "saved": [[name.split(".", 3)[3], *rest] for name, *rest in saved]}


def measure(row: Row) -> Row:
    """Return a row with what was measured."""
    dist.init_process_group("fake", rank=0, world_size=row["ranks"], store=FakeStore())
    try:
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=row["tensor"], expert_model_parallel_size=row["expert"],
            expert_tensor_parallel_size=row["expert_tensor"], create_gloo_process_groups=False,
        )  # fmt: skip
        source = SimpleNamespace(**row["config"])
        versions = {"megatron": version("megatron-core"), "torch": torch.__version__}
        return (
            row
            | {"versions": versions}
            | passes(model_of(source, transformer(source, row), row), row)
        )
    finally:
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


def measured(lines: Iterable[str]) -> Iterator[Row]:
    """Return every line of the kind, measured."""
    rows = (json.loads(line) for line in lines)
    return (measure(row) for row in rows if row["kind"] == "megatron_activations")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for row in measured(sys.stdin):
        print(json.dumps(row), flush=True)
