"""Counts the parameters of every stage of a Megatron layout: rows of kind `megatron` of
training_parallel.jsonl, in and out.

    python tools/accuracy/measure_megatron.py < settings.jsonl >> training_parallel.jsonl

megatron-core's own GPTModel (local layers, no GPU) for a bundled model's configuration, under a
fake process group, as the first tensor-parallel rank of every pipeline stage builds it. The
vocabulary is padded as megatron/training/arguments.py does, outside the core. Settings: model,
layers, tensor, pipeline, expert (parallel degrees), expert_tensor, ranks; first, last: layers of
those stages, where all are not alike. `parameters`: numbers by stage."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer import TransformerConfig
from step_models import snapshot
from torch.testing._internal.distributed.fake_pg import FakeStore

VOCABULARY_MULTIPLE = 128
torch.Tensor.cuda = lambda tensor, *args, **kwargs: (
    tensor
)  # what is exchanged is put on a GPU first; there is none


def transformer(config: Any, row: dict[str, Any]) -> TransformerConfig:
    """Return the configuration in Megatron's words."""
    routed = getattr(config, "num_experts", None)
    mixture = {}
    if routed:
        mixture = {
            "num_moe_experts": routed, "moe_ffn_hidden_size": config.moe_intermediate_size,
            "moe_router_topk": config.num_experts_per_tok, "moe_token_dispatcher_type": "allgather",
        }  # fmt: skip
    return TransformerConfig(
        num_layers=row["layers"],
        hidden_size=config.hidden_size,
        ffn_hidden_size=config.intermediate_size,
        num_attention_heads=config.num_attention_heads,
        num_query_groups=config.num_key_value_heads,
        kv_channels=getattr(config, "head_dim", None)
        or config.hidden_size // config.num_attention_heads,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        normalization="RMSNorm",
        add_bias_linear=False,
        add_qkv_bias=config.model_type == "qwen2",
        qk_layernorm=config.model_type.startswith("qwen3"),
        tensor_model_parallel_size=row["tensor"],
        pipeline_model_parallel_size=row["pipeline"],
        num_layers_in_first_pipeline_stage=row.get("first"),
        num_layers_in_last_pipeline_stage=row.get("last"),
        expert_model_parallel_size=row["expert"],
        expert_tensor_parallel_size=row["expert_tensor"],
        pipeline_dtype=torch.bfloat16,
        params_dtype=torch.bfloat16,
        bf16=True,
        use_cpu_initialization=True,
        perform_initialization=False,
        **mixture,
    )


def stage(row: dict[str, Any], number: int) -> int:
    """Return the parameters of a stage's first rank. Ranks of a stage are next to each other."""
    dist.init_process_group(
        "fake",
        rank=number * row["ranks"] // row["pipeline"],
        world_size=row["ranks"],
        store=FakeStore(),
    )
    try:
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=row["tensor"],
            pipeline_model_parallel_size=row["pipeline"],
            expert_model_parallel_size=row["expert"],
            expert_tensor_parallel_size=row["expert_tensor"],
            create_gloo_process_groups=False,
        )
        source = snapshot(row["model"], row["layers"])
        config, multiple = transformer(source, row), VOCABULARY_MULTIPLE * row["tensor"]
        first, last = number == 0, number == row["pipeline"] - 1
        spec = get_gpt_layer_local_spec(
            num_experts=config.num_moe_experts,
            qk_layernorm=config.qk_layernorm,
            normalization="RMSNorm",
        )
        model = GPTModel(
            config, spec, -(-source.vocab_size // multiple) * multiple, row["layers"],
            pre_process=first, post_process=last,
            position_embedding_type="rope",
            share_embeddings_and_output_weights=source.tie_word_embeddings,
        )  # fmt: skip
        return sum(parameter.numel() for parameter in model.parameters())
    finally:
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


def measured(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield every line of the kind with its parameters and versions."""
    versions = {"megatron": version("megatron-core"), "torch": torch.__version__}
    for line in lines:
        row = json.loads(line)
        if row["kind"] == "megatron":
            yield row | {
                "versions": versions,
                "parameters": [stage(row, number) for number in range(row["pipeline"])],
            }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for row in measured(sys.stdin):
        print(json.dumps(row), flush=True)
