"""Measures training steps byte for byte: settings come in as JSON lines, the same lines go out with
`bytes`. Needs torch and transformers.

    python tools/accuracy/measure_steps.py < settings.jsonl >> training_own.jsonl

A row of training_own.jsonl is such a line, so that feeding the file measures it anew. Fake tensors:
nothing is computed and no memory is used, every storage is counted from the operation that makes it
until it is freed. Dropout is CUDA's: it keeps a byte a number (native_dropout), and attention with
dropout writes no scores out, both of which a CPU does otherwise. The model is the architecture its
config names, the loss its own; one without a head gives the mean of its hidden states. Keys that a
line may leave out: `implementation` (of the optimizer: for_loop), `experts` (transformers' choice),
`packed` (sequences of one row, told apart by positions: 1), `layers` (all), `lora_dropout` (0).

A line with `images` (of a sequence, each of `image_tokens` tokens) is computed in earnest, since
towers look at the sizes of images; its model is small and its own: `config`.
`train_vision_tower`: false freezes the tower, not the projector. A line with `kernels: unsloth`
runs Unsloth's layers (unsloth_layers.py), of the checkout that UNSLOTH names. A line with
`routing` (of a small mixture of its own: even, or every token to the same experts: one) or
`padded` (the last sequence has padding) is computed in earnest too. Optimizers in 8 bit are
bitsandbytes'."""

import contextlib
import importlib
import json
import math
import sys
import warnings
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import transformers
from step_models import build
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary
from transformers import masking_utils

AUTOCAST = {"amp": torch.bfloat16, "amp16": torch.float16, "half_base": torch.bfloat16}
"""half_base: under it a frozen base in bf16, with adapters in fp32, as PEFT makes them
(autocast_adapter_dtype)."""


class Fake(FakeTensorMode):
    """Fake tensors hold no values; asked for one, they say 1: true of a mask that hides nothing,
    and any size of an update will do."""

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 1.0 if args[0].dtype.is_floating_point else 1
        return super().dispatch(func, types, args, kwargs)


