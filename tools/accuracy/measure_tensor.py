"""Measures one rank of tensor parallelism byte for byte: rows of kind `tensor` of
training_parallel.jsonl, in and out.

    python tools/accuracy/measure_tensor.py < settings.jsonl >> training_parallel.jsonl

Under a fake process group and fake tensors: transformers' own tensor parallelism
(apply_tensor_parallelism with the plan of the model: linears by columns and rows, the embedding
whole, logits gathered), or with `sequence_parallel` torchtitan's plan on the same models
(models/llama3/infra/parallelize.py; torch.distributed.tensor.parallel): the stream cut by
tokens, norms on pieces of it, what attention and MLP read gathered, embedding and head by
vocabulary, the loss on pieces (loss_parallel). Settings as those of training_own.jsonl, with
tensor_parallel (ranks). `bytes`: as there, of one rank. With `data_parallel` above 1 FSDP2
shards the pieces once more (layers, and the rest), measured by FSDPMemTracker, gradients reduced
in fp32 or as `reduce` says: `bytes` are then those of training_fsdp.jsonl."""

import contextlib
import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import transformers
from measure_steps import Fake, Live, _size, cuda_dropout, inputs, optimizer_of
from step_models import snapshot
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, _sharding_prop
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import masking_utils
from transformers.distributed import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

_sharding_prop.detect_fake_mode = lambda: None
"""Shapes are propagated on whole fake tensors: under a mode of their own both trackers know that
these are no tensors of the step."""


class LiveHere(Live):
    """What this rank holds: distributed tensors are seen as the pieces they become, waiting
    makes no tensor of its own."""

    def __enter__(self) -> "LiveHere":
        self._mode = active_fake_mode()
        super().__enter__()
        return self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, (DTensor, AsyncCollectiveTensor)) for kind in types):
            return NotImplemented
        if func is torch.ops._c10d_functional.wait_tensor.default:
            return args[0]
        if active_fake_mode() is not self._mode:
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


def divide(model: Any, mesh: DeviceMesh) -> None:
    """Cut a model as torchtitan's plan does: the stream by tokens, linears as the config's plan
    says, embedding and head by vocabulary."""
    stream = Shard(1)
    plan: dict[str, Any] = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
        "lm_head": ColwiseParallel(
            input_layouts=stream, output_layouts=Shard(-1), use_local_output=False
        ),
    }
    styles = {"colwise": ColwiseParallel(), "rowwise": RowwiseParallel(output_layouts=stream)}
    plan |= {
        f"model.{name}": styles[style]
        for name, style in model.config.base_model_tp_plan.items()
        if style in styles
    }
    plan |= {
        name: SequenceParallel(use_local_output=True)
        for name, module in model.named_modules()
        if type(module).__name__.endswith("RMSNorm") and "self_attn" not in name
    }
    named = {
        "input_kwarg_layouts": {"hidden_states": stream},
        "desired_input_kwarg_layouts": {"hidden_states": Replicate()},
    }
    plan["model.layers.*.self_attn"] = PrepareModuleInput(**named, use_local_output=True)
    plan["model.layers.*.mlp"] = PrepareModuleInput(
        input_layouts=(stream,), desired_input_layouts=(Replicate(),), use_local_output=True
    )
    parallelize_module(model, mesh, plan)


