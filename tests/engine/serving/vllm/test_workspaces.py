"""Workspaces that outlive the layers, by the kernel that a GPU takes. Sizes are those of vLLM's
own workspace_shapes (0.24.0, fused_moe/experts/deep_gemm_moe.py), multiplied out by hand."""

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.quantity import MIB
from fitgauge.engine.serving.vllm.workspaces import (
    expert_width,
    padded_expert_bytes,
    retained_workspace,
)
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of

FLASH = "deepseek-ai/DeepSeek-V4-Flash"


def workload(version: tuple[int, int], tensor_parallel: int = 1) -> Workload:
    return workload_of(version=version, max_num_seqs=1024, tensor_parallel=tensor_parallel)


def test_deep_gemm_pads_the_rows_of_every_expert_to_128() -> None:
    """8,192 tokens visit 6 of 256 experts: 49,152 rows, 81,664 as DeepGEMM takes them, each of
    4,096 numbers twice; FlashInfer's attention takes 128 MiB."""
    spec, work = spec_of(FLASH), workload((0, 25), tensor_parallel=2)
    rtx = bundled().find("RTX PRO 6000 Blackwell").accelerator
    assert padded_expert_bytes(spec, work, rtx) == (81_664 - 49_152) * 2 * 2 * 4096
    assert retained_workspace(spec, work, rtx) == 81_664 * 2 * 2 * 4096 + 128 * MIB


@pytest.mark.parametrize(
    ("model", "card", "version"),
    [
        (FLASH, "RTX PRO 6000 Blackwell", (0, 23)),
        (FLASH, "H100 SXM", (0, 33)),
        ("Qwen/Qwen3-30B-A3B-FP8", "B200", (0, 33)),
        ("Qwen/Qwen3-30B-A3B", "RTX 5090", (0, 33)),
        ("openai/gpt-oss-20b", "RTX 5090", (0, 33)),
    ],
)
def test_other_kernels_pad_no_rows(model: str, card: str, version: tuple[int, int]) -> None:
    accelerator = bundled().find(card).accelerator
    assert padded_expert_bytes(spec_of(model), workload(version), accelerator) == 0


def test_experts_in_another_format_than_the_checkpoints_have_other_kernels() -> None:
    rtx = bundled().find("RTX 5090").accelerator
    work = msgspec.structs.replace(workload((0, 33)), requantized=True)
    assert padded_expert_bytes(spec_of("Qwen/Qwen3-30B-A3B-FP8"), work, rtx) == 0


def test_expert_parallel_ranks_pad_the_experts_that_they_hold() -> None:
    spec, rtx = spec_of("Qwen/Qwen3-30B-A3B-FP8"), bundled().find("RTX 5090").accelerator
    work = workload((0, 33), tensor_parallel=4)
    over = msgspec.structs.replace(work, expert_parallel=4)
    rows = 64 * 1024
    assert padded_expert_bytes(spec, work, rtx) == 128 * 127 * 2 * 2 * 2048
    assert (
        padded_expert_bytes(spec, over, rtx)
        == 32 * 127 * 2 * 2 * 2048 + (-(rows + 32 * 127) % 128) * 2 * 2 * 2048
    )


def test_every_layer_that_picks_tokens_has_room_for_those_of_a_batch() -> None:
    """806,879,232 B over 12 layers for 8,192 tokens, as vLLM 0.33 registers topk_indices_buffer
    (printed by its classes on the meta device)."""
    spec, work = spec_of("Qwen/Qwen3.8-Flash-Next"), workload((0, 33))
    half = msgspec.structs.replace(work, max_batched_tokens=4096)
    (experts,) = {block.mlp for block in spec.blocks if block.mlp and block.mlp.experts}
    shared = 4096 * 2 * expert_width(experts, spec.hidden_size, 1, 1)
    grown = retained_workspace(spec, work) - retained_workspace(spec, half)
    assert grown - shared == 806_879_232 // 2
