"""Measures one rank of context parallelism byte for byte: rows of kind `context` of
training_parallel.jsonl, in and out.

    python tools/accuracy/measure_context.py < settings.jsonl >> training_parallel.jsonl

Under a fake process group and fake tensors, on transformers' models. `way` ring: PyTorch's
context_parallel with accelerate's hooks, keys and values gathered once, which is PyTorch's
default (a rotation by all-to-all holds those of two ranks at most). `way` ulysses: DeepSpeed's
UlyssesSPAttentionHF, which exchanges tokens for heads. Attention is FlashAttention's operator as
CUDA has it, on fake tensors; labels are shifted before they are cut, as transformers' Trainer
and DeepSpeed's data loader do. Settings as those of training_own.jsonl, with context_parallel
(ranks), `place` (which rank: under the ring's balance of load they do not do the same) and
`loss`: its own, or none (no final norm, so that the layers' own peak shows). Ulysses needs
deepspeed."""

import contextlib
import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import transformers
from measure_steps import Fake, _size, cuda_dropout, optimizer_of
from measure_tensor import LiveHere
from step_models import snapshot
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import masking_utils
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class Ended(torch.autograd.Function):
    """A loss that makes nothing but the gradient of the hidden states."""

    @staticmethod
    def forward(context: Any, hidden: torch.Tensor) -> torch.Tensor:
        context.like = hidden.shape, hidden.dtype
        return torch.empty(())

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> torch.Tensor:
        shape, dtype = context.like
        return torch.empty(shape, dtype=dtype)


@contextlib.contextmanager
def flash_attention() -> Iterator[None]:
    """SDPA by the operator that CUDA takes: it keeps its inputs, its output and the log of the
    sums, for as few key heads as there are."""
    functional = torch.nn.functional
    before = functional.scaled_dot_product_attention

    def flash(
        *batch: Any, is_causal: bool = False, scale: float | None = None, **kwargs: Any
    ) -> torch.Tensor:
        if torch.is_autocast_enabled("cpu"):
            batch = tuple(part.to(torch.get_autocast_dtype("cpu")) for part in batch)
        return torch.ops.aten._scaled_dot_product_flash_attention(
            *batch, 0.0, is_causal, scale=scale
        )[0]

    flash.__name__ = (  # by which context_parallel puts its own in place
        "scaled_dot_product_attention"
    )
    functional.scaled_dot_product_attention = flash
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = before


def build(row: dict[str, Any]) -> Any:
    """Return the model of a row, in training."""
    config = snapshot(row["model"], row["layers"])
    config._attn_implementation, config.use_cache = "sdpa", False
    dtype = torch.float32 if row["regime"] == "amp" else torch.bfloat16
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.train()
    if row["checkpointing"] == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def exchange_heads(model: Any, row: dict[str, Any], group: Any) -> None:
    """Put DeepSpeed's attention in the place of transformers', as accelerate does under
    DeepSpeed."""
    from deepspeed import comm
    from deepspeed.runtime.sequence_parallel import parallel_state_sp
    from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

    plain = SimpleNamespace(
        initialize_sequence_parallel=lambda sequence_parallel_size: None,
        get_sequence_parallel_group=lambda: group,
        get_sequence_parallel_world_size=lambda: row["context_parallel"],
    )
    for name, value in vars(plain).items():
        setattr(parallel_state_sp, name, value)
    comm.init_distributed("fake", auto_mpi_discovery=False, dist_init_required=False)
    UlyssesSPAttentionHF.register_with_transformers(
        model_name_or_path=model,
        core_attn_implementation="sdpa",
        sequence_parallel_size=row["context_parallel"],
        micro_batch_size=row["batch"],
        seq_length=row["seq"],
        seq_length_is_variable=False,
    )


