"""Writes saved_tensors.jsonl: what autograd saves of the second layer of small models, storage by
storage. Needs torch and transformers.

    cd tests/engine/training/data
    PYTHONPATH=../../../../tools/accuracy python make_saved_tensors.py > saved_tensors.jsonl

Two sequences of 64 tokens, fake tensors (nothing is computed), PyTorch's saved_tensors_hooks;
parameters are left out, and so is what the first layer saved already (rotary tables). Dropout is
CUDA's (tools/accuracy/measure_steps.py). `lora`: adapters of rank 16 on every linear layer but the
head, the base frozen."""

import contextlib
import json
import re
import sys
import warnings

import torch
import transformers
from measure_steps import cuda_dropout
from step_models import adapt
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    masking_utils,
)

LLAMA = {
    "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
MHA = {name: size for name, size in LLAMA.items() if name != "num_key_value_heads"}
GPT = {"vocab_size": 1000, "n_embd": 256, "n_layer": 2, "n_head": 8}
MOE = {**LLAMA, "num_experts": 16, "num_experts_per_tok": 4}
LATENT = {
    **MHA, "num_key_value_heads": 8, "q_lora_rank": 96, "kv_lora_rank": 64, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32, "n_routed_experts": 16, "num_experts_per_tok": 4, "n_shared_experts": 1,
    "moe_intermediate_size": 704,
    "first_k_dense_replace": 0,
}  # fmt: skip
NARROW = {"head_dim": 32}
PADDED = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SLIDING = {"sliding_window": 16, "layer_types": ["sliding_attention"] * 2}
ENCODER = {**MHA, "max_position_embeddings": 512}
BESIDE = {
    "vocab_size": 1000, "d_model": 256, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "encoder_ffn_dim": 704, "decoder_ffn_dim": 704,
    "decoder_start_token_id": 2,
    "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
}  # fmt: skip
FAMILIES = {
    "llama": LLAMA, "mistral": LLAMA, "qwen2": LLAMA, "qwen3": {**LLAMA, **NARROW},
    "phi3": {**LLAMA, **PADDED},
    "gemma": {**LLAMA, **NARROW}, "gemma2": {**LLAMA, **NARROW, "sliding_window": 512},
    "gemma3_text": {**LLAMA, **NARROW, **SLIDING}, "olmo": LLAMA, "olmo2": LLAMA,
    "olmo3": {**LLAMA, "sliding_window": 512},
    "starcoder2": {**LLAMA, "use_bias": True, "residual_dropout": 0.1, "embedding_dropout": 0.1,
        "attention_dropout": 0.1},
    "granite": LLAMA,
    "glm": {**LLAMA, **NARROW, **PADDED}, "glm4": {**LLAMA, **NARROW, **PADDED},
    "stablelm": LLAMA, "cohere": {**LLAMA, **PADDED},
    "cohere2": {**LLAMA, **PADDED, "sliding_window": 512}, "nemotron": LLAMA,
    "helium": {**LLAMA, **NARROW}, "smollm3": {**LLAMA, **PADDED}, "phi": MHA, "gpt_neox": MHA,
    "opt": {**MHA, "ffn_dim": 704, "word_embed_proj_dim": 256},
    "bloom": {"vocab_size": 1000, "hidden_size": 256, "n_layer": 2, "n_head": 8},
    "gpt2": GPT,
    "mixtral": {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {**MOE, **NARROW, "moe_intermediate_size": 96, "mlp_only_layers": []},
    "olmoe": MOE,
    "qwen2_moe": {**MOE, "moe_intermediate_size": 96, "shared_expert_intermediate_size": 192,
        "mlp_only_layers": []},
    "granitemoe": {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
    "arcee": LLAMA, "ernie4_5": LLAMA, "gpt_bigcode": GPT,
    "mpt": {"vocab_size": 1000, "d_model": 256, "n_layers": 2, "n_heads": 8},
    "gpt_neo": {
        "vocab_size": 1000, "hidden_size": 256, "num_layers": 2, "num_heads": 8,
        "attention_types": [[["global", "local"], 1]],
        "max_position_embeddings": 512,
    },
    "seed_oss": {**LLAMA, **NARROW, "residual_dropout": 0.1, "attention_dropout": 0.1},
    "gptj": {**GPT, "rotary_dim": 16, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "gpt_oss": {**LLAMA, **NARROW, "num_local_experts": 16, "num_experts_per_tok": 4,
        "sliding_window": 512},
    "phimoe": {**LLAMA, "num_local_experts": 8, "num_experts_per_tok": 2},
    "minimax_m2": {**LLAMA, **NARROW, "num_local_experts": 8, "num_experts_per_tok": 2},
    "ernie4_5_moe": {
        **LLAMA, "moe_num_experts": 16, "moe_k": 4, "moe_intermediate_size": 96,
        "moe_num_shared_experts": 1, "moe_layer_start_index": 0,
    },
    "deepseek_v2": {**LATENT, "topk_method": "greedy", "n_group": 1, "topk_group": 1},
    "deepseek_v3": {**LATENT, "n_group": 4, "topk_group": 2},
    "falcon": {**MHA, "ffn_hidden_size": 704, "new_decoder_architecture": True, "num_kv_heads": 2,
        "bias": False, "alibi": False},
    "modernbert": {**ENCODER, **PADDED, "sep_token_id": 2, "cls_token_id": 1,
        "global_attn_every_n_layers": 1},
    "bert": ENCODER, "roberta": ENCODER, "electra": {**ENCODER, "embedding_size": 128},
    "nomic_bert": ENCODER,
    "distilbert": {"vocab_size": 1000, "dim": 256, "hidden_dim": 704, "n_layers": 2, "n_heads": 8},
    "bart": BESIDE, "m2m_100": BESIDE,
    "t5": {"vocab_size": 1000, "d_model": 256, "d_ff": 704, "d_kv": 32, "num_layers": 2,
        "num_heads": 8, "decoder_start_token_id": 0},
}  # fmt: skip
SETTINGS = [
    (attention, regime, method)
    for attention in ("sdpa", "eager")
    for regime in ("bf16", "mixed_bf16")
    for method in ("full", "lora")
]  # fmt: skip


_SECOND = re.compile(r"^(?!(.*\.)?encoder\.(layers|block)\.)\D*\.1\.")
"""A module of the second layer; of an encoder-decoder the decoder's."""


def _kind(family: str) -> type:
    if family in ("bart", "t5", "m2m_100"):
        return AutoModelForSeq2SeqLM
    if family in ("bert", "roberta", "electra", "nomic_bert", "distilbert", "modernbert"):
        return AutoModelForMaskedLM
    return AutoModelForCausalLM


def saved(
    family: str, config: dict[str, object], attention: str, regime: str, method: str
) -> list[int]:
    """Return the bytes of every storage that the second layer saves, largest first."""
    settings = AutoConfig.for_model(family, **config)
    settings._attn_implementation, settings.use_cache = attention, False
    masking_utils.find_packed_sequence_indices = lambda position_ids: (
        None
    )  # fake tensors hold no values to look for
    sizes: list[int] = []
    if family == "modernbert":
        fake = contextlib.nullcontext()
    else:
        fake = FakeTensorMode(allow_non_fake_inputs=True)  # it asks for values
    with fake, cuda_dropout():
        model = _kind(family).from_config(
            settings, dtype=torch.bfloat16 if regime == "bf16" else torch.float32
        )
        if method == "lora":
            adapt(model, 16)
        model.train()
        known = {
            tensor.untyped_storage()._cdata: tensor
            for tensor in (*model.parameters(), *model.buffers())
        }
        inside = [""]
        for name, module in model.named_modules():
            module.register_forward_pre_hook(lambda m, given, name=name: inside.append(name))
            module.register_forward_hook(lambda m, given, result: (inside.pop(), None)[1])

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in known and _SECOND.search(f"{inside[-1]}."):
                sizes.append(storage.nbytes())
            known[storage._cdata] = tensor
            return tensor

        ids = torch.randint(0, settings.vocab_size, (2, 64))
        if regime == "mixed_bf16":
            autocast = torch.autocast("cpu", dtype=torch.bfloat16)
        else:
            autocast = contextlib.nullcontext()
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
            except (
                RuntimeError,
                ValueError,
            ) as error:  # no SDPA for this family, no grouped product in fp32
                print(family, attention, regime, str(error)[:90], file=sys.stderr)
                continue
            row = {
                "family": family,
                "config": {"model_type": family, **config},
                "attention": attention,
                "precision": regime,
            }
            print(json.dumps({**row, "method": method, "saved": sizes, "source": versions}))
