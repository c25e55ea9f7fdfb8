"""Tiny checkpoints, written as engines read them."""

import json
import struct
from math import prod

TINY = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "torch_dtype": "float32",
    "tie_word_embeddings": False,
}
_LAYER = {
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (128, 64),
    "mlp.up_proj": (128, 64),
    "mlp.down_proj": (64, 128),
    "input_layernorm": (64,),
    "post_attention_layernorm": (64,),
}
_STRING, _UINT32, _UINT64 = 8, 4, 10


def write_folder(folder, config=TINY):
    """Write config.json and model.safetensors of zeros; return how many numbers it holds."""
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": (256, 64), "model.norm.weight": (64,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (256, 64)
    for layer in range(2):
        for name, shape in _LAYER.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + bytes(end)
    (folder / "model.safetensors").write_bytes(content)
    return end // 4


def gguf_bytes(tensors):
    """Return the header of a GGUF file of the tiny model with a list of tensors."""
    values = {
        "llama.block_count": 2,
        "llama.context_length": 512,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 128,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.vocab_size": 256,
    }
    body = _text("general.architecture") + struct.pack("<I", _STRING) + _text("llama")
    for key, value in values.items():
        body += _text(key) + struct.pack("<II", _UINT32, value)
    for name, shape in tensors.items():
        body += _text(name) + struct.pack("<I", len(shape))
        body += struct.pack(f"<{len(shape)}QIQ", *shape, 0, 0)
    return b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values) + 1) + body


def _text(text):
    return struct.pack("<Q", len(text)) + text.encode()