def batch_of(row: dict[str, Any], length: int) -> dict[str, torch.Tensor]:
    """Return tokens, their places, and labels that are shifted already."""
    tokens = torch.zeros((row["batch"], length), dtype=torch.long)
    places = torch.arange(length).expand(row["batch"], -1).clone()
    return {"input_ids": tokens, "position_ids": places, "shift_labels": tokens.clone()}


@contextlib.contextmanager
def divided(model: Any, row: dict[str, Any], mesh: Any) -> Iterator[dict[str, torch.Tensor]]:
    """Provide what a rank is given, while attention is divided."""
    if row["way"] == "ulysses":
        before = ALL_ATTENTION_FUNCTIONS["sdpa"]
        exchange_heads(model, row, mesh.get_group())
        yield batch_of(row, row["seq"] // row["context_parallel"])
        ALL_ATTENTION_FUNCTIONS["sdpa"] = before
        return
    from accelerate.big_modeling import _attach_context_parallel_hooks

    _attach_context_parallel_hooks(model)
    batch = batch_of(row, row["seq"])
    buffers = list(batch.values())
    with context_parallel(
        mesh, buffers=buffers, buffer_seq_dims=[1] * len(buffers), no_restore_buffers=set(buffers)
    ):
        yield batch


def measure(row: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of one step on one rank."""
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    ranks = row["context_parallel"]
    dist.init_process_group("fake", rank=row["place"], world_size=ranks, store=FakeStore())
    mesh = init_device_mesh("cpu", (ranks,))
    half = torch.bfloat16 if row["regime"] == "amp" else None
    try:
        with Fake(allow_non_fake_inputs=True), cuda_dropout(), flash_attention():
            model = build(row)
            parameters = list(model.parameters())
            optimizer = optimizer_of(row, parameters)
            with divided(model, row, mesh) as batch:
                if row["loss"] == "none":
                    model.model.norm = torch.nn.Identity()
                    model = model.model
                    batch = {name: value for name, value in batch.items() if name != "shift_labels"}
                live = LiveHere([*parameters, *batch.values()])
                sizes: dict[str, int] = {}
                with live:
                    with torch.autocast("cpu", dtype=half) if half else contextlib.nullcontext():
                        if row["loss"] == "none":
                            output = model(**batch)
                        else:
                            output = model(**batch, labels=batch["shift_labels"])
                        if row["loss"] == "none":
                            loss = Ended.apply(output.last_hidden_state)
                        else:
                            loss = output.loss
                        del output  # as transformers' Trainer lets it go
                    sizes |= {"after_forward": live.live, "forward_peak": live.peak}
                    live.peak = live.live
                    loss.backward()
                    sizes["backward_peak"] = live.peak
                    del loss
                    gradients = sum(
                        _size(parameter.grad)
                        for parameter in parameters
                        if parameter.grad is not None
                    )
                    sizes["after_backward"] = live.peak = live.live
                    optimizer.step()
                    sizes |= {"step_peak": live.peak, "after_step": live.live}
    finally:
        dist.destroy_process_group()
    states = sum(
        _size(value)
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )
    weights = sum(_size(parameter) for parameter in parameters)
    passes = states + max(sizes["forward_peak"], sizes["backward_peak"])
    steady = weights + max(passes, sizes["step_peak"])
    return sizes | {
        "parameters": weights,
        "gradients": gradients,
        "optimizer": states,
        "steady_peak": steady,
    }


def measured(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield every line of the kind with its bytes and versions; those that cannot run are told
    on stderr."""
    for line in lines:
        row = json.loads(line)
        if row["kind"] != "context":
            continue
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        if row["way"] == "ulysses":
            import deepspeed

            versions["deepspeed"] = deepspeed.__version__
        try:
            yield row | {"versions": versions, "bytes": measure(row)}
        except Exception as error:
            print(line.strip()[:200], "->", type(error).__name__, str(error)[:300], file=sys.stderr)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    for row in measured(sys.stdin):
        print(json.dumps(row), flush=True)
