"""The profiling pass's highest moment, held to what vLLM's own runner, model and sampler
allocate in it on the meta device."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.model.mixers import LatentAttention
from fitgauge.engine.serving.vllm.profile_run import (
    attending_peak,
    expanded_bytes,
    profiling_terms,
    workspace_bytes,
)
from fitgauge.engine.serving.vllm.workspaces import retained_workspace
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "profiling_pass.jsonl").read_text().splitlines()
]
H100 = bundled().find("H100 SXM").accelerator
EAGER_COPY = {("Qwen/Qwen3-32B", 64), ("google/gemma-3-1b-it", 64), ("Qwen/Qwen3-30B-A3B", 64)}
"""Rows where the eager pass holds one hidden state more than the compiled one of the logs:
Python's frames keep the last layer's."""


def workload(row: dict[str, Any]) -> Workload:
    return workload_of(
        version=tuple(map(int, row["vllm"].split("."))),
        tensor_parallel=row["tensor_parallel"],
        max_batched_tokens=row["batched"],
        max_num_seqs=row["seqs"],
        context_length=row["context"],
    )


def said(row: dict[str, Any]) -> str:
    return f"{row['model']}-tp{row['tensor_parallel']}-{row['batched']}-{row['seqs']}"


@pytest.mark.parametrize("row", ROWS, ids=said)
def test_the_peak_is_what_vllm_allocates(row: dict[str, Any]) -> None:
    """Without cuBLAS's workspace, which no tensor of the pass is; one hidden state of
    `EAGER_COPY` rows is left out."""
    spec, work = spec_of(row["model"]), workload(row)
    terms = profiling_terms(
        spec, load_engines().profile("vllm", work.engine_version), work, H100, first=True, last=True
    )
    ours = sum(term.bytes for term in terms) - workspace_bytes(H100)
    copy = 2 * row["batched"] * spec.hidden_size if (row["model"], row["seqs"]) in EAGER_COPY else 0
    assert ours + copy == pytest.approx(row["peak"], rel=2e-4)


@pytest.mark.parametrize("row", [row for row in ROWS if row["kept"]], ids=said)
def test_what_the_pass_leaves_is_the_workspace_of_the_experts(row: dict[str, Any]) -> None:
    assert retained_workspace(spec_of(row["model"]), workload(row)) == row["kept"]


def test_mla_expands_eight_contexts_and_at_most_65536_tokens() -> None:
    mixer = LatentAttention(
        query_heads=16, latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128
    )
    row = ROWS[0] | {"tensor_parallel": 2, "seqs": 8}
    assert [
        expanded_bytes(mixer, workload(row | {"context": length}))
        for length in (1024, 8192, 131072)
    ] == [tokens * 8 * 256 * 2 for tokens in (8192, 65536, 65536)]


def test_a_layer_attends_beside_the_workspace_that_the_one_before_left() -> None:
    spec, work = spec_of("Qwen/Qwen3-30B-A3B"), workload(ROWS[0] | {"tensor_parallel": 1})
    profile = load_engines().profile("vllm", work.engine_version)
    assert attending_peak(spec, profile, work, 512) - attending_peak(spec, profile, work, 0) == 512


def test_cards_without_flashinfer_hold_fewer_copies_of_the_logits() -> None:
    """FlashInfer's sampler is for compute capability 8.0 to 12.1 in 0.33; a V100's or an
    MI300X's masks the copy in place."""
    spec, work = spec_of("google/gemma-3-1b-it"), workload(ROWS[0])
    profile = load_engines().profile("vllm", work.engine_version)
    sizes = [
        sum(
            term.bytes
            for term in profiling_terms(
                spec, profile, work, bundled().find(name).accelerator, first=True, last=True
            )
        )
        for name in ("A100 80GB", "V100", "MI300X")
    ]
    assert sizes[1] == sizes[2] < 0.6 * sizes[0]


@pytest.mark.parametrize(
    ("card", "version", "keeps"),
    [("H100 SXM", (0, 33), False), ("A100 80GB", (0, 33), True), ("H100 SXM", (0, 14), True)],
)
def test_experts_of_mxfp4_keep_no_workspace_where_one_kernel_runs_them(
    card: str, version: tuple[int, int], keeps: bool
) -> None:
    """vLLM 0.33's pass of gpt-oss-20b on a Hopper leaves 16 MiB, of rotary tables; Marlin, on an
    Ampere, shares a workspace."""
    work = msgspec.structs.replace(workload(ROWS[0]), engine_version=version)
    assert (
        retained_workspace(spec_of("openai/gpt-oss-20b"), work, bundled().find(card).accelerator)
        > 0
    ) == keeps
