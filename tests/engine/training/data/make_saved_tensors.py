"""Writes saved_tensors.jsonl: what autograd saves of the second layer of small models, storage by storage. Needs torch and transformers.

    python make_saved_tensors.py > saved_tensors.jsonl

Two sequences of 64 tokens, fake tensors (nothing is computed), PyTorch's saved_tensors_hooks; parameters are left out, and so is what the
first layer saved already (rotary tables). `lora`: adapters of rank 16 on every linear layer but the head, the base frozen.
"""

import contextlib
import json
import sys
import warnings

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig, AutoModelForCausalLM, masking_utils

LLAMA = {
    "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
MHA = {name: size for name, size in LLAMA.items() if name != "num_key_value_heads"}
GPT = {"vocab_size": 1000, "n_embd": 256, "n_layer": 2, "n_head": 8}
MOE = {**LLAMA, "num_experts": 16, "num_experts_per_tok": 4}
NARROW = {"head_dim": 32}
PADDED = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SLIDING = {"sliding_window": 16, "layer_types": ["sliding_attention"] * 2}
FAMILIES = {
    "llama": LLAMA, "mistral": LLAMA, "qwen2": LLAMA, "qwen3": {**LLAMA, **NARROW}, "phi3": {**LLAMA, **PADDED},
    "gemma": {**LLAMA, **NARROW}, "gemma2": {**LLAMA, **NARROW, "sliding_window": 512},
    "gemma3_text": {**LLAMA, **NARROW, **SLIDING}, "olmo": LLAMA, "olmo2": LLAMA, "olmo3": {**LLAMA, "sliding_window": 512},
    "starcoder2": {**LLAMA, "use_bias": True}, "granite": LLAMA,
    "glm": {**LLAMA, **NARROW, **PADDED}, "glm4": {**LLAMA, **NARROW, **PADDED},
    "stablelm": LLAMA, "cohere": {**LLAMA, **PADDED}, "cohere2": {**LLAMA, **PADDED, "sliding_window": 512}, "nemotron": LLAMA,
    "helium": {**LLAMA, **NARROW}, "smollm3": {**LLAMA, **PADDED}, "phi": MHA, "gpt_neox": MHA,
    "opt": {**MHA, "ffn_dim": 704, "word_embed_proj_dim": 256},
    "bloom": {"vocab_size": 1000, "hidden_size": 256, "n_layer": 2, "n_head": 8},
    "gpt2": GPT,
    "mixtral": {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {**MOE, **NARROW, "moe_intermediate_size": 96, "mlp_only_layers": []}, "olmoe": MOE,
    "qwen2_moe": {**MOE, "moe_intermediate_size": 96, "shared_expert_intermediate_size": 192, "mlp_only_layers": []},
    "granitemoe": {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip
SETTINGS = [
    (attention, regime, method)
    for attention in ("sdpa", "eager")
    for regime in ("bf16", "mixed_bf16")
    for method in ("full", "lora")
]  # fmt: skip


class Adapted(torch.nn.Module):
    """base(x) + B(A(x)) x 2, the base frozen: PEFT's LoRA layer without dropout."""

    def __init__(self, base: torch.nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.a = torch.nn.Linear(base.in_features, rank, bias=False, dtype=base.weight.dtype)
        self.b = torch.nn.Linear(rank, base.out_features, bias=False, dtype=base.weight.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.b(self.a(x.to(self.a.weight.dtype))) * 2.0


def adapt(model: torch.nn.Module, rank: int) -> None:
    """Freezes the model and puts an adapter beside every linear layer but the head."""
    head = model.get_output_embeddings()
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        if type(module) is torch.nn.Linear and module is not head:
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, Adapted(module, rank))


def saved(family: str, config: dict[str, object], attention: str, regime: str, method: str) -> list[int]:
    """Bytes of every storage that the second layer saves, largest first."""
    settings = AutoConfig.for_model(family, **config)
    settings._attn_implementation, settings.use_cache = attention, False
    masking_utils.find_packed_sequence_indices = lambda position_ids: None  # fake tensors hold no values to look for
    sizes: list[int] = []
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = AutoModelForCausalLM.from_config(settings, dtype=torch.bfloat16 if regime == "bf16" else torch.float32)
        if method == "lora":
            adapt(model, 16)
        model.train()
        known = {tensor.untyped_storage()._cdata: tensor for tensor in (*model.parameters(), *model.buffers())}
        inside = [""]
        for name, module in model.named_modules():
            module.register_forward_pre_hook(lambda m, given, name=name: inside.append(name))
            module.register_forward_hook(lambda m, given, result: (inside.pop(), None)[1])

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in known and ".1." in f"{inside[-1]}.":
                sizes.append(storage.nbytes())
            known[storage._cdata] = tensor
            return tensor

        ids = torch.randint(0, settings.vocab_size, (2, 64))
        autocast = torch.autocast("cpu", dtype=torch.bfloat16) if regime == "mixed_bf16" else contextlib.nullcontext()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), autocast:
            model(input_ids=ids, labels=ids)
    return sorted(sizes, reverse=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    for family, config in FAMILIES.items():
        for attention, regime, method in SETTINGS:
            try:
                sizes = saved(family, config, attention, regime, method)
            except (RuntimeError, ValueError) as error:  # no SDPA for this family, no grouped product in fp32
                print(family, attention, regime, str(error)[:90], file=sys.stderr)
                continue
            row = {"family": family, "config": {"model_type": family, **config}, "attention": attention, "precision": regime}
            print(json.dumps({**row, "method": method, "saved": sizes, "source": versions}))
