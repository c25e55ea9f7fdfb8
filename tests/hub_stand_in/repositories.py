"""Repositories as the Hub would hold them, built from a config."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fitgauge.engine.model.families import read_config
from hub_stand_in.formats import elements_by_dtype, gguf_header, safetensors_header, tensors_of

_Stored = tuple[str, tuple[int, ...]]


@dataclass
class Repository:
    """`files`: what is served; of weights only their beginning, `sizes` says how large they would
    be [bytes].

    `summary`: whether the Hub counts the safetensors files' parameters. `revisions`: the
    repository at other branches, tags, commits. `quantizes`: the model whose quantized sibling
    it says it is."""

    repo_id: str
    files: dict[str, bytes]
    sizes: dict[str, int] = field(default_factory=dict)
    summary: bool = True
    gguf_parameters: int = 0
    gated: bool = False
    private: bool = False
    revisions: dict[str, "Repository"] = field(default_factory=dict)
    sha: str = ""
    quantizes: str = ""
    downloads: int = 0

    def __post_init__(self) -> None:
        self.sha = self.sha or hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()

    def description(self) -> dict[str, Any]:
        """Return what /api/models answers (model_info)."""
        told: dict[str, Any] = {
            "_id": "0" * 24,
            "id": self.repo_id,
            "sha": self.sha,
            "private": self.private,
            "gated": "manual" if self.gated else False,
            "siblings": [{"rfilename": name} for name in self.files],
        }
        counts: dict[str, int] = {}
        for name, content in self.files.items():
            if name.endswith(".safetensors") and self.summary:
                for dtype, elements in elements_by_dtype(content).items():
                    counts[dtype] = counts.get(dtype, 0) + elements
        if counts:
            told["safetensors"] = {"parameters": counts, "total": sum(counts.values())}
        if self.gguf_parameters:
            told["gguf"] = {
                "total": self.gguf_parameters,
                "architecture": "llama",
                "context_length": 4096,
            }
        return told


def listed(repository: Repository) -> dict[str, Any]:
    """Return what the list of /api/models tells of it."""
    kinds = {name.rpartition(".")[2] for name in repository.files} & {"safetensors", "gguf"}
    told = {
        "downloads": repository.downloads,
        "tags": [*sorted(kinds), f"base_model:quantized:{repository.quantizes}"],
    }
    return {
        name: value
        for name, value in repository.description().items()
        if name in ("_id", "id", "gated", "safetensors")
    } | told


def llama_config(**changes: Any) -> dict[str, Any]:
    """Return a made-up small Llama: 1,987,840 parameters in two layers, head not tied."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": 256,
        "intermediate_size": 704, "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 1000, "max_position_embeddings": 4096, "tie_word_embeddings": False,
        **changes,
    }  # fmt: skip


_PACKED: Mapping[str, Callable[[_Stored], _Stored]] = {
    "fp8": lambda tensor: ("F8_E4M3", tensor[1]),
    "awq": lambda tensor: ("I32", (tensor[1][0], tensor[1][1] // 8)),
}
"""How quantizers store the weights of linear layers."""


def safetensors_repository(
    repo_id: str, config: Mapping[str, Any] | None = None, *, shards: int = 1, **options: Any
) -> Repository:
    """Return a transformers checkpoint of `shards` files with the real names and shapes of its
    tensors."""
    config = config if config is not None else llama_config()
    packed = _PACKED.get(
        (config.get("quantization_config") or {}).get("quant_method", ""), lambda tensor: tensor
    )
    tensors = [
        (name, packed(tensor) if "_proj." in name else tensor)
        for name, tensor in tensors_of(read_config(config)).items()
    ]
    files = {
        ".gitattributes": b"",
        "README.md": b"# model\n",
        "config.json": json.dumps(config).encode(),
    }
    sizes: dict[str, int] = {}
    where: dict[str, str] = {}
    for number in range(shards):
        if shards == 1:
            name = "model.safetensors"
        else:
            name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = dict(tensors[number::shards])
        files[name], sizes[name] = safetensors_header(part)
        where |= dict.fromkeys(part, name)
    if shards > 1:
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": where}
        files["model.safetensors.index.json"] = json.dumps(index).encode()
    return Repository(repo_id, files, sizes, **options)


def gguf_repository(
    repo_id: str,
    values: Mapping[str, Any],
    sizes: Mapping[str, int],
    *,
    files: Mapping[str, bytes] | None = None,
    **options: Any,
) -> Repository:
    """GGUF files of these names and sizes [bytes], all with the key-values `values`."""
    header = gguf_header(values)
    return Repository(
        repo_id,
        {".gitattributes": b"", **(files or {}), **dict.fromkeys(sizes, header)},
        dict(sizes),
        **options,
    )
