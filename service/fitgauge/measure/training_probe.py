"""Train a model for two steps, and print what memory each phase of the second one took.

Runs by itself in the Python that has torch and transformers, and peft for adapters; that need not
have this package. The settings are a JSON object on the command line. On a GPU PyTorch's allocator
counts; on a CPU every storage is counted from the operation that makes it until it is freed."""

import contextlib
import json
import sys
import weakref
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary
from transformers import AutoModelForCausalLM

STORED = {"mixed_bf16": torch.float32, "bf16": torch.bfloat16, "fp32": torch.float32}


class Allocator:
    """What PyTorch's allocator has handed out on the GPU."""

    def __enter__(self) -> "Allocator":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def peak(self) -> int:
        """Return the most since the last call [bytes]."""
        torch.cuda.synchronize()
        most = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return int(most)


class Storages(TorchDispatchMode):  # type: ignore[misc] # torch is not here
    """Bytes of the storages that operations made and that are still referenced, on a CPU."""

    def __init__(self, held: list[torch.Tensor]) -> None:
        super().__init__()
        self.live = self.most = size(held)
        self._seen = WeakIdKeyDictionary({one.untyped_storage(): 0 for one in held})

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor) and one.untyped_storage() not in self._seen:
                storage = one.untyped_storage()
                self._seen[storage] = taken = storage.nbytes()
                self.live += taken
                self.most = max(self.most, self.live)
                weakref.finalize(storage, self._gone, taken)
        return result

    def _gone(self, taken: int) -> None:
        self.live -= taken

    def peak(self) -> int:
        """Return the most since the last call [bytes]."""
        most, self.most = self.most, self.live
        return most


def size(tensors: list[torch.Tensor]) -> int:
    """Return the bytes of tensors; those that share their storage count once."""
    storages = {one.untyped_storage().data_ptr(): one.untyped_storage() for one in tensors}
    return sum(storage.nbytes() for storage in storages.values())


def built(settings: dict[str, Any]) -> torch.nn.Module:
    """Return the model as it is trained."""
    model = AutoModelForCausalLM.from_pretrained(
        settings["model"],
        dtype=torch.bfloat16 if settings["half_base"] else STORED[settings["precision"]],
        attn_implementation=settings["attention"],
    )
    model.config.use_cache = False
    if settings["method"] == "lora":
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(
            r=settings["lora_rank"],
            target_modules=settings["lora_targets"],
            lora_dropout=0.0,
            task_type="CAUSAL_LM",
        )
        # PEFT's default keeps adapters in fp32
        model = get_peft_model(
            model, config, autocast_adapter_dtype=settings["precision"] != "bf16"
        )
    if settings["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    return model.train()


def main(settings: dict[str, Any]) -> None:
    """Print a line of JSON: sizes in bytes."""
    on_gpu = torch.cuda.is_available() and not settings["cpu"]
    model = built(settings).to("cuda" if on_gpu else "cpu")
    trained = [one for one in model.parameters() if one.requires_grad]
    implementation = settings["implementation"]
    optimizer = torch.optim.AdamW(
        trained, foreach=implementation == "foreach", fused=implementation == "fused" or None
    )
    shape = (settings["micro_batch_size"], settings["sequence_length"])
    words = model.config.get_text_config().vocab_size
    tokens = torch.randint(0, words, shape, device=model.device)
    cast = settings["precision"] == "mixed_bf16"
    parameters = list(model.parameters())
    measured = {"weights": size(parameters)}
    counter: Any = Allocator() if on_gpu else Storages([*parameters, *model.buffers()])
    with counter:
        for _ in range(2):  # the second has the optimizer's states from the beginning
            optimizer.zero_grad(set_to_none=True)
            counter.peak()
            autocast = torch.autocast(model.device.type, dtype=torch.bfloat16)
            with autocast if cast else contextlib.nullcontext():
                loss = model(input_ids=tokens, labels=tokens).loss
            measured["forward"] = counter.peak()
            loss.backward()
            del loss
            measured["backward"] = counter.peak()
            measured["gradients"] = size([one.grad for one in trained if one.grad is not None])
            optimizer.step()
            measured["optimizer_step"] = counter.peak()
    measured["optimizer_states"] = size(
        [
            value
            for state in optimizer.state.values()
            for name, value in state.items()
            if name != "step"
        ]
    )
    if on_gpu:
        measured["reserved"] = torch.cuda.max_memory_reserved()
    gpu = torch.cuda.get_device_name() if on_gpu else None
    printed = {"version": version("transformers"), "torch": torch.__version__, "gpu": gpu}
    print("fitgauge-measured " + json.dumps(printed | {"measured": measured}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