def build(row: dict[str, Any], mesh: DeviceMesh) -> Any:
    """Return the model of a row, in training, with its pieces and checkpoints."""
    config = snapshot(row["model"], row["layers"])
    config._attn_implementation, config.use_cache = row["attn"], False
    dtype = torch.float32 if row["regime"] in ("fp32", "mixed_bf16") else torch.bfloat16
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.train()
    if row["sequence_parallel"]:
        divide(model, mesh)
    else:
        plan, _, _ = model._resolve_parallel_plans(
            DistributedConfig(tp_size=row["tensor_parallel"])
        )
        apply_tensor_parallelism(model, mesh, plan)
    if row["checkpointing"] == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def measure_sharded(row: dict[str, Any]) -> dict[str, int]:
    """Return bytes by kind at the highest moment of two steps on one rank of tensor parallelism
    and FSDP2."""
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    ranks = (row["data_parallel"], row["tensor_parallel"])
    dist.init_process_group("fake", rank=0, world_size=ranks[0] * ranks[1], store=FakeStore())
    mesh = init_device_mesh("cpu", ranks, mesh_dim_names=("data", "tensor"))
    data, tensor = mesh["data"], mesh["tensor"]
    mixed = row["regime"] == "mixed_bf16"
    reduced = {"fp32": torch.float32, "bf16": torch.bfloat16}[row.get("reduce", "fp32")]
    if mixed:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced)
    else:
        policy = MixedPrecisionPolicy()
    sharding = {"mesh": data, "mp_policy": policy, "reshard_after_forward": row["reshard"]}
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), cuda_dropout(), loss_parallel():
            model = build(row, tensor)
            with unset_fake_temporarily():  # meshes are put together from real numbers
                for module in (*model.model.layers, model):
                    fully_shard(module, **sharding)
            optimizer, batch = optimizer_of(row, list(model.parameters())), inputs(model, row)
            batch["position_ids"] = torch.arange(row["seq"]).expand(row["batch"], -1)
            tracker = FSDPMemTracker(model, optimizer)
            tracker.track_inputs(tuple(batch.values()))
            with tracker:
                for step in range(2):
                    output = model(**batch)
                    loss = output.loss
                    del output
                    loss.backward()
                    del loss
                    optimizer.step()
                    optimizer.zero_grad()
                    if step == 0:
                        tracker.reset_mod_stats()
            peak = tracker.get_tracker_snapshot("peak")
            rest = tracker.get_tracker_snapshot("current")
    finally:
        dist.destroy_process_group()
    kinds = {
        str(kind).split(".")[-1].lower(): size
        for kind, size in next(iter(peak.values())).items()
        if size
    }
    return kinds | {"resident": next(iter(rest.values()))["Total"]}


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the piece of this rank."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def measure(row: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of one step on one rank."""
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    dist.init_process_group("fake", rank=0, world_size=row["tensor_parallel"], store=FakeStore())
    mesh = init_device_mesh("cpu", (row["tensor_parallel"],))
    try:
        with Fake(allow_non_fake_inputs=True), cuda_dropout():
            model = build(row, mesh)
            parameters = list(model.parameters())
            optimizer, batch = optimizer_of(row, parameters), inputs(model, row)
            batch["position_ids"] = torch.arange(row["seq"]).expand(
                row["batch"], -1
            )  # a cut stream does not tell them
            live = LiveHere([local(parameter) for parameter in parameters])
            sizes: dict[str, int] = {}
            with live, loss_parallel() if row["sequence_parallel"] else contextlib.nullcontext():
                output = model(**batch)
                loss = output.loss
                del output  # as transformers' Trainer lets it go
                sizes |= {"after_forward": live.live, "forward_peak": live.peak}
                live.peak = live.live
                loss.backward()
                sizes["backward_peak"] = live.peak
                del loss
                gradients = sum(_size(local(parameter.grad)) for parameter in parameters)
                sizes["after_backward"] = live.peak = live.live
                optimizer.step()
                sizes |= {"step_peak": live.peak, "after_step": live.live}
    finally:
        dist.destroy_process_group()
    states = sum(
        _size(local(value))
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )
    weights = sum({id(local(p).untyped_storage()): _size(local(p)) for p in parameters}.values())
    passes = states + max(sizes["forward_peak"], sizes["backward_peak"])
    return sizes | {
        "parameters": weights,
        "gradients": gradients,
        "optimizer": states,
        "steady_peak": weights + max(passes, sizes["step_peak"]),
    }


def measured(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield every line of the kind with its bytes and versions; those that cannot run are told
    on stderr."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for line in lines:
        row = json.loads(line)
        if row["kind"] != "tensor":
            continue
        try:
            yield row | {
                "versions": versions,
                "bytes": (measure if row["data_parallel"] == 1 else measure_sharded)(row),
            }
        except Exception as error:
            print(line.strip()[:200], "->", type(error).__name__, str(error)[:300], file=sys.stderr)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    for row in measured(sys.stdin):
        print(json.dumps(row), flush=True)
