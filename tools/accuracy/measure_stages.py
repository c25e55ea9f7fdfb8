"""Measures one rank of a pipeline under FSDP2 byte for byte: rows of kind `stage` of
training_parallel.jsonl, in and out.

    python tools/accuracy/measure_stages.py < settings.jsonl >> training_parallel.jsonl

Under a fake process group and fake tensors PyTorch's own schedules run PyTorch's own stages
(torch.distributed.pipelining) of transformers' Llama layers, wrapped as torchtitan does it
(distributed/fsdp.py, apply_fsdp_to_decoder: embedding, layers, norm with head). Nothing is sent:
what a stage receives is never written. `layers`: of this stage; `model_layers`: of the model
that torchtitan would spread so; `bytes`: those of training_fsdp.jsonl, from FSDPMemTracker over
two steps."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import transformers
from measure_steps import cuda_dropout
from step_models import snapshot
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining.stage import InferenceMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers.models.llama.modeling_llama import (
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)

SCHEDULES = {"1f1b": schedules.Schedule1F1B, "gpipe": schedules.ScheduleGPipe}


class Piece(nn.Module):
    """The layers of one stage, with the embedding if it is the first, with norm and head if it
    is the last."""

    def __init__(self, config: Any, row: dict[str, Any]) -> None:
        super().__init__()
        first, last = row["stage"] == 0, row["stage"] == row["stages"] - 1
        layers = [LlamaDecoderLayer(config, number) for number in range(row["layers"])]
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size) if first else None
        self.layers = nn.ModuleList(
            [
                checkpoint_wrapper(layer) if row["checkpointing"] == "full" else layer
                for layer in layers
            ]
        )
        self.norm = LlamaRMSNorm(config.hidden_size) if last else None
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False) if last else None
        self.rotary = LlamaRotaryEmbedding(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of tokens or of the stream, the stream or logits."""
        stream = x if self.embedding is None else self.embedding(x)
        positions = torch.arange(stream.shape[1])[None]
        rotary = self.rotary(stream, positions)
        for layer in self.layers:
            stream = layer(
                stream, position_embeddings=rotary, attention_mask=None, position_ids=positions
            )
        return stream if self.head is None else self.head(self.norm(stream))


def shard(piece: Piece, row: dict[str, Any], mesh: DeviceMesh) -> None:
    """Wrap what torchtitan wraps."""
    reduced = {"fp32": torch.float32, "bf16": torch.bfloat16}[row["reduce"]]
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=reduced, cast_forward_inputs=False
    )
    ends: list[Any] = [piece.embedding] if piece.embedding is not None else []
    ends += [[piece.norm, piece.head]] if piece.head is not None else []
    for module in (*ends, *piece.layers):
        fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=row["reshard"])
    fully_shard(piece, mesh=mesh, mp_policy=policy)


def stage_of(piece: Piece, config: Any, row: dict[str, Any], mesh: DeviceMesh) -> PipelineStage:
    """Return the stage, told what it receives and gives, so that it asks nobody."""
    stream = torch.empty(
        row["batch"], row["seq"], config.hidden_size, dtype=torch.bfloat16, requires_grad=True
    )
    logits = torch.empty(
        row["batch"], row["seq"], config.vocab_size, dtype=torch.bfloat16, requires_grad=True
    )
    if piece.embedding is None:
        inputs = stream
    else:
        inputs = torch.zeros(row["batch"], row["seq"], dtype=torch.long)
    outputs = stream if piece.head is None else logits
    stage = PipelineStage(
        piece,
        row["stage"],
        row["stages"],
        torch.device("cpu"),
        input_args=(inputs,),
        output_args=(outputs,),
        group=mesh.get_group(),
    )
    stage._inference_mode = InferenceMode.STATIC
    return stage


def loss_of(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of logits in fp32."""
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), target.flatten(0, 1))


def measure(row: dict[str, Any]) -> dict[str, int]:
    """Return bytes by kind at the highest moment of two steps on one rank."""
    config = snapshot(row["model"], row["layers"])
    config._attn_implementation, config.use_cache = "sdpa", False
    ranks = (row["stages"], row["data_parallel"])
    dist.init_process_group(
        "fake", rank=row["stage"] * ranks[1], world_size=ranks[0] * ranks[1], store=FakeStore()
    )
    mesh = init_device_mesh("cpu", ranks, mesh_dim_names=("pipeline", "data"))
    silent = {
        "_batch_p2p": lambda ops, desc=None: [],
        "_wait_batch_p2p": lambda work: None,
        "_sorted_batch_p2p": lambda ops, desc=None: {},
    }
    try:
        with (
            patch.multiple(schedules, **silent),
            patch.object(schedules._PipelineSchedule, "_warmup_p2p", lambda *inputs: None),
            FakeTensorMode(allow_non_fake_inputs=True),
            cuda_dropout(),
        ):
            piece = Piece(config, row)
            with unset_fake_temporarily():  # meshes are put together from real numbers
                shard(piece, row, mesh["data"])
            optimizer = torch.optim.AdamW(piece.parameters(), foreach=False)
            stage = stage_of(piece, config, row, mesh["pipeline"])
            schedule = SCHEDULES[row["schedule"]](
                stage, n_microbatches=row["micro_batches"], loss_fn=loss_of, scale_grads=False
            )
            tracker = FSDPMemTracker(piece, optimizer)
            with tracker:
                for step in range(2):
                    tokens = torch.zeros(
                        row["micro_batches"] * row["batch"], row["seq"], dtype=torch.long
                    )
                    inputs = () if piece.embedding is None else (tokens,)
                    targets = {} if piece.head is None else {"target": tokens, "losses": []}
                    schedule.step(*inputs, **targets, return_outputs=False)
                    optimizer.step()
                    optimizer.zero_grad()
                    if step == 0:
                        tracker.reset_mod_stats()
            peak = tracker.get_tracker_snapshot("peak")
    finally:
        dist.destroy_process_group()
    return {
        str(kind).split(".")[-1].lower(): size
        for kind, size in next(iter(peak.values())).items()
        if size
    }


def measured(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield every line of the kind with its bytes and versions."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for line in lines:
        row = json.loads(line)
        if row["kind"] == "stage":
            yield row | {"versions": versions, "bytes": measure(row)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    for row in measured(sys.stdin):
        print(json.dumps(row), flush=True)
