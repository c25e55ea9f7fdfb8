"""Measures what a rank keeps on its GPU and in host memory: rows of kind `offload` of
training_parallel.jsonl, in and out.

    DS_ACCELERATOR=cpu LOCAL_RANK=0 python tools/accuracy/measure_offload.py \\
        < settings.jsonl >> training_parallel.jsonl

DeepSpeed or FSDP2 themselves, on a CPU under a fake process group, real tensors, a small model
of the architecture `config` names. Which device a tensor is meant for shows in how it is made:
the GPU is called cpu:0, host memory is cpu. What is made of tensors is where they are; what is
copied or pinned is where it goes. One row a process. Settings: framework (deepspeed | fsdp),
config (of transformers), zero_stage, offload (optimizer; parameters: of both; none), ranks, seq,
batch, micro_batches; overlap of DeepSpeed, regime and checkpointing of FSDP. `bytes`: on the
GPU between steps, and the most in a third step: in host memory (page-locked memory by the
blocks of PyTorch's allocator), and on the GPU in the passes and in the step."""

import importlib.metadata
import json
import sys
import warnings
import weakref
from typing import Any

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.fsdp._fully_shard import _fully_shard
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary
from transformers import masking_utils

DEVICE = torch.device("cpu", 0)


def block(size: int) -> int:
    """Return what PyTorch's allocator of page-locked memory takes for so many bytes
    (ATen/core/CachingHostAllocator.h)."""
    return 1 << (size - 1).bit_length() if size else 0


class Held:
    """A storage's place and size."""

    def __init__(self, place: str) -> None:
        self.place, self.size = place, 0


