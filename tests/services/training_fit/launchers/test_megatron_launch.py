"""Launches under Megatron and ms-swift: the shapes, degrees and formats they carry."""

import pytest

from command_flags import flags

ASKED = {"model": "Qwen/Qwen3-8B", "gpu": "B300", "method": "full"}


def test_megatron_is_told_the_models_shapes_and_every_degree(command):
    asked = {
        "framework": "megatron",
        "gpu_count": 16,
        "tensor_parallel": 4,
        "pipeline_parallel": 2,
        "micro_batches": 4,
        "sequence_parallel": True,
    }
    line = command(**asked, precision="fp8", activation_checkpointing="full")
    found = flags(line)
    allocator = "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert line.startswith(
        f"{allocator} torchrun --nproc-per-node 8 --nnodes 2 --node-rank $NODE_RANK"
    )
    said = {
        "--num-layers": "36", "--hidden-size": "4096", "--num-query-groups": "8",
        "--tensor-model-parallel-size": "4",
        "--pipeline-model-parallel-size": "2", "--global-batch-size": "8",
        "--recompute-granularity": "full", "--fp8-format": "hybrid",
    }  # fmt: skip
    assert {name: found.get(name) for name in said} == said
    assert {
        "--sequence-parallel",
        "--use-distributed-optimizer",
        "--bf16",
        "--untie-embeddings-and-output-weights",
    } <= set(found)


@pytest.mark.parametrize(
    ("model", "there", "absent"),
    [
        (
            "meta-llama/Llama-3.1-8B",
            {"--swiglu", "--normalization", "--disable-bias-linear"},
            {"--add-qkv-bias", "--qk-layernorm"},
        ),
        (
            "Qwen/Qwen2.5-7B",
            {"--swiglu", "--disable-bias-linear", "--add-qkv-bias"},
            {"--qk-layernorm"},
        ),
        (
            "Qwen/Qwen3-30B-A3B",
            {"--qk-layernorm", "--moe-router-topk", "--moe-ffn-hidden-size"},
            {"--add-qkv-bias"},
        ),
        (
            "openai-community/gpt2",
            {"--lr"},
            {"--swiglu", "--normalization", "--position-embedding-type", "--disable-bias-linear"},
        ),
    ],
)
def test_megatron_is_told_what_layers_compute_and_what_it_cannot_start_without(
    command, model, there, absent
):
    """What it was not told would be a GPT-2 of the same width, with other memory."""
    found = flags(command(model=model, framework="megatron", gpu_count=8))
    assert there | {"--tokenizer-model", "--data-path", "--train-iters", "--lr"} <= set(found)
    assert not absent & set(found)


def test_adapters_and_preferences_under_megatron_are_ms_swifts(command):
    assert " megatron sft --model Qwen/Qwen3-8B" in command(
        framework="megatron", gpu_count=4, method="lora"
    )
    line = command(
        framework="megatron",
        gpu_count=4,
        tensor_parallel=4,
        sequence_parallel=True,
        algorithm="dpo",
    )
    assert " megatron rlhf --rlhf_type dpo" in line
    assert flags(line)["--tensor_model_parallel_size"] == "4"
    assert flags(line)["--sequence_parallel"] == "true"


def test_ms_swift_is_told_how_many_ranks_share_an_expert_where_megatron_would_know(command):
    asked = {
        "model": "Qwen/Qwen3-30B-A3B",
        "framework": "megatron",
        "gpu_count": 8,
        "tensor_parallel": 2,
        "expert_parallel": 4,
    }
    assert "--expert-tensor-parallel-size" not in flags(command(**asked))
    assert flags(command(**asked, expert_tensor_parallel=1))["--expert-tensor-parallel-size"] == "1"
    assert flags(command(**asked, method="lora"))["--expert_tensor_parallel_size"] == "2"
    assert "--expert_tensor_parallel_size" not in flags(
        command(**asked, method="lora", expert_tensor_parallel=1)
    )


def test_states_and_parameters_of_megatron_in_few_bits_have_their_flags(command):
    found = flags(
        command(
            framework="megatron",
            gpu_count=2,
            precision="fp8",
            fp8_parameters=True,
            optimizer="adamw_bf16",
        )
    )
    assert {"--fp8-param-gather", "--use-precision-aware-optimizer"} <= set(found)
    assert found["--exp-avg-dtype"] == "bf16"
