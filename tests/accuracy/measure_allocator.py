"""Records two training steps and plays what they take and let go of on the allocator's rules: JSON
lines in, the same with `bytes` out.

    python tests/accuracy/measure_allocator.py < tests/accuracy/training_allocator.jsonl

Settings are those of measure_steps.py, whose fake tensors these are; `bytes`: `allocated`, the
most at once, and `reserved` after two steps (gradients let go of after each). What the rules are
is not measured here (engine/training/allocator/caching.py), but what is asked of them: the
engine plays its own tapes, this PyTorch's operations. Scratch within a kernel is in neither.
Needs torch and transformers."""

import contextlib
import json
import sys
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import torch
import transformers
from measure_steps import AUTOCAST, Fake, build, cuda_dropout, inputs, loss_of, optimizer_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary
from transformers import masking_utils

from fitgauge.engine.training.allocator.caching import Block, CachingAllocator
from fitgauge.engine.training.allocator.process import STEPS


class Recorded(TorchDispatchMode):
    """Every storage larger than 1 MiB that an operation makes takes a block, until nobody holds
    it."""

    def __init__(self, given: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.allocator = CachingAllocator()
        self._seen = WeakIdKeyDictionary()
        for tensor in given:
            self._take(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self._take(tensor)
        return made

    def _take(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage not in self._seen:
            self._seen[storage] = True
            if storage.nbytes() > 2**20:
                weakref.finalize(storage, self._give, self.allocator.take(storage.nbytes()))

    def _give(self, block: Block) -> None:
        self.allocator.give(block)


def measure(row: dict[str, Any]) -> dict[str, int]:
    """Return bytes allocated and reserved."""
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    with Fake(allow_non_fake_inputs=True), cuda_dropout():
        model = build(row)
        parameters = list(model.parameters())
        optimizer = optimizer_of(
            row, [parameter for parameter in parameters if parameter.requires_grad]
        )
        given, half = inputs(model, row), AUTOCAST.get(row["regime"])
        with Recorded(parameters) as recorded:
            for _ in range(STEPS):
                with torch.autocast("cpu", dtype=half) if half else contextlib.nullcontext():
                    output = model(**given)
                    loss = loss_of(output)
                loss.backward()
                del output, loss
                optimizer.step()
                optimizer.zero_grad()
            return {
                "allocated": recorded.allocator.most_allocated,
                "reserved": recorded.allocator.reserved,
            }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(asked | versions | {"bytes": measure(asked)}), flush=True)