class Places(TorchDispatchMode):
    """Where every storage is meant to be: `card`, `host` or `pinned`; how much of each is alive,
    and the most on the GPU (`peak`) and off it (`most`, page-locked memory by its blocks)."""

    def __init__(self) -> None:
        super().__init__()
        self.held = WeakIdKeyDictionary()
        self.alive = dict.fromkeys(("card", "host", "pinned", "blocks"), 0)
        self.peak = self.most = 0
        grow = torch.UntypedStorage.resize_

        def resized(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
            if storage in self.held:
                self._size(self.held[storage], size)
            return grow(storage, size)

        torch.UntypedStorage.resize_ = resized

    def put(self, tensor: torch.Tensor, place: str) -> None:
        """Say where a tensor is; the first word holds."""
        if isinstance(tensor, DTensor):
            return
        storage = tensor.untyped_storage()
        if storage not in self.held and tensor.device.type != "meta":
            self.held[storage] = held = Held(place)
            self._size(held, storage.nbytes())
            weakref.finalize(storage, self._size, held, 0)

    def of(self, tensor: torch.Tensor) -> str | None:
        """Return where a tensor is, a distributed one by its piece."""
        if isinstance(tensor, DTensor):
            tensor = tensor._local_tensor
        held = self.held.get(tensor.untyped_storage())
        return held.place if held else None

    def _size(self, held: Held, size: int) -> None:
        self.alive[held.place] += size - held.size
        if held.place == "pinned":
            self.alive["blocks"] += block(size) - block(held.size)
        held.size = size
        self.peak = max(self.peak, self.alive["card"])
        self.most = max(self.most, self.alive["host"] + self.alive["blocks"])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        target = (kwargs or {}).get("device")
        sources = [
            self.of(x)
            for x in torch.utils._pytree.tree_leaves((args, kwargs))
            if isinstance(x, torch.Tensor)
        ]
        inherited = "card" if "card" in sources else "host"
        place = (
            inherited
            if target is None or (sources and target.index is None)
            else "card"
            if target.index == 0
            else "host"
        )
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.put(tensor, place)
        return result


def moving(places: Places) -> None:
    """Let Tensor.to and Tensor.cpu copy from one place to the other, which on a CPU they do not,
    and Tensor.device say where one is."""
    of_tensor, plain = torch.Tensor.device.__get__, torch.Tensor.to

    def to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        result = plain(tensor, *args, **kwargs)
        target = kwargs.get("device", args[0] if args else None)
        if target is None or isinstance(target, torch.dtype | torch.Tensor):
            return result
        source, place = places.of(tensor), "card" if torch.device(str(target)) == DEVICE else "host"
        new = result.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()
        if (source == "card") == (place == "card") or (new and places.of(result) == place):
            return result
        with torch.utils._python_dispatch._disable_current_modes():
            moved = torch.empty_like(result).copy_(result)
        places.put(moved, "pinned" if place == "host" and kwargs.get("non_blocking") else place)
        return moved

    torch.Tensor.to = to
    torch.Tensor.cpu = lambda tensor: to(tensor, "cpu")
    torch.Tensor.device = property(
        lambda tensor: DEVICE if places.of(tensor) == "card" else of_tensor(tensor)
    )


def pinned(places: Places) -> Any:
    """Page-locked memory is memory of its own."""

    def pin(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        with torch.utils._python_dispatch._disable_current_modes():
            copy = torch.empty_like(tensor)
            copy.copy_(tensor)
        places.put(copy, "pinned")
        return copy

    return pin


def sharded(row: dict[str, Any]) -> Any:
    """Return the model under FSDP2, with what steps it: a DeepSpeed engine's three calls."""
    mesh = init_device_mesh("cpu", (row["ranks"],))
    _fully_shard._get_device_from_mesh = lambda mesh: DEVICE
    config = transformers.AutoConfig.for_model(**row["config"])
    config._attn_implementation, config.use_cache = "sdpa", False
    mixed = row["regime"] == "mixed_bf16"
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32 if mixed else torch.bfloat16
    )
    model.train()
    if row["checkpointing"] == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if mixed:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    else:
        policy = MixedPrecisionPolicy()
    offload = OffloadPolicy() if row["offload"] == "none" else CPUOffloadPolicy()
    for module in (*model.model.layers, model):
        fully_shard(
            module,
            mesh=mesh,
            mp_policy=policy,
            offload_policy=offload,
            reshard_after_forward=row["zero_stage"] == 3,
        )
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    class Engine:
        def __call__(self, **sources: torch.Tensor) -> Any:
            return model(**sources)

        def backward(self, loss: torch.Tensor) -> None:
            loss.backward()

        def step(self) -> None:
            optimizer.step()
            optimizer.zero_grad()

    return Engine()


def offloading(row: dict[str, Any]) -> Any:
    """Return the model in DeepSpeed's hands, which keep states, or parameters too, in
    page-locked host memory."""
    from measure_zero import engine_of

    host = {"device": "cpu", "pin_memory": True}
    taken = {"none": 0, "optimizer": 1, "parameters": 2}[row["offload"]]
    return engine_of(row, **dict.fromkeys(("offload_optimizer", "offload_param")[:taken], host))


def step(engine: Any, row: dict[str, Any], places: Places) -> dict[str, int]:
    """Return the most on the GPU in every part of one step."""
    peaks = {"forward": 0, "backward": 0}
    tokens = torch.zeros((row["batch"], row["seq"]), dtype=torch.long, device="cpu:0")
    for _ in range(row["micro_batches"]):
        places.peak = places.alive["card"]
        loss = engine(input_ids=tokens, labels=tokens).loss
        peaks["forward"] = max(peaks["forward"], places.peak)
        places.peak = places.alive["card"]
        engine.backward(loss)
        del loss
        peaks["backward"] = max(peaks["backward"], places.peak)
        places.peak = places.alive["card"]
        engine.step()
    return peaks | {"step": places.peak}


def measure(row: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of the third step on the GPU, and what lies in host memory after it."""
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    dist.init_process_group("fake", rank=0, world_size=row["ranks"], store=FakeStore())
    places = Places()
    if row["framework"] == "deepspeed":
        from deepspeed.accelerator import get_accelerator

        accelerator = get_accelerator()
        accelerator.current_device_name = lambda: "cpu:0"
        accelerator.device_name = lambda device_index=None: (
            "cpu" if device_index is None else "cpu:0"
        )
        accelerator.pin_memory = pinned(places)
        accelerator.on_accelerator = lambda tensor: places.of(tensor) == "card"
    else:
        torch.Tensor.pin_memory = pinned(places)
        torch.Tensor.is_pinned = lambda tensor, *device: places.of(tensor) == "pinned"
    moving(places)
    with places:
        engine = (offloading if row["framework"] == "deepspeed" else sharded)(row)
        for _ in range(2):
            step(engine, row, places)
        on_device, places.most = places.alive["card"], 0
        peaks = step(engine, row, places)
    return {"card": on_device, "host": places.most} | peaks


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    row = json.loads(sys.stdin.readline())
    if row["framework"] == "deepspeed":
        versions["deepspeed"] = importlib.metadata.version("deepspeed")
    print(json.dumps(row | {"versions": versions, "bytes": measure(row)}))