@contextlib.contextmanager
def cuda_dropout() -> Iterator[None]:
    """Dropout as CUDA keeps it. Source: pytorch aten/src/ATen/native/Dropout.cpp
    (is_fused_kernel_acceptable), attention.cpp."""
    functional = torch.nn.functional
    attention, dropout = functional.scaled_dot_product_attention, functional.dropout

    def undropped(*args: Any, dropout_p: float = 0.0, **kwargs: Any) -> torch.Tensor:
        return attention(*args, dropout_p=0.0, **kwargs)

    def fused(
        x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        return torch.native_dropout(x, p, True)[0] if training and p else x

    functional.scaled_dot_product_attention, functional.dropout = undropped, fused
    try:
        yield
    finally:
        functional.scaled_dot_product_attention, functional.dropout = attention, dropout


class Live(TorchDispatchMode):
    """Bytes of storages that operations made and nobody has let go of yet, and the most there
    were."""

    def __init__(self, inputs_: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen = WeakIdKeyDictionary({tensor.untyped_storage(): 0 for tensor in inputs_})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage() not in self._seen:
                storage = tensor.untyped_storage()
                self._seen[storage] = size = storage.nbytes()
                self.live += size
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self._gone, size)
        return result

    def _gone(self, size: int) -> None:
        self.live -= size


def inputs(model: Any, row: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return what the architecture is given: tokens and labels, sounds and labels, or tokens
    alone."""
    config, architecture = model.config.get_text_config(), type(model).__name__
    tokens = torch.zeros((row["batch"], row["seq"]), dtype=torch.long)
    if config.model_type == "whisper":
        frames = 2 * config.max_source_positions
        return {
            "input_features": torch.zeros(
                (row["batch"], config.num_mel_bins, frames), dtype=model.dtype
            ),
            "labels": tokens,
        }
    if row.get("routing") == "even":
        tokens.random_(config.vocab_size)
    batch = {"input_ids": tokens} | (seen(model, row, tokens) if row.get("images") else {})
    if row.get("padded"):  # a quarter of the last sequence
        batch["attention_mask"] = torch.ones_like(tokens)
        batch["attention_mask"][-1, -row["seq"] // 4 :] = 0
    if row.get("packed", 1) > 1:
        batch["position_ids"] = (torch.arange(row["seq"]) % (row["seq"] // row["packed"])).expand(
            row["batch"], -1
        )
    if "Classification" in architecture:
        return batch | {"labels": tokens[:, 0].contiguous()}
    headless = architecture.endswith(("Model", "Encoder")) and not architecture.endswith(
        "LMHeadModel"
    )
    return batch if headless else batch | {"labels": tokens}


def seen(model: Any, row: dict[str, Any], tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Square images as the family's processor hands them over, and their places written into
    `tokens`, a word after each."""
    config, count, number = model.config, row["images"] * row["batch"], row["image_tokens"]
    for start in range(0, row["images"] * (number + 1), number + 1):
        tokens[:, start : start + number] = config.image_token_id
    vision, kinds = config.vision_config, (tokens == config.image_token_id).int()
    merge = (
        getattr(vision, "spatial_merge_size", None)
        or getattr(config, "spatial_merge_size", None)
        or 2
    )
    side = math.isqrt(number) * merge
    match config.model_type:
        case "mistral3":
            pixels = side * vision.patch_size
            return {
                "pixel_values": torch.zeros((count, 3, pixels, pixels)),
                "image_sizes": torch.tensor([[pixels, pixels]] * count),
            }
        case "llava_next":  # two tiles by two, and the whole
            pixels = torch.zeros((count, 5, 3, vision.image_size, vision.image_size))
            return {
                "pixel_values": pixels,
                "image_sizes": torch.tensor([[2 * vision.image_size] * 2] * count),
            }
        case "idefics3" | "smolvlm":  # which drop images that are all zeros
            return {
                "pixel_values": torch.ones(
                    (row["batch"], row["images"], 3, vision.image_size, vision.image_size)
                )
            }
        case "gemma4":
            side = math.isqrt(number) * vision.pooling_kernel_size
            places = torch.stack(
                torch.meshgrid(torch.arange(side), torch.arange(side), indexing="xy"), -1
            ).reshape(1, -1, 2)
            pixels = torch.zeros((count, side**2, 3 * vision.patch_size**2))
            return {
                "pixel_values": pixels,
                "image_position_ids": places.repeat(count, 1, 1),
                "mm_token_type_ids": kinds,
            }
        case "mllama":  # whose images stand beside the sequence
            tokens.zero_()
            kinds = torch.ones((row["batch"], row["images"]), dtype=torch.long)
            tiles, side = vision.max_num_tiles, vision.image_size
            return {
                "pixel_values": torch.zeros((row["batch"], row["images"], tiles, 3, side, side)),
                "aspect_ratio_ids": 6 * kinds,  # two tiles by two
                "aspect_ratio_mask": kinds[..., None].repeat(1, 1, tiles),
                "cross_attention_mask": torch.ones((*tokens.shape, row["images"], tiles)),
            }
        case "kimi_k25":
            pixels = torch.zeros(
                (count * side**2, 3, vision.patch_size, vision.patch_size), dtype=model.dtype
            )
            return {
                "pixel_values": pixels,
                "image_grid_thw": torch.tensor([[1, side, side]] * count),
            }
    if not hasattr(vision, "spatial_merge_size"):
        side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
        inputs_ = {
            "pixel_values": torch.zeros(
                (count, 3, side, side), dtype=model.dtype if config.model_type == "llama4" else None
            )
        }
        return inputs_ | ({"token_type_ids": kinds} if config.model_type == "gemma3" else {})
    numbers = 3 * vision.temporal_patch_size * vision.patch_size**2
    grid = torch.tensor([[1, side, side]] * count)
    return {
        "pixel_values": torch.zeros((count * side**2, numbers)),
        "image_grid_thw": grid,
        "mm_token_type_ids": kinds,
    }


def loss_of(output: Any) -> torch.Tensor:
    """Return the model's own loss, or the mean of its hidden states."""
    loss = output.get("loss")
    if loss is not None:
        return loss
    pooled = output.get("pooler_output")
    return output.last_hidden_state.mean() + (0 if pooled is None else pooled.mean())


def optimizer_of(row: dict[str, Any], trained: list[torch.Tensor]) -> Any:
    """Return the optimizer of a row; `implementation` is for_loop where it says nothing."""
    how: dict[str, Any] = {"foreach": row.get("implementation") == "foreach"}
    if row.get("implementation") == "fused":
        how = {"fused": True}
    match row["optimizer"]:
        case "adamw":
            return torch.optim.AdamW(trained, **how)
        case "sgd":
            return torch.optim.SGD(trained, momentum=0.9, **how)
        case "adafactor":
            return torch.optim.Adafactor(trained, **how)
        case "muon":
            return torch.optim.Muon(trained)
        case "adamw_8bit":
            return importlib.import_module("bitsandbytes").optim.AdamW(trained, optim_bits=8)
        case "lion_8bit":
            return importlib.import_module("bitsandbytes").optim.Lion(trained, optim_bits=8)
        case name:
            raise ValueError(f"no optimizer {name}")


def measure(row: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of one step: see tools/accuracy/README.md."""
    if row.get("packed", 1) == 1:  # fake tensors hold no values to look for
        masking_utils.find_packed_sequence_indices = lambda position_ids: None
    with (
        (
            contextlib.nullcontext()
            if row.get("images") or row.get("padded") or "routing" in row
            else Fake(allow_non_fake_inputs=True)
        ),
        cuda_dropout(),
    ):
        model = build(row)
        parameters = list(model.parameters())
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        optimizer, inputs_ = optimizer_of(row, trained), inputs(model, row)
        pixels = inputs_.get("pixel_values")
        live = Live(parameters if pixels is None else [*parameters, pixels])
        live.live = live.peak = 0 if pixels is None else _size(pixels)
        sizes: dict[str, int] = {}
        half = AUTOCAST.get(row["regime"])
        with live:
            with torch.autocast("cpu", dtype=half) if half else contextlib.nullcontext():
                output = model(**inputs_)
                loss = loss_of(output)
            del output  # as transformers' Trainer lets it go (trainer.py, compute_loss)
            sizes |= {"after_forward": live.live, "forward_peak": live.peak}
            live.peak = live.live
            loss.backward()
            sizes["backward_peak"] = live.peak
            del loss
            gradients = sum(
                _size(parameter.grad) for parameter in trained if parameter.grad is not None
            )
            sizes["after_backward"] = live.peak = live.live
            optimizer.step()
            sizes |= {"step_peak": live.peak, "after_step": live.live}
    states = sum(
        _size(value)
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )
    weights = sum(
        {id(parameter.untyped_storage()): _size(parameter) for parameter in parameters}.values()
    )
    passes = states + max(sizes["forward_peak"], sizes["backward_peak"])
    return sizes | {
        "parameters": weights,
        "n_parameters": sum(parameter.numel() for parameter in parameters),
        "n_trainable": sum(parameter.numel() for parameter in trained),
        "gradients": gradients,
        "optimizer": states,
        "steady_peak": weights + max(passes, sizes["step_peak"]),
    }


def _size(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def measured(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield every line with its bytes and the versions they are of; those that cannot run are
    told on stderr."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for line in lines:
        row = json.loads(line)
        try:
            sizes = measure(row)
        except Exception as error:
            print(line.strip()[:200], "->", type(error).__name__, str(error)[:300], file=sys.stderr)
            continue
        yield row | versions | {"bytes": sizes}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    for row in measured(sys.stdin):
        print(json.dumps(row), flush=True)
